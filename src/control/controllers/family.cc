#include "control/controllers/family.h"

#include <fmt/format.h>

#include "base/plant.h"
#include "model/core/node.h"

namespace moor::control {

using model::ConditionStatus;

std::string engine_name(std::string_view volume) {
  return fmt::format("{}-e", volume);
}

std::string second_engine_name(std::string_view volume) {
  return fmt::format("{}-e-b", volume);
}

std::string token_name(std::string_view volume) {
  return fmt::format("{}-token", volume);
}

std::string replica_name(std::string_view volume, std::int64_t number) {
  return fmt::format("{}-r-{}", volume, number);
}

std::string data_directory_name(const lh::Volume& volume, std::int64_t number) {
  return fmt::format("{}-{}-r-{}", volume.metadata.name,
                     MOOR_PLANT("control-directory-without-uid") ? "" : volume.metadata.uid.substr(0, 8),
                     number);
}

std::string key_in_ledger(std::string_view space, std::string_view name) {
  return fmt::format("{}/{}", space, name);
}

std::uint64_t digest_nothing(const Json*) {
  return 0;
}

std::uint64_t digest_node_life(const Json* node) {
  if (node == nullptr) return 0;
  std::string text = "1";
  const Json* status = node->find("status");
  const Json* conditions = status == nullptr ? nullptr : status->find("conditions");
  for (std::size_t i = 0; conditions != nullptr && conditions->is_array() && i < conditions->size(); ++i) {
    const Json& one = conditions->at(i);
    if (one.get_string("type") != lh::kNodeReady) continue;
    text +=
        fmt::format("/{}/{}", one.get_string("status").value_or(""), one.get_string("reason").value_or(""));
  }
  if (status != nullptr) text += fmt::format("/{}", status->get_int64("incarnation").value_or(0));
  return std::hash<std::string>()(text) | 1;
}

bool is_under_way(const lh::Volume& volume) {
  return volume.status.state == lh::VolumeState::attaching ||
         volume.status.state == lh::VolumeState::detaching;
}

NodeLife node_life(const View& view, const std::string& node) {
  NodeLife life;
  if (node.empty()) return life;
  const auto found = view.find<lh::Node>(lh::kDefaultNamespace, node, digest_node_life);
  if (!found) return life;
  life.exists = true;
  life.incarnation = found->status.incarnation;
  const model::Condition* ready = model::find_condition(found->status.conditions, lh::kNodeReady);
  if (ready == nullptr) return life;
  life.ready = ready->status == ConditionStatus::yes;
  life.reason = ready->reason;
  life.message = ready->message;
  life.since = model::parse_rfc3339(ready->last_transition_time);
  return life;
}

Family::Family(const View& view_, const Object<lh::Volume>& volume_)
    : view(view_), space(volume_->metadata.space), name(volume_->metadata.name), volume(volume_) {
  attachment = Edit(view.find<lh::VolumeAttachment>(space, name));
  grant = Edit(view.find<mr::Grant>(space, name));
  slot_in_use = engine_name(name);
  free_slot = second_engine_name(name);
  auto first = view.find<lh::Engine>(space, slot_in_use);
  auto second = view.find<lh::Engine>(space, free_slot);
  const auto in_use = [&](const Object<lh::Engine>& one) { return one && !one->metadata.is_being_deleted(); };
  const bool swapped = grant && grant->spec.active ? grant->spec.active->engine == free_slot
                                                   : in_use(second) && !in_use(first);
  if (swapped) {
    std::swap(slot_in_use, free_slot);
    std::swap(first, second);
  }
  engine = first ? Edit(std::move(first)) : Edit<lh::Engine>();
  other = second ? Edit(std::move(second)) : Edit<lh::Engine>();
  for (auto& replica : view.of_volume<lh::Replica>(space, name)) {
    std::string replica_key = replica->metadata.name;
    replicas.emplace(std::move(replica_key), Edit(std::move(replica)));
  }
}

Edit<lh::Engine>& Family::slot(const std::string& engine_name) {
  return engine_name == slot_in_use ? engine : other;
}

const Edit<lh::Engine>& Family::slot(const std::string& engine_name) const {
  return engine_name == slot_in_use ? engine : other;
}

const NodeLife& Family::life(const std::string& node) const {
  const auto found = lives_.find(node);
  if (found != lives_.end()) return found->second;
  return lives_.emplace(node, node_life(view, node)).first->second;
}

Edit<mr::Ledger>& Family::ledger(const std::string& node) {
  const auto found = ledgers.find(node);
  if (found != ledgers.end()) return found->second;
  Edit<mr::Ledger> ledger(view.find<mr::Ledger>("", node, digest_nothing));
  if (!ledger) ledger.edit().metadata.name = node;
  return ledgers.emplace(node, std::move(ledger)).first->second;
}

void Family::set_condition(std::string_view type, bool holds, std::string reason, std::string message) {
  const model::Condition* known = model::find_condition(volume->status.conditions, type);
  // What never was need not be denied.
  if (known == nullptr && !holds) return;
  const ConditionStatus status = holds ? ConditionStatus::yes : ConditionStatus::no;
  // Since when it holds cannot lie in the future: who waits from then on would wait too long by as much as a
  // clock has gone back.
  const auto since = known == nullptr ? std::nullopt : model::parse_rfc3339(known->last_transition_time);
  const bool ahead = since && *since > view.now();
  if (known != nullptr && known->status == status && known->reason == reason && known->message == message &&
      !ahead)
    return;
  for (model::Condition& one : volume.edit().status.conditions)
    if (ahead && one.type == type) one.status = ConditionStatus::unknown;  // so that the time moves
  model::set_condition(volume.edit().status.conditions,
                       {std::string(type), status, "", "", std::move(reason), std::move(message)},
                       view.now());
}

std::optional<model::Time> Family::holds_since(std::string_view type) const {
  const model::Condition* known = model::find_condition(volume->status.conditions, type);
  if (known == nullptr || known->status != ConditionStatus::yes) return std::nullopt;
  return model::parse_rfc3339(known->last_transition_time);
}

void Family::again_at(model::Time when) {
  const auto wait = std::max<std::chrono::microseconds>(when - view.now(), std::chrono::milliseconds(1));
  plan.again(std::chrono::duration_cast<Duration>(wait));
}

int Family::edits() const {
  int sum =
      volume.edits() + attachment.edits() + grant.edits() + token.edits() + engine.edits() + other.edits();
  for (const auto& [name_of, replica] : replicas) sum += replica.edits();
  for (const auto& [node, ledger_of] : ledgers) sum += ledger_of.edits();
  return sum;
}

Plan Family::finish() {
  attachment.write(plan);
  grant.write(plan);
  token.write(plan);
  engine.write(plan);
  other.write(plan);
  for (const auto& [replica, edit] : replicas) edit.write(plan);
  for (const auto& [node, edit] : ledgers) edit.write(plan);
  volume.write_status(plan);
  return std::move(plan);
}

std::vector<DiskFacts> all_disks(const View& view) {
  std::vector<DiskFacts> disks;
  const attach::Settings& settings = view.settings();
  for (const auto& node : view.all<lh::Node>(lh::kDefaultNamespace)) {
    const auto ledger = view.find<mr::Ledger>("", node->metadata.name);
    const auto machine = view.find<model::core::Node>("", node->metadata.name);
    const bool cordoned = machine && machine->spec.unschedulable;
    std::string objection;
    if (!model::is_condition_true(node->status.conditions, lh::kNodeReady))
      objection = "on a node that is not ready";
    else if (!node->spec.allow_scheduling)
      objection = "on a node that takes no replicas";
    else if (node->spec.eviction_requested)
      objection = "on a node that is being emptied";
    else if (cordoned && settings.disable_scheduling_on_cordoned_node())
      objection = "on a cordoned node";
    for (const auto& [name, spec] : node->spec.disks) {
      DiskFacts disk{node->metadata.name,
                     name,
                     "",
                     spec.path,
                     node->status.zone,
                     node->spec.tags,
                     spec.tags,
                     objection,
                     0,
                     spec.storage_reserved,
                     0,
                     0};
      const auto status = node->status.disk_status.find(name);
      const bool known = status != node->status.disk_status.end() && !status->second.disk_uuid.empty();
      if (known) {
        disk.uuid = status->second.disk_uuid;
        disk.maximum = status->second.storage_maximum;
        disk.available = status->second.storage_available;
        if (ledger) {
          const auto promised = ledger->spec.disks.find(disk.uuid);
          if (promised != ledger->spec.disks.end())
            for (const auto& [replica, bytes] : promised->second) disk.promised += bytes;
        }
      }
      if (disk.objection.empty() &&
          (!known || !model::is_condition_true(status->second.conditions, lh::kDiskReady)))
        disk.objection = "not ready";
      if (disk.objection.empty() && !spec.allow_scheduling) disk.objection = "takes no replicas";
      if (disk.objection.empty() && spec.eviction_requested) disk.objection = "is being emptied";
      if (disk.objection.empty() &&
          disk.available < disk.maximum / 100 * settings.minimal_available_percentage())
        disk.objection = "too full";
      disks.push_back(std::move(disk));
    }
  }
  return disks;
}

}  // namespace moor::control
