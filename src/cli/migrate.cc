#include "cli/migrate.h"

#include <fmt/format.h>

#include "attach/moves.h"
#include "cli/follow.h"
#include "cli/objects.h"
#include "cli/tickets.h"

namespace moor::cli {
namespace {

namespace lh = model::longhorn;
using lh::MovePhase;

Outcome<void> check_arguments(const Migrate& wanted) {
  if (wanted.confirm && wanted.roll_back)
    return usage_failure("--confirm and --rollback are opposites", "say one of them");
  if (wanted.to.empty() && !wanted.confirm && !wanted.roll_back && !wanted.activate)
    return usage_failure("where to?", "for example: moor migrate v1 --to node-2 --wait");
  return Outcome<void>();
}

// The source and destination of the move that is there, or asked for.
struct Sides {
  std::string source;
  std::string destination;
};

Outcome<Sides> sides_of(const lh::Volume& volume) {
  if (attach::is_moving(volume))
    return Sides{volume.status.move->source_node_id, volume.status.move->destination_node_id};
  if (!volume.spec.migration_node_id.empty())
    return Sides{volume.spec.node_id, volume.spec.migration_node_id};
  Failure failure{ExitCode::conflict, fmt::format("{} is not moving", volume.metadata.name)};
  failure.hint = fmt::format("begin with: moor migrate {} --to NODE --wait", volume.metadata.name);
  return failure;
}

Task<Outcome<void>> patch_tickets(Context& context, std::string volume, Json tickets) {
  registry::WriteOptions options;
  options.field_manager = "moor";
  options.field_validation = registry::FieldValidation::strict;
  Json patch = Json::object({{"spec", Json::object({{"attachmentTickets", std::move(tickets)}})}});
  auto written = co_await context.registry.patch(resource<lh::VolumeAttachment>(context, volume),
                                                 registry::PatchType::merge, std::move(patch), options);
  if (!written) co_return written.error();
  co_return Outcome<void>();
}

// Tickets of people on that node go; others belong to their makers, who end the move by leaving.
Task<Outcome<void>> leave(Context& context, Migrate wanted, std::string node) {
  CO_TRY(const auto book, co_await get_typed<lh::VolumeAttachment>(context, wanted.volume));
  Json gone = Json::object();
  std::string others;
  for (const auto& [id, ticket] : book.object.spec.attachment_tickets) {
    if (ticket.node_id != node) continue;
    if (ticket.type == lh::attacher::kApi)
      gone.set(id, nullptr);
    else
      others += fmt::format("{}{} ({})", others.empty() ? "" : ", ", id, ticket.type);
  }
  if (!others.empty()) {
    Failure failure{ExitCode::conflict, fmt::format("{} is held on {} by {}", wanted.volume, node, others)};
    failure.hint = fmt::format("its owner ends the move by leaving; if you must: moor detach {} --ticket ID",
                               wanted.volume);
    co_return failure;
  }
  if (gone.size() == 0) co_return Outcome<void>();
  co_return co_await patch_tickets(context, wanted.volume, std::move(gone));
}

Verdict ended_on(std::string node) {
  return [node](const VolumeSight& sight) -> std::optional<Outcome<void>> {
    if (!sight.volume) return Failure{ExitCode::not_found, "the volume is gone"};
    if (attach::is_move_asked(*sight.volume)) return std::nullopt;
    const auto& status = sight.volume->status;
    if (status.state != lh::VolumeState::attached) return std::nullopt;
    if (status.current_node_id == node) return Outcome<void>();
    return Failure{ExitCode::conflict, fmt::format("it ended on {} instead", status.current_node_id)};
  };
}

// Ready, or further.
Verdict ready_on(std::string node, bool activated) {
  return [node, activated](const VolumeSight& sight) -> std::optional<Outcome<void>> {
    if (!sight.volume || !sight.attachment) return Failure{ExitCode::not_found, "the volume is gone"};
    const lh::Volume& volume = *sight.volume;
    if (volume.status.current_node_id == node && !attach::is_move_asked(volume)) return Outcome<void>();
    bool asked = false;
    for (const auto& [id, ticket] : sight.attachment->spec.attachment_tickets)
      asked = asked || ticket.node_id == node;
    if (!asked) return Failure{ExitCode::not_found, fmt::format("somebody removed the ticket for {}", node)};
    if (!attach::is_moving(volume) || volume.status.move->destination_node_id != node) return std::nullopt;
    const MovePhase phase = volume.status.move->phase;
    if (phase == MovePhase::activated || phase == MovePhase::confirming ||
        (phase == MovePhase::ready && !activated))
      return Outcome<void>();
    return std::nullopt;
  };
}

Task<Outcome<void>> follow(Context& context, Migrate wanted, std::string what, std::string ticket,
                           Verdict verdict) {
  if (!wanted.wait) co_return Outcome<void>();
  FollowOptions options{wanted.volume, wanted.timeout, std::move(what), std::move(ticket),
                        std::move(verdict)};
  co_return co_await follow_volume(context, std::move(options));
}

Outcome<void> check_start(const Migrate& wanted, const lh::Volume& volume) {
  const std::string& name = wanted.volume;
  if (volume.status.state != lh::VolumeState::attached) {
    Failure failure{ExitCode::conflict,
                    fmt::format("{} is {}: only an attached volume moves", name, state_sentence(volume))};
    failure.hint = fmt::format("attach it there: moor attach {} --node {} --wait", name, wanted.to);
    return failure;
  }
  if (!attach::is_move_asked(volume) && volume.status.current_node_id == wanted.to)
    return Failure{ExitCode::conflict, fmt::format("{} is on {} already", name, wanted.to)};
  if (!volume.spec.migratable) {
    Failure failure{ExitCode::conflict, fmt::format("{} is not migratable", name)};
    failure.hint = "volumes are made so: moor volume create NAME --size SIZE --access-mode rwx --migratable";
    return failure;
  }
  const std::string destination =
      attach::is_moving(volume) ? volume.status.move->destination_node_id : volume.spec.migration_node_id;
  if (!destination.empty() && destination != wanted.to) {
    Failure failure{ExitCode::conflict, fmt::format("{} moves to {} already", name, destination)};
    failure.hint = fmt::format("end that first: moor migrate {} --confirm or --rollback", name);
    return failure;
  }
  return Outcome<void>();
}

Task<Outcome<void>> start(Context& context, Migrate wanted, lh::Volume volume) {
  CO_TRY_VOID(check_start(wanted, volume));
  CO_TRY_VOID(co_await get_typed<lh::Node>(context, wanted.to));
  const std::string id = "moor-" + wanted.to;
  Json parameters = Json::object(
      {{lh::kParameterDisableFrontend, volume.spec.disable_frontend ? "true" : "false"},
       {lh::kParameterLastAttachedBy, context.user.empty() ? std::string("moor") : context.user}});
  if (wanted.activate) parameters.set(lh::kParameterActivate, "true");
  Json ticket = Json::object({{"id", id},
                              {"type", lh::attacher::kApi},
                              {"nodeID", wanted.to},
                              {"parameters", std::move(parameters)}});
  Json tickets = Json::object();
  tickets.set(id, std::move(ticket));
  CO_TRY_VOID(co_await patch_tickets(context, wanted.volume, std::move(tickets)));
  CO_TRY_VOID(co_await follow(context, wanted, fmt::format("{} to be ready on {}", wanted.volume, wanted.to),
                              id, ready_on(wanted.to, wanted.activate)));
  if (!wanted.confirm)
    context.printer.line(
        wanted.wait
            ? fmt::format("{} is ready on {}; end the move with: moor migrate {} --confirm (or --rollback)",
                          wanted.volume, wanted.to, wanted.volume)
            : fmt::format("asked for {} on {}; follow it with: moor why volume {}", wanted.volume, wanted.to,
                          wanted.volume));
  co_return Outcome<void>();
}

Task<Outcome<void>> activate(Context& context, Migrate wanted, Sides sides) {
  CO_TRY(const auto book, co_await get_typed<lh::VolumeAttachment>(context, wanted.volume));
  Json tickets = Json::object();
  for (const auto& [id, ticket] : book.object.spec.attachment_tickets)
    if (ticket.node_id == sides.destination) {
      Json parameters = Json::object();
      parameters.set(lh::kParameterActivate, "true");
      tickets.set(id, Json::object({{"parameters", std::move(parameters)}}));
      break;
    }
  if (tickets.size() == 0)
    co_return Failure{ExitCode::conflict,
                      fmt::format("no ticket asks for {} on {}", wanted.volume, sides.destination)};
  CO_TRY_VOID(co_await patch_tickets(context, wanted.volume, std::move(tickets)));
  CO_TRY_VOID(co_await follow(context, wanted, fmt::format("{} to take over", sides.destination), "",
                              ready_on(sides.destination, true)));
  if (!wanted.confirm)
    context.printer.line(fmt::format("{} {} {}", wanted.volume,
                                     wanted.wait ? "is active on" : "was asked to take over on",
                                     sides.destination));
  co_return Outcome<void>();
}

// A confirmation before the destination is ready would be a detach and an attach: refused here.
Task<Outcome<void>> end(Context& context, Migrate wanted, lh::Volume volume, Sides sides) {
  if (wanted.confirm && !attach::is_move_ready(volume)) {
    Failure failure{ExitCode::conflict,
                    fmt::format("the move of {} to {} is not ready", wanted.volume, sides.destination)};
    failure.hint = fmt::format("wait for it: moor migrate {} --to {} --wait; or see: moor why volume {}",
                               wanted.volume, sides.destination, wanted.volume);
    co_return failure;
  }
  const std::string& goes = wanted.confirm ? sides.source : sides.destination;
  const std::string& stays = wanted.confirm ? sides.destination : sides.source;
  CO_TRY_VOID(co_await leave(context, wanted, goes));
  CO_TRY_VOID(co_await follow(context, wanted, fmt::format("{} to be on {} alone", wanted.volume, stays), "",
                              ended_on(stays)));
  context.printer.line(wanted.wait ? fmt::format("{} is on {}", wanted.volume, stays)
                                   : fmt::format("{} will stay on {}", wanted.volume, stays));
  co_return Outcome<void>();
}

}  // namespace

std::string move_sentence(const Context& context, const lh::Volume& volume) {
  if (!attach::is_moving(volume)) return {};
  const lh::MoveStatus& move = *volume.status.move;
  std::string text =
      fmt::format("{} to {}, {}", move.source_node_id, move.destination_node_id, to_string(move.phase));
  if (move.phase_since) text += " since " + age(context, move.phase_since);
  if (!move.message.empty()) text += ": " + move.message;
  return text;
}

Task<Outcome<void>> migrate_volume(Context& context, Migrate wanted) {
  CO_TRY_VOID(check_arguments(wanted));
  CO_TRY(auto volume, co_await get_typed<lh::Volume>(context, wanted.volume));
  // Each step needs the one before it to be done.
  const bool more = wanted.confirm || wanted.roll_back;
  if (!wanted.to.empty()) {
    Migrate first = wanted;
    first.wait = wanted.wait || more;
    CO_TRY_VOID(co_await start(context, std::move(first), volume.object));
    if (!more) co_return Outcome<void>();
    CO_TRY(volume, co_await get_typed<lh::Volume>(context, wanted.volume));
  }
  CO_TRY(const Sides sides, sides_of(volume.object));
  if (wanted.to.empty() && wanted.activate) {
    Migrate first = wanted;
    first.wait = wanted.wait || more;
    CO_TRY_VOID(co_await activate(context, std::move(first), sides));
    if (!more) co_return Outcome<void>();
  }
  co_return co_await end(context, std::move(wanted), volume.object, sides);
}

}  // namespace moor::cli
