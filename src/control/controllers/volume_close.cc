#include <fmt/format.h>

#include <algorithm>

#include "attach/grant.h"
#include "base/plant.h"
#include "control/controllers/volume_steps.h"

namespace moor::control {
namespace {

using lh::InstanceState;

void stop_replicas(Family& family) {
  for (auto& [name, replica] : family.replicas)
    if (replica->spec.desire_state == InstanceState::running)
      replica.edit().spec.desire_state = InstanceState::stopped;
}

// What the volume waits for until its engine is released.
void tell_waiting(Family& family) {
  const mr::GrantHolder& holder = *family.grant->spec.active;
  const NodeLife& node = family.life(holder.node);
  if (!node.ready)
    return family.set_condition(
        lh::kVolumeClosing, true, "NodeNotReady",
        fmt::format("node {} does not answer, and nothing proves that its engine has stopped", holder.node));
  const model::Condition* in_use = model::find_condition(family.engine->status.conditions, "DeviceInUse");
  if (in_use != nullptr && in_use->status == model::ConditionStatus::yes)
    return family.set_condition(lh::kVolumeClosing, true, "DeviceInUse", in_use->message);
  family.set_condition(lh::kVolumeClosing, true, "StoppingEngine",
                       fmt::format("the engine on node {} stops", holder.node));
}

// The objects of the volume of one kind: asked to go once, waited for. True: none is left.
template <class T>
bool remove_objects(Family& family, const std::vector<Object<T>>& objects) {
  for (const auto& object : objects)
    if (!object->metadata.is_being_deleted()) family.plan.remove(object);
  return objects.empty();
}

// The finalizer is the node's word that it has cleaned up. A node that does not exist will never give it.
template <class T>
void let_go_of_lost(Family& family, const Object<T>& object) {
  const std::string& node = object->spec.node_id;
  if (!object->metadata.is_being_deleted()) return;
  if (family.life(node).exists && !node.empty()) return;
  T freed = *object;
  std::erase(freed.metadata.finalizers, std::string(lh::kFinalizer));
  family.plan.update(object, freed);
}

void return_room(Family& family, const lh::Replica& replica) {
  if (replica.spec.node_id.empty()) return;
  const std::string key = key_in_ledger(family.space, replica.metadata.name);
  const auto ledger = family.view.find<mr::Ledger>("", replica.spec.node_id, digest_nothing);
  if (!ledger) return;
  const auto disk = ledger->spec.disks.find(replica.spec.disk_id);
  if (disk == ledger->spec.disks.end() || !disk->second.contains(key)) return;
  auto& disks = family.ledger(replica.spec.node_id).edit().spec.disks;
  disks[replica.spec.disk_id].erase(key);
  if (disks[replica.spec.disk_id].empty()) disks.erase(replica.spec.disk_id);
}

bool remove_replicas(Family& family) {
  const auto replicas = family.view.of_volume<lh::Replica>(family.space, family.name);
  for (const auto& replica : replicas) {
    if (!replica->metadata.is_being_deleted()) return_room(family, *replica);
    let_go_of_lost(family, replica);
  }
  family.replicas.clear();  // what is removed is not edited
  return remove_objects(family, replicas);
}

bool remove_snapshots(Family& family) {
  const auto snapshots = family.view.of_volume<lh::Snapshot>(family.space, family.name);
  for (const auto& snapshot : snapshots) {
    if (!snapshot->metadata.is_being_deleted() || !snapshot->metadata.has_finalizer(lh::kFinalizer)) continue;
    lh::Snapshot freed = *snapshot;
    std::erase(freed.metadata.finalizers, std::string(lh::kFinalizer));
    family.plan.update(snapshot, freed);
  }
  return remove_objects(family, snapshots);
}

bool remove_engine(Family& family) {
  const auto engines = family.view.of_volume<lh::Engine>(family.space, family.name);
  for (const auto& engine : engines) let_go_of_lost(family, engine);
  family.engine = {};
  family.other = {};
  return remove_objects(family, engines);
}

template <class T>
bool remove_one(Family& family, const Object<T>& object) {
  if (object && !object->metadata.is_being_deleted()) family.plan.remove(object);
  return !object;
}

// An epoch that its agent has not heard of yet cannot be called back: the agent might start it a moment after
// it had read the order to stop nothing. So it is first taken up, then stopped; `stopped` with its epoch is
// the proof.
bool is_taken_up(const Family& family) {
  const auto& active = family.grant->spec.active;
  return !active || MOOR_PLANT("control-stop-before-taken-up") ||
         family.engine->status.epoch == active->epoch;
}

}  // namespace

void return_place(Family& family, const std::string& node) {
  if (node.empty()) return;
  const auto ledger = family.view.find<mr::Ledger>("", node, digest_nothing);
  const std::string key = key_in_ledger(family.space, family.name);
  if (ledger && ledger->spec.attachments.contains(key))
    family.ledger(node).edit().spec.attachments.erase(key);
}

void close(Family& family) {
  close_other_side(family);
  if (family.engine->spec.desire_state == InstanceState::running && is_taken_up(family))
    family.engine.edit().spec.desire_state = InstanceState::stopped;
  if (family.grant->spec.active) {
    const auto proof = proof_of_release(family, Release::of_node);
    if (!proof) {
      follow_addresses(family);
      return tell_waiting(family);
    }
    auto released = attach::release_active(family.grant->spec, *proof);
    if (!released) return family.plan.reasons.push_back(released.error().message);
    family.grant.edit().spec = std::move(*released);
  }
  if (!is_other_side_released(family)) return;
  stop_replicas(family);
  if (!progress_of(family).stopped) return;
  family.set_condition(lh::kVolumeClosing, false, "", "");
  family.set_condition(lh::kVolumeOpening, false, "", "");
  return_place(family, family.volume->status.current_node_id);
  return_place(family, family.engine->spec.node_id);
  if (family.other) return_place(family, family.other->spec.node_id);
}

// Each step waits until what it asked for is gone, so the order holds however often this is asked.
void remove_all(Family& family) {
  if (!remove_one(family, family.view.find<lh::ShareManager>(family.space, family.name))) return;
  if (!remove_snapshots(family)) return;
  if (!remove_engine(family)) return;
  if (!remove_replicas(family) && !MOOR_PLANT("control-deletion-order")) return;
  if (!remove_one(family, family.view.find<lh::VolumeAttachment>(family.space, family.name))) return;
  if (!family.volume.before()->metadata.has_finalizer(lh::kFinalizer)) return;
  lh::Volume freed = *family.volume.before();
  std::erase(freed.metadata.finalizers, std::string(lh::kFinalizer));
  family.volume = Edit(family.volume.before());  // not its status as well
  family.plan.update(family.volume.before(), freed);
}

}  // namespace moor::control
