// Nodes and disks: whether they answer, by their heartbeat, and whether they take replicas.
//
// Ready is True while the heartbeat is renewed, Unknown when it stops, False when the agent gave it back or
// there never was one. A heartbeat that was judged dead is remembered by its own time, so that a new leader,
// which has not watched it long enough to judge, does not take it for a sign of life.
#include <fmt/format.h>

#include "control/controllers/controllers.h"
#include "control/controllers/family.h"
#include "model/coordination/lease.h"
#include "model/core/node.h"

namespace moor::control {
namespace {

using model::Condition;
using model::ConditionStatus;
using model::coordination::Lease;

constexpr std::string_view kHeartbeats = "mooring-node-lease";
// The Ledger decides; what the node's status repeats of it is for people, and a whole list each time.
constexpr Duration kLedgerDelay = std::chrono::milliseconds(500);

Key key_of_heartbeat(const Json& lease) {
  Key key = key_by_name(lease);
  if (key.space != kHeartbeats) return {};
  return {std::string(lh::kDefaultNamespace), key.name};
}

Key key_of_machine(const Json& node) {
  return {std::string(lh::kDefaultNamespace), key_by_name(node).name};
}

Key key_of_ledger(const Json& ledger) {
  return {std::string(lh::kDefaultNamespace), key_by_name(ledger).name};
}

struct Health {
  ConditionStatus ready = ConditionStatus::no;
  std::string reason;
  std::string message;
  std::string judged;  // the time of the heartbeat that was judged dead
  std::optional<Duration> again;
};

Health health_of(const View& view, const std::string& node, const Condition* known) {
  const auto lease = view.find<Lease>(kHeartbeats, node);
  if (!lease) return {ConditionStatus::no, "NoHeartbeat", "the node's agent has never reported", "", {}};
  const std::string renewed =
      lease->spec.renew_time ? model::format_rfc3339_micro(lease->spec.renew_time->at) : "";
  if (lease->spec.holder_identity.value_or("").empty())
    return {ConditionStatus::no, "AgentStopped", "the node's agent was stopped", renewed, {}};
  const Duration limit = view.settings().node_lease_duration();
  const Duration age = view.heartbeat_age(node).value_or(Duration(0));
  const bool dead_before =
      known != nullptr && known->status != ConditionStatus::yes && known->last_probe_time == renewed;
  if (age >= limit || (dead_before && !renewed.empty()))
    return {ConditionStatus::unknown,
            "HeartbeatMissed",
            fmt::format("the node's agent has not reported since {}", renewed),
            renewed,
            {}};
  return {ConditionStatus::yes, "", "", "", limit - age};
}

void set(std::vector<Condition>& conditions, Condition wanted, model::Time now, bool& changed) {
  const Condition* known = model::find_condition(conditions, wanted.type);
  if (known != nullptr) wanted.last_transition_time = known->last_transition_time;
  if (known != nullptr && *known == wanted) return;
  wanted.last_transition_time.clear();
  model::set_condition(conditions, std::move(wanted), now);
  changed = true;
}

Condition schedulable(std::string objection) {
  const bool fine = objection.empty();
  return {std::string(lh::kNodeSchedulable),
          fine ? ConditionStatus::yes : ConditionStatus::no,
          "",
          "",
          fine ? "" : "NotSchedulable",
          std::move(objection)};
}

std::string node_objection(const View& view, const lh::Node& node, bool ready, bool cordoned) {
  if (!ready) return "the node is not ready";
  if (!node.spec.allow_scheduling) return "scheduling is not allowed on the node";
  if (node.spec.eviction_requested) return "the node is being emptied";
  if (cordoned && view.settings().disable_scheduling_on_cordoned_node()) return "the node is cordoned";
  return {};
}

std::string disk_objection(const View& view, const lh::DiskSpec& spec, const lh::DiskStatus& disk,
                           std::string of_node) {
  if (!of_node.empty()) return of_node;
  if (!model::is_condition_true(disk.conditions, lh::kDiskReady)) return "the disk is not ready";
  if (!spec.allow_scheduling) return "scheduling is not allowed on the disk";
  if (spec.eviction_requested) return "the disk is being emptied";
  if (disk.storage_available < disk.storage_maximum / 100 * view.settings().minimal_available_percentage())
    return "the disk is too full";
  const DiskFacts room{
      .maximum = disk.storage_maximum, .reserved = spec.storage_reserved, .promised = disk.storage_scheduled};
  if (room_on(room, view.settings()) <= 0) return "all room of the disk is promised";
  return {};
}

// What is promised on the disk, as the Ledger has it.
void tell_promised(const Object<mr::Ledger>& ledger, lh::DiskStatus& disk, bool& changed) {
  std::map<std::string, std::int64_t> promised;
  if (ledger) {
    const auto found = ledger->spec.disks.find(disk.disk_uuid);
    if (found != ledger->spec.disks.end()) promised = found->second;
  }
  if (promised == disk.scheduled_replica) return;
  changed = true;
  disk.storage_scheduled = 0;
  for (const auto& [replica, bytes] : promised) disk.storage_scheduled += bytes;
  disk.scheduled_replica = std::move(promised);
}

void tell_machine(const View& view, const Object<model::core::Node>& machine, const Health& health,
                  Plan& plan) {
  if (!machine) return;
  model::core::Node next = *machine;
  const std::string status(to_string(health.ready));
  for (model::core::NodeCondition& one : next.status.conditions) {
    if (one.type != "Ready") continue;
    if (one.status == status && one.reason == health.reason) return;
    if (one.status != status) one.last_transition_time = view.now();
    one.status = status;
    one.reason = health.reason;
    one.message = health.message;
    plan.update_status(machine, next);
    return;
  }
  next.status.conditions.push_back(
      {"Ready", status, std::nullopt, view.now(), health.reason, health.message});
  plan.update_status(machine, next);
}

class NodeController final : public Controller {
 public:
  std::string_view name() const override { return "node"; }
  std::vector<Wake> wakes() const override {
    return {{&kind_of<lh::Node>(), key_by_name},
            {&kind_of<Lease>(), key_of_heartbeat},
            {&kind_of<model::core::Node>(), key_of_machine},
            {&kind_of<mr::Ledger>(), key_of_ledger, nullptr, kLedgerDelay}};
  }

