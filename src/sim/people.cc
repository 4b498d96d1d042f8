#include "sim/people.h"

#include <fmt/format.h>

#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"

namespace moor::sim {

using namespace std::chrono_literals;
namespace lh = model::longhorn;

namespace {

constexpr int kMostTries = 2000;

registry::WriteOptions by_people() {
  registry::WriteOptions options;
  options.field_manager = "people";
  return options;
}

template <class T>
registry::ResourceName named(const std::string& name) {
  return {&control::kind_of<T>(), "longhorn-system", name, ""};
}

}  // namespace

std::string volume_name(std::uint32_t number) {
  return fmt::format("volume-{}", number);
}

People::People(Context& context, RegistryLink::Servers& servers)
    : process_(context.scheduler, "people", wall_offset_),
      caller_(context, process_, context.network.add("people")),
      registry_(caller_, servers, {"admin", {"system:masters"}, ""}),
      group_(process_) {}

People::~People() {
  caller_.sever();
  process_.die();
  group_.cancel();
  process_.unwind([this] { return group_.running() == 0; });
}

void People::wish(const Wish& wish, std::uint64_t volume_bytes) {
  const std::string volume = volume_name(wish.volume);
  switch (wish.kind) {
    case WishKind::create_volume: return group_.spawn(create(volume, volume_bytes, wish.replicas));
    case WishKind::delete_volume: return group_.spawn(remove(volume));
    case WishKind::attach:
      return group_.spawn(patch(volume, wish.ticket,
                                Json::object({{"id", wish.ticket},
                                              {"type", wish.type.empty() ? "csi-attacher" : wish.type},
                                              {"nodeID", fmt::format("node-{}", wish.node)}})));
    case WishKind::detach: return group_.spawn(patch(volume, wish.ticket, std::nullopt));
    case WishKind::open_client:
    case WishKind::close_client: return;
  }
}

Task<Result<void>> People::create(std::string volume, std::uint64_t bytes, std::uint32_t replicas) {
  const CancelToken token = group_.token();
  for (int tries = 0; tries < kMostTries; ++tries) {
    Json object =
        Json::object({{"metadata", Json::object({{"name", volume}, {"namespace", "longhorn-system"}})},
                      {"spec", Json::object({{"size", std::to_string(bytes)},
                                             {"numberOfReplicas", static_cast<std::int64_t>(replicas)}})}});
    auto made = co_await registry_.create(named<lh::Volume>(""), std::move(object), by_people());
    if (made || made.is(Errc::already_exists)) break;
    CO_TRY_VOID(co_await sleep_for(process_, 500ms, token));
  }
  co_return Result<void>();
}

Task<Result<void>> People::remove(std::string volume) {
  const CancelToken token = group_.token();
  for (int tries = 0; tries < kMostTries; ++tries) {
    auto gone = co_await registry_.remove(named<lh::Volume>(volume), {});
    if (gone || gone.is(Errc::not_found)) break;
    CO_TRY_VOID(co_await sleep_for(process_, 500ms, token));
  }
  co_return Result<void>();
}

Task<Result<void>> People::patch(std::string volume, std::string ticket, std::optional<Json> value) {
  const CancelToken token = group_.token();
  Json tickets = Json::object();
  tickets.set(ticket, value ? *value : Json());
  const Json patch = Json::object({{"spec", Json::object({{"attachmentTickets", std::move(tickets)}})}});
  for (int tries = 0; tries < kMostTries; ++tries) {
    auto done = co_await registry_.patch(named<lh::VolumeAttachment>(volume), registry::PatchType::merge,
                                         patch, by_people());
    if (done || (!value && done.is(Errc::not_found))) break;
    if (done.is(Errc::invalid) || done.is(Errc::forbidden)) break;
    CO_TRY_VOID(co_await sleep_for(process_, 500ms, token));
  }
  co_return Result<void>();
}

}  // namespace moor::sim
