#include "cli/volume_commands.h"

#include <fmt/format.h>

#include <limits>

#include "base/units.h"
#include "cli/follow.h"
#include "cli/migrate.h"
#include "cli/objects.h"
#include "cli/tickets.h"
#include "model/names.h"

namespace moor::cli {
namespace {

namespace lh = model::longhorn;

constexpr std::uint64_t kBlock = 4096;  // a volume is whole blocks
constexpr int kMaxReplicas = 20;

Outcome<std::uint64_t> parse_volume_size(const std::string& text) {
  TRY(const std::uint64_t size, parse_size(text));
  if (size == 0 || size % kBlock != 0 || size > std::numeric_limits<std::int64_t>::max())
    return usage_failure(fmt::format("--size {}: a volume has whole blocks of 4 KiB, at least one", text),
                         "for example: --size 1Gi");
  return size;
}

Outcome<Json> volume_object(const Context& context, const CreateVolume& wanted) {
  TRY(const std::uint64_t size, parse_volume_size(wanted.size));
  if (wanted.replicas < 1 || wanted.replicas > kMaxReplicas)
    return usage_failure(
        fmt::format("--replicas {}: a volume has 1 to {} replicas", wanted.replicas, kMaxReplicas));
  const auto mode = model::enum_from<lh::AccessMode>(wanted.access_mode);
  if (!mode || *mode == lh::AccessMode::none || *mode == lh::AccessMode::rox)
    return usage_failure(fmt::format("--access-mode {}: use rwo, rwop or rwx", wanted.access_mode));
  if (wanted.migratable && *mode != lh::AccessMode::rwx)
    return usage_failure("--migratable needs --access-mode rwx: during a move two nodes hold the volume");
  Json spec = Json::object({{"size", fmt::format("{}", size)},
                            {"numberOfReplicas", wanted.replicas},
                            {"accessMode", wanted.access_mode},
                            {"frontend", "blockdev"}});
  if (wanted.migratable) spec.set("migratable", true);
  return Json::object({{"apiVersion", lh::kApiVersion},
                       {"kind", "Volume"},
                       {"metadata", Json::object({{"name", wanted.name}, {"namespace", context.space}})},
                       {"spec", std::move(spec)}});
}

std::optional<Outcome<void>> created_verdict(const VolumeSight& sight) {
  if (!sight.volume) return Failure{ExitCode::not_found, "the volume is gone again"};
  const bool placed = model::is_condition_true(sight.volume->status.conditions, lh::kVolumeScheduled);
  const bool ready = sight.attachment && placed &&
                     (sight.volume->status.state == lh::VolumeState::detached ||
                      sight.volume->status.state == lh::VolumeState::attached);
  if (ready) return Outcome<void>();
  return std::nullopt;
}

std::vector<Cell> volume_row(const Context& context, const lh::Volume& volume) {
  const auto& status = volume.status;
  const bool deleting = volume.metadata.is_being_deleted();
  return {volume.metadata.name,
          deleting ? Cell("deleting", Colour::yellow) : Cell::state(to_string(status.state)),
          Cell::state(to_string(status.robustness)),
          format_size(static_cast<std::uint64_t>(std::max<std::int64_t>(0, volume.spec.size))),
          fmt::format("{}", volume.spec.number_of_replicas),
          status.current_node_id,
          age(context, volume.metadata.creation_timestamp),
          std::string(to_string(volume.spec.access_mode)),
          volume.spec.migratable ? "yes" : "",
          fmt::format("{}", status.epoch),
          volume.spec.last_attached_by};
}

std::vector<std::string> volume_headings() {
  return {"NAME", "STATE",  "ROBUSTNESS", "SIZE",  "REPLICAS",   "NODE",
          "AGE",  "ACCESS", "MIGRATABLE", "EPOCH", "ATTACHED BY"};
}

// Objects of one volume, for `show`.
struct VolumeParts {
  std::optional<lh::VolumeAttachment> attachment;
  std::optional<lh::Engine> engine;
  std::vector<Pair<lh::Replica>> replicas;
};

Task<Outcome<VolumeParts>> read_parts(Context& context, std::string name) {
  VolumeParts parts;
  CO_TRY(parts.attachment, co_await find_typed<lh::VolumeAttachment>(context, name));
  CO_TRY(parts.engine, co_await engine_in_use(context, name));
  CO_TRY(parts.replicas, co_await list_typed<lh::Replica>(context, of_volume(name)));
  co_return parts;
}

void print_fact(const Printer& printer, std::string_view label, std::string_view value) {
  if (!value.empty()) printer.line(fmt::format("{:<12} {}", label, value));
}

void print_replicas(const Context& context, const VolumeParts& parts) {
  if (parts.replicas.empty()) return;
  Table table{{"REPLICA", "NODE", "DISK", "STATE", "MODE"}, {}, 0};
  for (const auto& pair : parts.replicas) {
    const lh::Replica& replica = pair.object;
    std::string_view mode;
    if (parts.engine) {
      const auto& modes = parts.engine->status.replica_mode_map;
      if (const auto found = modes.find(replica.metadata.name); found != modes.end())
        mode = to_string(found->second);
    }
    table.rows.push_back({replica.metadata.name, replica.spec.node_id, replica.spec.disk_id,
                          Cell::state(to_string(replica.status.current_state)), Cell::state(mode)});
  }
  context.printer.line("");
  context.printer.table(table);
}

}  // namespace

VolumeDevice device_of(const lh::Engine& engine) {
  return {engine.status.endpoint, engine.status.nbd_uri};
}

Task<Outcome<void>> create_volume(Context& context, CreateVolume wanted) {
  CO_TRY(Json object, volume_object(context, wanted));
  registry::WriteOptions options;
  options.field_manager = "moor";
  options.field_validation = registry::FieldValidation::strict;
  auto written =
      co_await context.registry.create(resource<lh::Volume>(context), std::move(object), std::move(options));
  if (!written && written.is(Errc::already_exists)) {
    Failure failure{ExitCode::conflict, fmt::format("there is a volume '{}' already", wanted.name)};
    failure.hint = fmt::format("look at it with: moor volume show {}", wanted.name);
    co_return failure;
  }
  if (!written) co_return written.error();
  for (const std::string& warning : written->warnings) context.printer.warn(warning);
  if (wanted.wait) {
    FollowOptions follow{wanted.name, wanted.timeout, fmt::format("{} to be ready", wanted.name), "",
                         created_verdict};
    CO_TRY_VOID(co_await follow_volume(context, std::move(follow)));
  }
  context.printer.done(kind_of<lh::Volume>(), written->object, fmt::format("volume {} created", wanted.name));
  co_return Outcome<void>();
}

Task<Outcome<void>> list_volumes(Context& context) {
  registry::ListOptions everything;
  CO_TRY(const auto volumes, co_await list_typed<lh::Volume>(context, everything));
  if (context.printer.objects(kind_of<lh::Volume>(), jsons_of(volumes), true)) co_return Outcome<void>();
  if (volumes.empty()) {
    context.printer.note("no volumes yet; make one with: moor volume create v1 --size 1Gi");
    co_return Outcome<void>();
  }
  Table table{volume_headings(), {}, 7};
  for (const auto& pair : volumes) table.rows.push_back(volume_row(context, pair.object));
  context.printer.table(table);
  co_return Outcome<void>();
}

Task<Outcome<void>> show_volume(Context& context, std::string name) {
  CO_TRY(const auto pair, co_await get_typed<lh::Volume>(context, name));
  std::vector<Json> one;
  one.push_back(pair.json);
  if (context.printer.objects(kind_of<lh::Volume>(), one, false)) co_return Outcome<void>();
  CO_TRY(const VolumeParts parts, co_await read_parts(context, name));
  const Printer& printer = context.printer;
  const lh::Volume& volume = pair.object;
  print_fact(printer, "Name", volume.metadata.name);
  print_fact(printer, "Namespace", volume.metadata.space);
  print_fact(printer, "State", state_sentence(volume));
  print_fact(printer, "Size", format_size(static_cast<std::uint64_t>(volume.spec.size)));
  print_fact(printer, "Replicas", fmt::format("{} wanted", volume.spec.number_of_replicas));
  print_fact(
      printer, "Access mode",
      fmt::format("{}{}", to_string(volume.spec.access_mode), volume.spec.migratable ? ", migratable" : ""));
  print_fact(printer, "Move", move_sentence(context, volume));
  print_fact(printer, "Epoch", fmt::format("{}", volume.status.epoch));
  if (parts.engine) {
    const VolumeDevice device = device_of(*parts.engine);
    print_fact(printer, "Device", device.device);
    print_fact(printer, "NBD", device.nbd);
  }
  print_fact(printer, "Age", age(context, volume.metadata.creation_timestamp));
  for (const model::Condition& condition : volume.status.conditions)
    if (condition.status == model::ConditionStatus::no && !condition.message.empty())
      print_fact(printer, condition.type, condition.message);
  if (parts.attachment && !parts.attachment->spec.attachment_tickets.empty()) {
    printer.line("");
    printer.table(ticket_table(context, {*parts.attachment}));
  }
  print_replicas(context, parts);
  co_return Outcome<void>();
}

Task<Outcome<void>> delete_volume(Context& context, DeleteVolume which) {
  CO_TRY(const auto pair, co_await get_typed<lh::Volume>(context, which.name));
  CO_TRY(const auto attachment, co_await find_typed<lh::VolumeAttachment>(context, which.name));
  if (attachment && !which.force) {
    for (const auto& [id, ticket] : attachment->spec.attachment_tickets) {
      if (ticket.node_id.empty()) continue;
      Failure failure{ExitCode::conflict, fmt::format("{} is wanted on {} by ticket {} ({})", which.name,
                                                      ticket.node_id, id, ticket.type)};
      failure.hint = fmt::format(
          "detach it first: moor detach {} --ticket {} --wait (or delete with --force)", which.name, id);
      co_return failure;
    }
  }
  registry::DeleteOptions options;
  options.uid = pair.object.metadata.uid;  // not one of the same name that came since
  auto deleted = co_await context.registry.remove(resource<lh::Volume>(context, which.name), options);
  if (!deleted) co_return deleted.error();
  if (which.wait) {
    const std::string uid = pair.object.metadata.uid;
    Verdict verdict = [uid](const VolumeSight& sight) -> std::optional<Outcome<void>> {
      if (!sight.volume || sight.volume->metadata.uid != uid) return Outcome<void>();
      return std::nullopt;
    };
    FollowOptions follow{which.name, which.timeout, fmt::format("{} to be gone", which.name), "",
                         std::move(verdict)};
    CO_TRY_VOID(co_await follow_volume(context, std::move(follow)));
  }
  context.printer.done(
      kind_of<lh::Volume>(), pair.json,
      fmt::format("volume {} {}", which.name, which.wait || deleted->gone ? "deleted" : "is being deleted"));
  co_return Outcome<void>();
}

Task<Outcome<void>> show_device(Context& context, std::string name) {
  CO_TRY(const auto pair, co_await get_typed<lh::Volume>(context, name));
  const lh::Volume& volume = pair.object;
  CO_TRY(const auto engine, co_await engine_in_use(context, name));
  const VolumeDevice device = engine ? device_of(*engine) : VolumeDevice{};
  const bool usable = volume.status.state == lh::VolumeState::attached;
  if (!usable || (device.device.empty() && device.nbd.empty())) {
    Failure failure{ExitCode::not_found,
                    usable ? fmt::format("{} is attached without a device", name)
                           : fmt::format("{} is {}: it has no device", name, state_sentence(volume))};
    failure.hint = !usable ? fmt::format("attach it: moor attach {} --node NODE --wait", name)
                   : volume.spec.disable_frontend
                       ? "its tickets ask for disableFrontend"
                       : fmt::format("its engine is on the way; see: moor why volume {}", name);
    co_return failure;
  }
  if (context.printer.format() == Format::json || context.printer.format() == Format::yaml) {
    context.printer.data(Json::object({{"volume", name},
                                       {"node", volume.status.current_node_id},
                                       {"device", device.device.empty() ? Json() : Json(device.device)},
                                       {"nbd", device.nbd.empty() ? Json() : Json(device.nbd)}}));
  } else {
    // One value per line, the device first: `$(moor volume device v1 -o name)` is the device alone.
    if (!device.device.empty()) context.printer.line(device.device);
    if (!device.nbd.empty() && (context.printer.for_people() || device.device.empty()))
      context.printer.line(device.nbd);
  }
  co_return Outcome<void>();
}

}  // namespace moor::cli
