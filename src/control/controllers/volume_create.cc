#include <fmt/format.h>

#include <algorithm>

#include "base/plant.h"
#include "control/controllers/volume_steps.h"
#include "model/storage/volume_attachment.h"

namespace moor::control {
namespace {

using model::mooring::MemberMode;

model::OwnerReference owner_of(const lh::Volume& volume) {
  model::OwnerReference owner;
  owner.api_version = std::string(lh::kApiVersion);
  owner.kind = "Volume";
  owner.name = volume.metadata.name;
  owner.uid = volume.metadata.uid;
  owner.controller = true;
  owner.block_owner_deletion = true;
  return owner;
}

model::ObjectMeta metadata_for(const Family& family, std::string name) {
  model::ObjectMeta metadata;
  metadata.name = std::move(name);
  metadata.space = family.space;
  metadata.labels[std::string(lh::kVolumeLabel)] = family.name;
  metadata.owner_references = {owner_of(*family.volume)};
  return metadata;
}

lh::AttachmentTicket ticket(std::string id, std::string_view type, const std::string& node) {
  lh::AttachmentTicket made;
  made.id = std::move(id);
  made.type = std::string(type);
  made.node_id = node;
  return made;
}

// Who has the volume without a ticket: Kubernetes' own attachments, a share, else whoever attached it by
// hand.
std::vector<lh::AttachmentTicket> imported_tickets(const Family& family) {
  std::vector<lh::AttachmentTicket> tickets;
  const lh::Volume& volume = *family.volume;
  const std::string& pv = volume.status.kubernetes_status.pv_name;
  for (const auto& attachment : family.view.all<model::storage::VolumeAttachment>("")) {
    const auto& source = attachment->spec.source.persistent_volume_name;
    if (source.value_or("").empty() || (source != pv && source != volume.metadata.name)) continue;
    tickets.push_back(ticket(attachment->metadata.name, lh::attacher::kCsi, attachment->spec.node_name));
  }
  if (!tickets.empty()) return tickets;
  const auto share = family.view.find<lh::ShareManager>(family.space, family.name);
  if (share && share->status.state == lh::ShareManagerState::running) {
    tickets.push_back(ticket("share-manager-controller-" + family.name, lh::attacher::kShareManager,
                             share->status.owner_id));
    return tickets;
  }
  const std::string& node = volume.spec.node_id.empty() ? volume.status.current_node_id : volume.spec.node_id;
  if (!node.empty()) tickets.push_back(ticket("longhorn-ui", lh::attacher::kApi, node));
  return tickets;
}

void create_attachment(Family& family, bool import) {
  lh::VolumeAttachment& attachment = family.attachment.edit();
  attachment.metadata = metadata_for(family, family.name);
  attachment.metadata.finalizers = {std::string(lh::kFinalizer)};
  attachment.spec.volume = family.name;
  if (!import) return;
  for (lh::AttachmentTicket& one : imported_tickets(family))
    attachment.spec.attachment_tickets.emplace(one.id, one);
}

void create_grant(Family& family) {
  mr::Grant& grant = family.grant.edit();
  grant.metadata = metadata_for(family, family.name);
  grant.spec.volume = family.name;
  // The mirrors in the volume's status and in its engines are all that is left of a Grant that is gone: no
  // epoch may come twice (S2), and only the members themselves know who is in step.
  grant.spec.epoch = family.volume->status.epoch;
  for (const Edit<lh::Engine>* engine : {&family.engine, &family.other})
    if (*engine) grant.spec.epoch = std::max(grant.spec.epoch, (*engine)->spec.epoch);
  grant.spec.unproven = grant.spec.epoch > 0;
  grant.spec.next_replica = 1;
  for (const auto& [name, replica] : family.replicas)
    if (replica->spec.failed_at.empty()) grant.spec.members[name] = MemberMode::rw;
}

}  // namespace

model::ObjectMeta metadata_of_engine(const Family& family, const std::string& name) {
  model::ObjectMeta metadata = metadata_for(family, name);
  metadata.finalizers = {std::string(lh::kFinalizer)};
  return metadata;
}

namespace {

void create_engine(Family& family) {
  const lh::Volume& volume = *family.volume;
  lh::Engine& engine = family.engine.edit();
  engine.metadata = metadata_of_engine(family, family.slot_in_use);
  engine.spec.volume_name = family.name;
  engine.spec.volume_size = volume.spec.size;
  engine.spec.frontend = volume.spec.frontend;
  engine.spec.desire_state = lh::InstanceState::stopped;
  engine.spec.data_engine = volume.spec.data_engine;
  engine.spec.active = true;
}

void create_replica(Family& family) {
  const lh::Volume& volume = *family.volume;
  std::int64_t& next = family.grant.edit().spec.next_replica;
  while (family.replicas.contains(replica_name(family.name, next))) ++next;
  const std::int64_t number = next++;
  lh::Replica& replica = family.replicas[replica_name(family.name, number)].edit();
  replica.metadata = metadata_for(family, replica_name(family.name, number));
  if (!MOOR_PLANT("control-replica-finalizer-lost"))
    replica.metadata.finalizers = {std::string(lh::kFinalizer)};
  replica.spec.volume_name = family.name;
  replica.spec.volume_size = volume.spec.size;
  replica.spec.engine_name = family.slot_in_use;
  replica.spec.desire_state = lh::InstanceState::stopped;
  replica.spec.data_engine = volume.spec.data_engine;
  replica.spec.data_directory_name = data_directory_name(volume, number);
  replica.spec.active = true;
}

// Nothing was ever written: members can come without data.
bool is_blank(const mr::GrantSpec& grant) {
  return grant.epoch == 0 && !grant.active && !grant.unproven;
}

void take_place(Family& family, const std::string& name, const DiskFacts& disk) {
  lh::Replica& replica = family.replicas[name].edit();
  replica.spec.node_id = disk.node;
  replica.spec.disk_id = disk.uuid;
  replica.spec.disk_path = disk.path;
  if (family.volume->spec.data_locality == lh::DataLocality::strict_local)
    replica.spec.hard_node_affinity = disk.node;
  replica.spec.healthy_at = model::format_rfc3339(family.view.now());
  mr::Ledger& ledger = family.ledger(disk.node).edit();
  if (!MOOR_PLANT("control-capacity-not-written"))
    ledger.spec.disks[disk.uuid][key_in_ledger(family.space, name)] = replica.spec.volume_size;
  family.grant.edit().spec.members[name] = MemberMode::rw;
}

}  // namespace

void create_missing(Family& family) {
  const bool import = !family.grant;
  const bool attachment_ending = family.attachment && family.attachment->metadata.is_being_deleted();
  if (!family.attachment && !attachment_ending) create_attachment(family, import);
  if (!family.grant) create_grant(family);
  if (!family.engine) create_engine(family);
  if (!family.view.find<model::core::Secret>(family.space, token_name(family.name), digest_nothing)) {
    model::core::Secret& token = family.token.edit();
    token.metadata = metadata_for(family, token_name(family.name));
    token.type = std::string(kTokenType);
  }
  if (!is_blank(family.grant->spec)) return;
  while (static_cast<std::int32_t>(family.replicas.size()) < family.volume->spec.number_of_replicas)
    create_replica(family);
}

void place_replicas(Family& family) {
  std::vector<std::string> homeless;
  std::vector<Taken> taken;
  for (const auto& [name, replica] : family.replicas) {
    if (replica->spec.node_id.empty()) {
      homeless.push_back(name);
    } else if (!replica->metadata.is_being_deleted()) {
      taken.push_back({replica->spec.node_id, replica->spec.disk_id, ""});
    }
  }
  if (homeless.empty() || !is_blank(family.grant->spec)) {
    if (homeless.empty() && !family.replicas.empty())
      family.set_condition(lh::kVolumeScheduled, true, "", "");
    return;
  }
  std::vector<DiskFacts> disks = all_disks(family.view);
  for (Taken& one : taken)
    for (const DiskFacts& disk : disks)
      if (disk.node == one.node) one.zone = disk.zone;
  const PlacementWish wish = wish_of(family.volume->spec, family.view.settings());
  Placement last;
  std::size_t placed = 0;
  for (const std::string& name : homeless) {
    last = place(wish, disks, taken, family.view.settings());
    if (last.disk == nullptr) break;
    take_place(family, name, *last.disk);
    taken.push_back({last.disk->node, last.disk->uuid, last.disk->zone});
    for (DiskFacts& disk : disks)
      if (disk.uuid == last.disk->uuid) disk.promised += wish.size;
    ++placed;
  }
  if (placed == homeless.size()) return family.set_condition(lh::kVolumeScheduled, true, "", "");
  const std::string message = fmt::format("{} of {} replicas have no place: {}", homeless.size() - placed,
                                          family.replicas.size(), last.detail);
  const std::string reason = last.insufficient_capacity ? "InsufficientCapacity" : "NoSchedulableDisk";
  const model::Condition* known =
      model::find_condition(family.volume->status.conditions, lh::kVolumeScheduled);
  if (known == nullptr || known->status != model::ConditionStatus::no || known->reason != reason ||
      known->message != message)
    model::set_condition(
        family.status().conditions,
        {std::string(lh::kVolumeScheduled), model::ConditionStatus::no, "", "", reason, message},
        family.view.now());
}

}  // namespace moor::control
