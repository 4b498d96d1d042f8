#include "doors/longhorn/resources.h"

#include <fmt/format.h>

#include "model/time.h"

namespace moor::doors::longhorn {
namespace {

namespace lh = model::longhorn;

Json conditions_by_type(const std::vector<model::Condition>& conditions) {
  Json map = Json::object();
  for (const model::Condition& condition : conditions) map.set(condition.type, model::encode(condition));
  return map;
}

Json tickets_of(const lh::VolumeAttachment& attachment) {
  Json tickets = Json::object();
  for (const auto& [id, ticket] : attachment.spec.attachment_tickets) {
    Json parameters = Json::object();
    for (const auto& [key, value] : ticket.parameters) parameters.set(key, value);
    const auto& statuses = attachment.status.attachment_ticket_statuses;
    const auto status = statuses.find(id);
    // What was said of an older wish says nothing of this one.
    const bool known = status != statuses.end() && status->second.generation == ticket.generation;
    Json conditions = Json::array();
    if (known)
      for (const model::Condition& condition : status->second.conditions)
        conditions.push_back(model::encode(condition));
    tickets.set(id, Json::object({{"attachmentID", id},
                                  {"attachmentType", ticket.type},
                                  {"nodeID", ticket.node_id},
                                  {"parameters", std::move(parameters)},
                                  {"satisfied", known && status->second.satisfied},
                                  {"conditions", std::move(conditions)}}));
  }
  return tickets;
}

Json controller_of(const lh::Engine& engine, const lh::Volume& volume) {
  const auto& status = engine.status;
  const bool running = status.current_state == lh::InstanceState::running;
  return Json::object({{"name", engine.metadata.name},
                       {"hostId", engine.spec.node_id},
                       {"running", running},
                       {"active", engine.spec.active},
                       {"standby", status.standby},
                       {"endpoint", status.endpoint},
                       {"address", status.ip},
                       {"size", fmt::format("{}", status.current_size)},
                       {"actualSize", fmt::format("{}", volume.status.actual_size)},
                       {"isExpanding", status.is_expanding},
                       {"lastExpansionError", status.last_expansion_error},
                       {"lastRestoredBackup", status.last_restored_backup},
                       {"currentImage", status.current_image},
                       {"instanceManagerName", status.instance_manager_name}});
}

Json replica_of(const lh::Replica& replica, const std::vector<lh::Engine>& engines) {
  std::string_view mode;
  for (const lh::Engine& engine : engines) {
    if (engine.status.standby) continue;
    const auto found = engine.status.replica_mode_map.find(replica.metadata.name);
    if (found != engine.status.replica_mode_map.end()) mode = to_string(found->second);
  }
  return Json::object({{"name", replica.metadata.name},
                       {"hostId", replica.spec.node_id},
                       {"diskID", replica.spec.disk_id},
                       {"diskPath", replica.spec.disk_path},
                       {"dataPath", replica.spec.data_directory_name},
                       {"running", replica.status.current_state == lh::InstanceState::running},
                       {"address", replica.status.ip},
                       {"mode", mode},
                       {"failedAt", replica.spec.failed_at},
                       {"currentImage", replica.status.current_image},
                       {"instanceManagerName", replica.status.instance_manager_name},
                       {"dataEngine", to_string(replica.spec.data_engine)}});
}

Json actions_of(const lh::Volume& volume, const std::string& self) {
  Json actions = Json::object();
  if (volume.metadata.is_being_deleted()) return actions;
  // Both always: a second attach starts a move, a detach of what is detached answers with the volume.
  for (const char* action : {"attach", "detach"})
    actions.set(action, fmt::format("{}?action={}", self, action));
  return actions;
}

Json strings(const std::vector<std::string>& values) {
  Json list = Json::array();
  for (const std::string& value : values) list.push_back(value);
  return list;
}

// What a client may wait for before it attaches the volume.
bool is_ready(const lh::Volume& volume) {
  const auto& status = volume.status;
  if (volume.metadata.is_being_deleted() || status.restore_required) return false;
  if (status.state != lh::VolumeState::detached && status.state != lh::VolumeState::attached) return false;
  return status.robustness != lh::Robustness::faulted;
}

}  // namespace

Json root_resource(const std::string& base) {
  return Json::object({{"id", "v1"},
                       {"type", "apiVersion"},
                       {"actions", Json::object()},
                       {"links", Json::object({{"self", base},
                                               {"volumes", base + "/volumes"},
                                               {"volumeattachments", base + "/volumeattachments"}})}});
}

Json attachment_resource(const lh::VolumeAttachment& attachment, const std::string& base) {
  const std::string& name = attachment.metadata.name;
  return Json::object(
      {{"id", name},
       {"type", "volumeAttachment"},
       {"links", Json::object({{"self", fmt::format("{}/volumeattachments/{}", base, name)}})},
       {"actions", Json::object()},
       {"volume", attachment.spec.volume},
       {"attachments", tickets_of(attachment)}});
}

Json volume_resource(const VolumeParts& parts, const std::string& base) {
  const lh::Volume& volume = parts.volume;
  const auto& spec = volume.spec;
  const auto& status = volume.status;
  const std::string self = fmt::format("{}/volumes/{}", base, volume.metadata.name);
  const auto created = volume.metadata.creation_timestamp;
  Json controllers = Json::array();
  for (const lh::Engine& engine : parts.engines) controllers.push_back(controller_of(engine, volume));
  Json replicas = Json::array();
  for (const lh::Replica& replica : parts.replicas) replicas.push_back(replica_of(replica, parts.engines));
  Json json = Json::object({{"id", volume.metadata.name},
                            {"type", "volume"},
                            {"links", Json::object({{"self", self}})},
                            {"actions", actions_of(volume, self)},
                            {"name", volume.metadata.name},
                            {"size", fmt::format("{}", spec.size)},
                            {"created", created ? model::format_rfc3339(*created) : ""},
                            {"state", to_string(status.state)},
                            {"robustness", to_string(status.robustness)},
                            {"ready", is_ready(volume)},
                            {"frontend", to_string(spec.frontend)},
                            {"disableFrontend", spec.disable_frontend},
                            {"accessMode", to_string(spec.access_mode)},
                            {"migratable", spec.migratable},
                            {"encrypted", spec.encrypted},
                            {"numberOfReplicas", spec.number_of_replicas},
                            {"staleReplicaTimeout", spec.stale_replica_timeout},
                            {"dataLocality", to_string(spec.data_locality)},
                            {"dataEngine", to_string(spec.data_engine)},
                            {"dataSource", spec.data_source},
                            {"fromBackup", spec.from_backup},
                            {"backingImage", spec.backing_image},
                            {"image", spec.image},
                            {"currentImage", status.current_image},
                            {"standby", spec.standby},
                            {"revisionCounterDisabled", spec.revision_counter_disabled},
                            {"snapshotDataIntegrity", to_string(spec.snapshot_data_integrity)},
                            {"diskSelector", strings(spec.disk_selector)},
                            {"nodeSelector", strings(spec.node_selector)},
                            {"lastAttachedBy", spec.last_attached_by},
                            {"lastBackup", status.last_backup},
                            {"lastBackupAt", status.last_backup_at},
                            {"restoreRequired", status.restore_required},
                            {"restoreInitiated", status.restore_initiated},
                            {"shareEndpoint", status.share_endpoint},
                            {"shareState", to_string(status.share_state)},
                            {"currentNodeID", status.current_node_id},
                            {"migrationNodeID", spec.migration_node_id},
                            {"currentMigrationNodeID", status.current_migration_node_id},
                            {"kubernetesStatus", model::encode(status.kubernetes_status)},
                            {"cloneStatus", model::encode(status.clone_status)},
                            {"conditions", conditions_by_type(status.conditions)},
                            {"controllers", std::move(controllers)},
                            {"replicas", std::move(replicas)}});
  if (parts.attachment)
    json.set("volumeAttachment", Json::object({{"volume", parts.attachment->spec.volume},
                                               {"attachments", tickets_of(*parts.attachment)}}));
  return json;
}

Json collection(std::string_view resource_type, std::vector<Json> items, const std::string& self) {
  Json data = Json::array();
  for (Json& item : items) data.push_back(std::move(item));
  return Json::object({{"type", "collection"},
                       {"resourceType", resource_type},
                       {"links", Json::object({{"self", self}})},
                       {"actions", Json::object()},
                       {"data", std::move(data)}});
}

}  // namespace moor::doors::longhorn
