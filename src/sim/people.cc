#include "sim/people.h"

#include <fmt/format.h>

#include <cstdlib>

#include "model/longhorn/setting.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "model/time.h"

namespace moor::sim {

using namespace std::chrono_literals;
namespace lh = model::longhorn;

namespace {

constexpr int kMostTries = 2000;
constexpr int kCounts = 60;  // of each clerk
constexpr const char* kCount = "example.org/count";

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

std::int64_t count_of(const Json& volume) {
  const Json* annotations = volume.find_path({"metadata", "annotations"});
  const auto text = annotations == nullptr ? std::nullopt : annotations->get_string(kCount);
  return text ? std::atoll(std::string(*text).c_str()) : 0;
}

People::People(Context& context, RegistryLink::Servers& servers)
    : process_(context.scheduler, "people", wall_offset_),
      caller_(context, process_, context.network.add("people")),
      registry_(caller_, servers, {"admin", {"system:masters"}, ""}),
      group_(process_) {
  context.network.set_prompt(caller_.machine());
}

People::~People() {
  caller_.sever();
  process_.die();
  group_.cancel();
  process_.unwind([this] { return group_.running() == 0; });
}

void People::wish(const Wish& wish, std::uint64_t volume_bytes) {
  const std::string volume = volume_name(wish.volume);
  switch (wish.kind) {
    case WishKind::create_volume: deleted_.erase(volume); return group_.spawn(create(wish, volume_bytes));
    case WishKind::delete_volume: deleted_.insert(volume); return group_.spawn(remove(volume));
    case WishKind::attach: return group_.spawn(patch(volume, wish.ticket, ticket_of(wish)));
    case WishKind::retarget:
      return group_.spawn(
          patch(volume, wish.ticket, Json::object({{"nodeID", fmt::format("node-{}", wish.node)}})));
    case WishKind::set_parameter: {
      Json parameters = Json::object();
      for (const auto& [name, value] : wish.parameters) parameters.set(name, Json(value));
      return group_.spawn(patch(volume, wish.ticket, Json::object({{"parameters", std::move(parameters)}})));
    }
    case WishKind::set_setting: return group_.spawn(set(wish.ticket, wish.type));
    case WishKind::detach: return group_.spawn(patch(volume, wish.ticket, std::nullopt));
    case WishKind::count:
      for (int clerk = 0; clerk < 2; ++clerk) group_.spawn(count(volume));
      return;
    case WishKind::open_client:
    case WishKind::close_client:
    case WishKind::hand_over: return;
  }
}

Json People::ticket_of(const Wish& wish) const {
  Json ticket = Json::object({{"id", wish.ticket},
                              {"type", wish.type.empty() ? "csi-attacher" : wish.type},
                              {"nodeID", wish.node == 0 ? "" : fmt::format("node-{}", wish.node)}});
  if (!wish.parameters.empty()) {
    Json parameters = Json::object();
    for (const auto& [name, value] : wish.parameters) parameters.set(name, Json(value));
    ticket.set("parameters", std::move(parameters));
  }
  // With a volume, a ticket goes; of a kind that is not ours nobody here knows whether it lives, so it does.
  if (wish.owner.starts_with("volume-"))
    ticket.set("owner", Json::object({{"apiVersion", lh::kApiVersion},
                                      {"kind", "Volume"},
                                      {"namespace", "longhorn-system"},
                                      {"name", wish.owner}}));
  else if (!wish.owner.empty())
    ticket.set("owner", Json::object({{"apiVersion", "example.org/v1"},
                                      {"kind", "Workload"},
                                      {"namespace", "default"},
                                      {"name", wish.owner}}));
  if (wish.expires > Duration{0}) {
    const auto lapses = process_.clock().wall().since_epoch +
                        std::chrono::duration_cast<std::chrono::microseconds>(wish.expires);
    ticket.set("expiresAt", Json(model::format_rfc3339(model::Time(lapses))));
  }
  return ticket;
}

Task<Result<void>> People::create(Wish wish, std::uint64_t bytes) {
  const CancelToken token = group_.token();
  for (int tries = 0; tries < kMostTries; ++tries) {
    Json spec = Json::object({{"size", std::to_string(bytes)},
                              {"numberOfReplicas", static_cast<std::int64_t>(wish.replicas)},
                              {"accessMode", wish.access_mode},
                              {"migratable", wish.migratable}});
    Json object = Json::object(
        {{"metadata", Json::object({{"name", volume_name(wish.volume)}, {"namespace", "longhorn-system"}})},
         {"spec", std::move(spec)}});
    registry::ResourceName what = named<lh::Volume>("");
    registry::WriteOptions options = by_people();
    auto made = co_await registry_.create(std::move(what), std::move(object), std::move(options));
    if (made) break;
    // The one that is there goes, or somebody else was quicker.
    if (made.is(Errc::already_exists) && !co_await is_leaving(volume_name(wish.volume))) break;
    CO_TRY_VOID(co_await sleep_for(process_, 500ms, token));
  }
  co_return Result<void>();
}

Task<bool> People::is_leaving(std::string volume) {
  registry::ResourceName what = named<lh::Volume>(volume);
  const auto found = co_await registry_.get(std::move(what), "");
  if (!found) co_return true;  // gone by now, or nobody answered: asked again
  co_return (*found)->find_path({"metadata", "deletionTimestamp"}) != nullptr;
}

Task<Result<void>> People::set(std::string setting, std::string value) {
  const CancelToken token = group_.token();
  for (int tries = 0; tries < kMostTries; ++tries) {
    Json object =
        Json::object({{"metadata", Json::object({{"name", setting}, {"namespace", "longhorn-system"}})},
                      {"value", value}});
    registry::ResourceName what = named<lh::Setting>("");
    registry::WriteOptions options = by_people();
    auto done = co_await registry_.create(std::move(what), std::move(object), std::move(options));
    if (done.is(Errc::already_exists)) {
      Json change = Json::object({{"value", value}});
      what = named<lh::Setting>(setting);
      options = by_people();
      done = co_await registry_.patch(std::move(what), registry::PatchType::merge, std::move(change),
                                      std::move(options));
    }
    if (done) break;
    CO_TRY_VOID(co_await sleep_for(process_, 500ms, token));
  }
  co_return Result<void>();
}

Task<Result<void>> People::remove(std::string volume) {
  const CancelToken token = group_.token();
  for (int tries = 0; tries < kMostTries; ++tries) {
    registry::ResourceName what = named<lh::Volume>(volume);
    registry::DeleteOptions options;
    auto gone = co_await registry_.remove(std::move(what), std::move(options));
    if (gone || gone.is(Errc::not_found)) break;
    CO_TRY_VOID(co_await sleep_for(process_, 500ms, token));
  }
  co_return Result<void>();
}

// As kubectl edit does: whoever was quicker makes the other one look again, and no step is ever lost.
Task<Result<void>> People::count(std::string volume) {
  const CancelToken token = group_.token();
  for (int tries = 0, done = 0; done < kCounts && tries < kMostTries; ++tries) {
    registry::ResourceName what = named<lh::Volume>(volume);
    const auto found = co_await registry_.get(what, "");
    if (found) {
      Json object = **found;
      const std::string next = std::to_string(count_of(object) + 1);
      Json& annotations = object["metadata"]["annotations"];
      if (!annotations.is_object()) annotations = Json::object();
      annotations.set(kCount, next);
      registry::WriteOptions options = by_people();
      const auto written = co_await registry_.update(std::move(what), std::move(object), std::move(options));
      if (written) ++done;
      if (written && on_counted) on_counted(volume, ++counted_[volume]);
    }
    CO_TRY_VOID(co_await sleep_for(process_, found ? 20ms : 500ms, token));
  }
  co_return Result<void>();
}

Task<Result<void>> People::patch(std::string volume, std::string ticket, std::optional<Json> value) {
  const CancelToken token = group_.token();
  Json tickets = Json::object();
  tickets.set(ticket, value ? *value : Json());
  const Json patch = Json::object({{"spec", Json::object({{"attachmentTickets", std::move(tickets)}})}});
  for (int tries = 0; tries < kMostTries; ++tries) {
    registry::ResourceName what = named<lh::VolumeAttachment>(volume);
    registry::WriteOptions options = by_people();
    auto done =
        co_await registry_.patch(std::move(what), registry::PatchType::merge, patch, std::move(options));
    if (done || (!value && done.is(Errc::not_found))) break;
    if (done.is(Errc::invalid) || done.is(Errc::forbidden)) break;
    if (done.is(Errc::not_found) && deleted_.contains(volume)) break;
    CO_TRY_VOID(co_await sleep_for(process_, 500ms, token));
  }
  co_return Result<void>();
}

}  // namespace moor::sim
