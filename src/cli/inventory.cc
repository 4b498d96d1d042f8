#include "cli/inventory.h"

#include <fmt/format.h>

#include "base/units.h"
#include "cli/objects.h"
#include "cli/volume_commands.h"

namespace moor::cli {
namespace {

namespace lh = model::longhorn;

// Two digits are enough for a table; -o json has the bytes.
std::string rounded_size(std::int64_t bytes) {
  constexpr std::string_view kUnits[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  double value = static_cast<double>(std::max<std::int64_t>(0, bytes));
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return value < 10 && unit > 0 ? fmt::format("{:.1f}{}", value, kUnits[unit])
                                : fmt::format("{:.0f}{}", value, kUnits[unit]);
}

std::vector<Cell> node_row(const Context& context, const lh::Node& node) {
  std::int64_t available = 0;
  std::int64_t maximum = 0;
  std::int64_t scheduled = 0;
  std::size_t replicas = 0;
  for (const auto& [name, disk] : node.status.disk_status) {
    available += disk.storage_available;
    maximum += disk.storage_maximum;
    scheduled += disk.storage_scheduled;
    replicas += disk.scheduled_replica.size();
  }
  const model::Condition* ready = model::find_condition(node.status.conditions, lh::kNodeReady);
  return {node.metadata.name,
          ready == nullptr ? Cell("unknown", Colour::yellow)
                           : Cell::state(ready->status == model::ConditionStatus::yes ? "yes" : "no"),
          Cell::state(node.spec.allow_scheduling ? "yes" : "no"),
          fmt::format("{}", node.spec.disks.size()),
          fmt::format("{}", replicas),
          maximum == 0 ? "" : fmt::format("{} of {}", rounded_size(available), rounded_size(maximum)),
          age(context, node.metadata.creation_timestamp),
          scheduled == 0 ? "" : rounded_size(scheduled),
          node.status.zone,
          fmt::format("{}", fmt::join(node.spec.tags, ",")),
          fmt::format("{}", node.status.incarnation),
          ready != nullptr && ready->status != model::ConditionStatus::yes ? ready->message : ""};
}

// Named volumes must exist: an empty table for a misspelt name would be a lie.
Task<Outcome<void>> check_volume(Context& context, std::string volume) {
  if (volume.empty()) co_return Outcome<void>();
  CO_TRY_VOID(co_await get_typed<lh::Volume>(context, volume));
  co_return Outcome<void>();
}

}  // namespace

Task<Outcome<void>> list_nodes(Context& context) {
  registry::ListOptions everything;
  CO_TRY(const auto nodes, co_await list_typed<lh::Node>(context, everything));
  if (context.printer.objects(kind_of<lh::Node>(), jsons_of(nodes), true)) co_return Outcome<void>();
  if (nodes.empty()) {
    context.printer.note("no nodes yet; a node joins when its agent starts: moord agent --help");
    co_return Outcome<void>();
  }
  Table table{{"NAME", "READY", "SCHEDULING", "DISKS", "REPLICAS", "AVAILABLE", "AGE", "SCHEDULED", "ZONE",
               "TAGS", "INCARNATION", "MESSAGE"},
              {},
              7};
  for (const auto& pair : nodes) table.rows.push_back(node_row(context, pair.object));
  context.printer.table(table);
  co_return Outcome<void>();
}

Task<Outcome<void>> list_replicas(Context& context, std::string volume) {
  CO_TRY_VOID(co_await check_volume(context, volume));
  CO_TRY(const auto replicas, co_await list_typed<lh::Replica>(context, of_volume(volume)));
  CO_TRY(const auto engines, co_await list_typed<lh::Engine>(context, of_volume(volume)));
  if (context.printer.objects(kind_of<lh::Replica>(), jsons_of(replicas), true)) co_return Outcome<void>();
  std::map<std::string, lh::ReplicaMode> modes;
  for (const auto& engine : engines)
    for (const auto& [name, mode] : engine.object.status.replica_mode_map) modes[name] = mode;
  Table table{
      {"NAME", "VOLUME", "NODE", "STATE", "MODE", "USED", "AGE", "ADDRESS", "DISK", "DIRECTORY", "EPOCH"},
      {},
      7};
  for (const auto& pair : replicas) {
    const lh::Replica& replica = pair.object;
    const auto mode = modes.find(replica.metadata.name);
    table.rows.push_back(
        {replica.metadata.name, replica.spec.volume_name, replica.spec.node_id,
         Cell::state(to_string(replica.status.current_state)),
         mode == modes.end() ? Cell("") : Cell::state(to_string(mode->second)),
         replica.status.used_bytes == 0 ? "" : rounded_size(replica.status.used_bytes),
         age(context, replica.metadata.creation_timestamp),
         replica.status.port == 0 ? "" : fmt::format("{}:{}", replica.status.ip, replica.status.port),
         replica.spec.disk_id,
         replica.spec.data_directory_name.empty()
             ? ""
             : fmt::format("{}/replicas/{}", replica.spec.disk_path, replica.spec.data_directory_name),
         fmt::format("{}", replica.status.epoch)});
  }
  if (table.rows.empty()) {
    context.printer.note("no replicas");
  } else {
    context.printer.table(table);
  }
  co_return Outcome<void>();
}

Task<Outcome<void>> list_engines(Context& context, std::string volume) {
  CO_TRY_VOID(co_await check_volume(context, volume));
  CO_TRY(const auto engines, co_await list_typed<lh::Engine>(context, of_volume(volume)));
  if (context.printer.objects(kind_of<lh::Engine>(), jsons_of(engines), true)) co_return Outcome<void>();
  Table table{{"NAME", "VOLUME", "NODE", "STATE", "EPOCH", "REPLICAS", "AGE", "ENDPOINT"}, {}, 7};
  for (const auto& pair : engines) {
    const lh::Engine& engine = pair.object;
    std::size_t in_step = 0;
    for (const auto& [name, mode] : engine.status.replica_mode_map) in_step += mode == lh::ReplicaMode::rw;
    table.rows.push_back({engine.metadata.name, engine.spec.volume_name, engine.spec.node_id,
                          Cell::state(to_string(engine.status.current_state)),
                          fmt::format("{}", engine.status.epoch),
                          engine.status.replica_mode_map.empty()
                              ? ""
                              : fmt::format("{}/{} RW", in_step, engine.status.replica_mode_map.size()),
                          age(context, engine.metadata.creation_timestamp), engine.status.endpoint});
  }
  if (table.rows.empty()) {
    context.printer.note("no engines");
  } else {
    context.printer.table(table);
  }
  co_return Outcome<void>();
}

}  // namespace moor::cli
