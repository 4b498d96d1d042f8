#include "agent/node_keeper.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/plant.h"
#include "registry/prepare.h"

namespace moor::agent {
namespace {

using model::longhorn::Node;
using namespace std::chrono_literals;

constexpr int kLeaseBeats = 4;  // a lease outlives so many missed heartbeats

std::string life_text(const Lives& life) {
  return to_text(Json::object({{"incarnation", life.incarnation}, {"bootID", life.boot_id}})) + "\n";
}

std::map<std::string, std::string> paths_of(const Node& node) {
  std::map<std::string, std::string> paths;
  for (const auto& [name, disk] : node.spec.disks) paths[name] = disk.path;
  return paths;
}

Lives life_in(const std::string& text) {
  const auto json = parse_json(text);
  if (!json || !json->is_object()) return {};
  return {json->get_int64("incarnation").value_or(0), std::string(json->get_string("bootID").value_or(""))};
}

}  // namespace

registry::ResourceName NodeKeeper::node_resource() const {
  return {&kind_of<Node>(), std::string(kNodeSpace), env_.options.node.name, ""};
}

void NodeKeeper::set_object(std::shared_ptr<const Json> object) {
  if (object != nullptr && json_ != nullptr && !is_newer(*object, *json_)) return;
  json_ = std::move(object);
  bell_.ring();
}

Task<Result<void>> NodeKeeper::introduce(CancelToken token) {
  Duration pause = 200ms;
  while (true) {
    auto done = co_await try_to_introduce(token);
    if (done) co_return done;
    CO_TRY_VOID(token.check());
    log_warn("cannot introduce the node yet", {{"node", env_.options.node.name}, {"error", done.error()}});
    CO_TRY_VOID(co_await sleep_for(env_.executor, pause, token));
    pause = std::min<Duration>(pause * 2, 10s);
  }
}

Task<Result<void>> NodeKeeper::try_to_introduce(CancelToken token) {
  CO_TRY(Json json, co_await get_or_create_node());
  CO_TRY(const Node node, model::decode<Node>(json));
  CO_TRY_VOID(co_await settle_life(node, token));
  CO_TRY_VOID(co_await look_at_disks(node));
  CO_TRY_VOID(co_await tell(std::move(json)));
  CO_TRY_VOID(co_await tell_core_node());
  co_return co_await touch_lease();
}

Task<Result<Json>> NodeKeeper::get_or_create_node() {
  registry::ResourceName what = node_resource();
  auto known = co_await env_.registry.get(what, "");
  if (known) co_return *std::move(known);
  if (!known.is(Errc::not_found)) co_return known.error().error;
  what.name.clear();
  Node node = first_node(env_.options.node);
  node.metadata.space = kNodeSpace;
  Json fresh = model::encode(node);
  auto made = co_await env_.registry.create(std::move(what), std::move(fresh), as_agent());
  if (!made) co_return made.error().error;
  co_return std::move(made->object);
}

// Which life this is stands in a file of ours before it stands in the API: an engine of this life must never
// be taken for one of the life before.
Task<Result<void>> NodeKeeper::settle_life(Node node, CancelToken token) {
  const std::string path = env_.options.directory + "/node.json";
  CO_TRY(const std::string boot, co_await env_.host.boot_id());
  const auto text = co_await env_.host.read_file(path);
  if (!text && text.code() != Errc::not_found) co_return text.error();
  const Lives recorded = text ? life_in(*text) : Lives();
  const Lives told{node.status.incarnation, node.status.boot_id};
  if (is_newcomer(recorded, told, boot) && !MOOR_PLANT("agent-takes-living-name"))
    CO_TRY_VOID(co_await hear_nobody_else(token));
  life_ = current_life(recorded, told, boot);
  if (!(life_ == recorded)) CO_TRY_VOID(co_await env_.host.write_file(path, life_text(life_)));
  env_.self = {env_.options.node.name, life_.incarnation, env_.options.node.address};
  co_return Result<void>();
}

// Two machines that were given one name: the second would pass for the first one started anew, and what the
// first one runs for ended. It waits for as long as the first one's heart beats. By our own clock, and by
// whether the lease changes: the times in it are of another machine's clock.
Task<Result<void>> NodeKeeper::hear_nobody_else(CancelToken token) {
  const registry::ResourceName what{&kind_of<model::coordination::Lease>(), std::string(kLeaseSpace),
                                    env_.options.node.name, ""};
  const auto version = [](const Json& lease) {
    const Json* found = lease.find_path({"metadata", "resourceVersion"});
    return found != nullptr && found->is_string() ? std::string(found->as_string()) : std::string();
  };
  const auto before = co_await env_.registry.get(what, "");
  if (before.is(Errc::not_found)) co_return Result<void>();
  if (!before) co_return before.error().error;
  CO_TRY_VOID(co_await sleep_for(env_.executor, env_.options.heartbeat * kLeaseBeats, token));
  const auto after = co_await env_.registry.get(what, "");
  if (!after) co_return after.error().error;
  if (version(**before) != version(**after))
    co_return make_error(Errc::conflict, "another machine is node " + env_.options.node.name +
                                             " and lives: two machines have one name");
  co_return Result<void>();
}

Task<Result<void>> NodeKeeper::look_at_disks(Node node) {
  std::map<std::string, UsableDisk> usable;
  std::map<std::string, std::string> problems;
  std::map<std::string, DiskFacts> disks;
  for (const auto& [name, spec] : node.spec.disks) {
    const auto known = node.status.disk_status.find(name);
    const model::longhorn::DiskStatus* status =
        known == node.status.disk_status.end() ? nullptr : &known->second;
    // One that had an identity never gets another: whatever is there now is another disk.
    const bool may_mark = status == nullptr || status->disk_uuid.empty();
    const std::string path = spec.path;
    const std::string disk = name;
    DiskFacts facts = co_await env_.host.look_at_disk(path, may_mark);
    const std::string why = disk_objection(status, facts);
    if (why.empty())
      usable[facts.uuid] = {disk, path};
    else if (status != nullptr && !status->disk_uuid.empty())
      problems[status->disk_uuid] = why;
    disks[disk] = std::move(facts);
  }
  const auto uuids = [](const auto& map) {
    std::vector<std::string> keys;
    for (const auto& [uuid, disk] : map) keys.push_back(uuid + disk.path);
    return keys;
  };
  const bool changed = uuids(usable) != uuids(env_.disks);
  env_.disks = std::move(usable);
  env_.disk_problems = std::move(problems);
  disks_ = std::move(disks);
  disk_paths_ = paths_of(node);
  if (changed) disks_changed_();
  co_return Result<void>();
}

Task<Result<void>> NodeKeeper::tell(Json json) {
  CO_TRY(Node node, model::decode<Node>(json));
  node.status = node_status(node, env_.options.node, life_, disks_, wall_of(env_.executor.clock()));
  Json after = json;
  model::encode_onto(after, node);
  const Json* status = after.find("status");
  if (status == nullptr) co_return Result<void>();
  Json wanted = *status;
  auto written = co_await write_status(env_.registry, node_resource(), std::move(json), std::move(wanted));
  if (!written) co_return written.error();
  if (*written) set_object(std::make_shared<const Json>(std::move(**written)));
  co_return Result<void>();
}

Task<Result<void>> NodeKeeper::tell_core_node() {
  using CoreNode = model::core::Node;
  registry::ResourceName what{&kind_of<CoreNode>(), "", env_.options.node.name, ""};
  registry::Answer<Json> known = co_await env_.registry.get(what, "");
  if (!known && !known.is(Errc::not_found)) co_return known.error().error;
  if (!known) {
    CoreNode fresh;
    fresh.metadata.name = env_.options.node.name;
    Json object = model::encode(fresh);
    registry::ResourceName where = what;
    where.name.clear();
    auto made = co_await env_.registry.create(std::move(where), std::move(object), as_agent());
    if (!made) co_return made.error().error;
    known = std::move(made->object);
  }
  CO_TRY(CoreNode node, model::decode<CoreNode>(*known));
  const std::string kernel = co_await env_.host.kernel_version();
  describe_core_node(node, env_.options.node, life_.boot_id, kernel);
  Json after = *known;
  model::encode_onto(after, node);
  Json status = *after.find("status");
  if (!(*after.find("metadata") == *known->find("metadata"))) {
    auto written = co_await env_.registry.update(what, std::move(after), as_agent());
    if (!written) co_return written.error().error;
    known = std::move(written->object);
  }
  auto told = co_await write_status(env_.registry, std::move(what), *std::move(known), std::move(status));
  if (!told) co_return told.error();
  co_return Result<void>();
}

Task<Result<void>> NodeKeeper::touch_lease() {
  using model::coordination::Lease;
  registry::ResourceName what{&kind_of<Lease>(), std::string(kLeaseSpace), env_.options.node.name, ""};
  Json object = Json::object();
  if (lease_) {
    object = *lease_;
  } else {
    auto known = co_await env_.registry.get(what, "");
    if (!known && !known.is(Errc::not_found)) co_return known.error().error;
    if (known) object = *std::move(known);
  }
  CO_TRY(Lease lease, model::decode<Lease>(object));
  const bool fresh = lease.metadata.uid.empty();
  lease.metadata.name = env_.options.node.name;
  lease.metadata.space = kLeaseSpace;
  const model::Time now = wall_of(env_.executor.clock());
  lease.spec.holder_identity = env_.options.node.name;
  const auto lasts = std::chrono::ceil<std::chrono::seconds>(env_.options.heartbeat * kLeaseBeats);
  lease.spec.lease_duration_seconds = static_cast<std::int32_t>(lasts.count());
  if (!lease.spec.acquire_time) lease.spec.acquire_time = model::MicroTime{now};
  lease.spec.renew_time = model::MicroTime{now};
  model::encode_onto(object, lease);
  lease_.reset();
  registry::Answer<registry::Written> written = make_error(Errc::internal, "not tried");
  if (fresh) {
    what.name.clear();
    written = co_await env_.registry.create(std::move(what), std::move(object), as_agent());
  } else {
    written = co_await env_.registry.update(std::move(what), std::move(object), as_agent());
  }
  if (!written) co_return written.error().error;
  lease_ = std::move(written->object);
  co_return Result<void>();
}

Task<Result<void>> NodeKeeper::renew_lease(CancelToken token) {
  while (co_await sleep_for(env_.executor, env_.options.heartbeat, token)) {
    const auto renewed = co_await touch_lease();
    if (!renewed) log_warn("heartbeat failed", {{"error", renewed.error()}});
  }
  co_return Result<void>();
}

Task<Result<void>> NodeKeeper::run(CancelToken token) {
  TimePoint look_at = env_.executor.clock().now() + env_.options.disk_interval;
  while (co_await bell_.wait(token, look_at)) {
    // Whatever comes of it: a time that has passed would not be waited for again.
    const bool due = env_.executor.clock().now() >= look_at;
    if (due) look_at = env_.executor.clock().now() + env_.options.disk_interval;
    const std::shared_ptr<const Json> seen = json_;
    if (seen == nullptr) continue;
    const auto node = model::decode<Node>(*seen);
    if (!node) continue;
    // Only when somebody changed the disks, or it is time: the event of our own status must not make another.
    const bool other = paths_of(*node) != disk_paths_;
    if (!due && !other) continue;
    look_at = env_.executor.clock().now() + env_.options.disk_interval;
    Node copy = *node;
    (void)co_await look_at_disks(std::move(copy));
    const auto told = co_await tell(*seen);
    if (!told) log_debug("node status not written", {{"error", told.error()}});
  }
  co_return Result<void>();
}

}  // namespace moor::agent