  Plan reconcile(const View& view, const Key& key) const override {
    Plan plan;
    const auto node = view.find<lh::Node>(key.space, key.name);
    if (!node || node->metadata.is_being_deleted()) return plan;
    const Condition* known = model::find_condition(node->status.conditions, lh::kNodeReady);
    const Health health = health_of(view, key.name, known);
    plan.again_after = health.again;
    const auto machine = view.find<model::core::Node>("", key.name);
    const auto ledger = view.find<mr::Ledger>("", key.name);
    lh::Node next = *node;
    bool changed = false;
    set(next.status.conditions,
        {std::string(lh::kNodeReady), health.ready, health.judged, "", health.reason, health.message},
        view.now(), changed);
    const std::string objection = node_objection(view, *node, health.ready == ConditionStatus::yes,
                                                 machine && machine->spec.unschedulable);
    set(next.status.conditions, schedulable(objection), view.now(), changed);
    for (auto& [name, disk] : next.status.disk_status) {
      const auto spec = node->spec.disks.find(name);
      if (spec == node->spec.disks.end()) continue;
      tell_promised(ledger, disk, changed);
      set(disk.conditions, schedulable(disk_objection(view, spec->second, disk, objection)), view.now(),
          changed);
    }
    if (changed) plan.update_status(node, next);
    tell_machine(view, machine, health, plan);
    if (changed && (known == nullptr || known->status != health.ready))
      plan.note(node, health.ready == ConditionStatus::yes ? "Normal" : "Warning",
                health.ready == ConditionStatus::yes ? "NodeReady" : "NodeNotReady",
                health.ready == ConditionStatus::yes ? "the node answers" : health.message);
    return plan;
  }
};

}  // namespace

std::unique_ptr<Controller> make_node_controller() {
  return std::make_unique<NodeController>();
}

}  // namespace moor::control
