#include "cli/tickets.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/units.h"
#include "cli/follow.h"
#include "cli/objects.h"
#include "cli/volume_commands.h"

namespace moor::cli {
namespace {

namespace lh = model::longhorn;

// Its controller makes a VolumeAttachment right after its volume.
constexpr Duration kBookTimeout = std::chrono::seconds(10);

Outcome<Json> ticket_object(const Context& context, const Attach& wanted, const std::string& id) {
  Json parameters = Json::object(
      {{lh::kParameterDisableFrontend, wanted.disable_frontend ? "true" : "false"},
       {lh::kParameterLastAttachedBy, context.user.empty() ? std::string("moor") : context.user}});
  Json ticket = Json::object({{"id", id},
                              {"type", lh::attacher::kApi},
                              {"nodeID", wanted.node},
                              {"parameters", std::move(parameters)},
                              {"expiresAt", nullptr}});
  if (!wanted.expires.empty()) {
    TRY(const Duration after, parse_duration(wanted.expires));
    if (after <= Duration::zero())
      return usage_failure("--expires: a ticket cannot expire before it is made");
    const auto when = context.now() + std::chrono::duration_cast<std::chrono::microseconds>(after);
    ticket.set("expiresAt", model::format_rfc3339(when));
  }
  return ticket;
}

Json tickets_patch(const std::string& id, Json ticket) {
  return Json::object(
      {{"spec", Json::object({{"attachmentTickets", Json::object({{id, std::move(ticket)}})}})}});
}

// Right after `volume create` the book may not be there yet: its controller makes it.
Task<Outcome<void>> wait_for_book(Context& context, std::string volume) {
  CO_TRY(const auto book, co_await find_typed<lh::VolumeAttachment>(context, volume));
  if (book) co_return Outcome<void>();
  Verdict verdict = [](const VolumeSight& sight) -> std::optional<Outcome<void>> {
    if (sight.attachment) return Outcome<void>();
    if (!sight.volume) return Failure{ExitCode::not_found, "the volume is gone"};
    return std::nullopt;
  };
  FollowOptions follow{volume, kBookTimeout, fmt::format("the book of tickets of {}", volume), "",
                       std::move(verdict)};
  auto there = co_await follow_volume(context, std::move(follow));
  if (!there && there.error().code == ExitCode::timed_out) {
    Failure failure = there.error();
    failure.hint = "the server's volume controller makes it; is a leader elected? See the server's log.";
    co_return failure;
  }
  co_return there;
}

Task<Outcome<Json>> write_tickets(Context& context, std::string volume, Json patch) {
  registry::WriteOptions options;
  options.field_manager = "moor";
  options.field_validation = registry::FieldValidation::strict;
  auto written = co_await context.registry.patch(resource<lh::VolumeAttachment>(context, volume),
                                                 registry::PatchType::merge, std::move(patch), options);
  if (!written) co_return written.error();
  for (const std::string& warning : written->warnings) context.printer.warn(warning);
  co_return std::move(written->object);
}

// Satisfied, and usable: an engine that has just died leaves the ticket satisfied, because the volume stays
// where it is while the next one starts.
Verdict usable_verdict(std::string id, std::int64_t generation, bool device_wanted) {
  return [id, generation, device_wanted](const VolumeSight& sight) -> std::optional<Outcome<void>> {
    if (!sight.volume || !sight.attachment) return Failure{ExitCode::not_found, "the volume is gone"};
    const auto& tickets = sight.attachment->spec.attachment_tickets;
    const auto ticket = tickets.find(id);
    if (ticket == tickets.end())
      return Failure{ExitCode::not_found, fmt::format("somebody removed ticket {}", id)};
    // An older view than our own write says nothing.
    if (ticket->second.generation < generation || !is_satisfied(*sight.attachment, id)) return std::nullopt;
    if (!sight.engine || sight.engine->status.current_state != lh::InstanceState::running)
      return std::nullopt;
    if (device_wanted && sight.engine->status.endpoint.empty()) return std::nullopt;
    return Outcome<void>();
  };
}

Task<Outcome<void>> say_attached(Context& context, Attach wanted, Json book) {
  if (!context.printer.for_people()) {
    context.printer.done(kind_of<lh::VolumeAttachment>(), book, "");
    co_return Outcome<void>();
  }
  if (!wanted.wait) {
    context.printer.line(fmt::format("asked for {} on {}; follow it with: moor why volume {}", wanted.volume,
                                     wanted.node, wanted.volume));
    co_return Outcome<void>();
  }
  CO_TRY(const auto engine, co_await engine_in_use(context, wanted.volume));
  const VolumeDevice device = engine ? device_of(*engine) : VolumeDevice{};
  std::string text = fmt::format("{} attached to {}", wanted.volume, wanted.node);
  if (!device.device.empty()) text += fmt::format(", device {}", device.device);
  context.printer.line(text);
  co_return Outcome<void>();
}

// The tickets that `which` means; a Failure when there are none, with who else holds the volume.
Outcome<std::vector<std::string>> tickets_to_remove(const Detach& which, const lh::VolumeAttachment& book) {
  std::vector<std::string> ids;
  std::string others;
  for (const auto& [id, ticket] : book.spec.attachment_tickets) {
    const bool meant = !which.ticket.empty() ? id == which.ticket
                                             : ticket.type == lh::attacher::kApi &&
                                                   (which.node.empty() || ticket.node_id == which.node);
    if (meant) {
      ids.push_back(id);
    } else {
      others += fmt::format("{}{} ({}{}{})", others.empty() ? "" : ", ", id, ticket.type,
                            ticket.node_id.empty() ? "" : " on ", ticket.node_id);
    }
  }
  if (!ids.empty()) return ids;
  if (!which.ticket.empty())
    return Failure{ExitCode::not_found, fmt::format("{} has no ticket '{}'", which.volume, which.ticket),
                   others.empty() ? "it has no tickets at all" : "its tickets: " + others};
  if (others.empty()) return ids;
  return Failure{ExitCode::not_found,
                 fmt::format("{} has no ticket of yours{}{}; held by {}", which.volume,
                             which.node.empty() ? "" : " on ", which.node, others),
                 "remove one of those by name if you must: --ticket ID"};
}

// Done when the volume is on none of these nodes any more, or at once when someone else keeps it there.
Verdict released_verdict(std::set<std::string> nodes) {
  return [nodes](const VolumeSight& sight) -> std::optional<Outcome<void>> {
    if (!sight.volume) return Outcome<void>();
    const lh::VolumeStatus& status = sight.volume->status;
    const std::string& current = status.current_node_id;
    const bool wanted_there = nodes.contains(sight.volume->spec.node_id);
    const bool detached = status.state == lh::VolumeState::detached;
    if (!wanted_there && (detached || (!current.empty() && !nodes.contains(current)))) return Outcome<void>();
    if (!sight.attachment) return std::nullopt;
    for (const auto& [id, ticket] : sight.attachment->spec.attachment_tickets)
      if (nodes.contains(ticket.node_id))
        return Failure{ExitCode::conflict,
                       fmt::format("ticket {} ({}) keeps it on {}", id, ticket.type, ticket.node_id)};
    return std::nullopt;
  };
}

std::string waiting_text(const lh::VolumeAttachment& book, const std::string& id) {
  const auto& statuses = book.status.attachment_ticket_statuses;
  const auto status = statuses.find(id);
  if (status == statuses.end() || status->second.blockers.empty()) return "";
  const lh::Blocker& first = status->second.blockers.front();
  const std::string& holder = first.node_id.empty() ? first.holder : first.node_id;
  return fmt::format("{}{}", to_string(first.type), holder.empty() ? "" : fmt::format("({})", holder));
}

}  // namespace

bool is_satisfied(const lh::VolumeAttachment& attachment, const std::string& ticket) {
  const auto& statuses = attachment.status.attachment_ticket_statuses;
  const auto status = statuses.find(ticket);
  const auto wanted = attachment.spec.attachment_tickets.find(ticket);
  return status != statuses.end() && wanted != attachment.spec.attachment_tickets.end() &&
         status->second.satisfied && status->second.generation == wanted->second.generation;
}

Task<Outcome<void>> attach_volume(Context& context, Attach wanted) {
  CO_TRY(const auto volume, co_await get_typed<lh::Volume>(context, wanted.volume));
  if (volume.object.metadata.is_being_deleted())
    co_return Failure{ExitCode::conflict, fmt::format("{} is being deleted", wanted.volume)};
  // A node that does not exist would be a ticket that waits for ever; the server would take it.
  CO_TRY_VOID(co_await get_typed<lh::Node>(context, wanted.node));
  const std::string id = wanted.ticket.empty() ? "moor-" + wanted.node : wanted.ticket;
  CO_TRY(Json ticket, ticket_object(context, wanted, id));
  CO_TRY_VOID(co_await wait_for_book(context, wanted.volume));
  CO_TRY(Json book, co_await write_tickets(context, wanted.volume, tickets_patch(id, std::move(ticket))));
  CO_TRY(const auto written, model::decode<lh::VolumeAttachment>(book));
  if (wanted.wait) {
    const auto ours = written.spec.attachment_tickets.find(id);
    const std::int64_t generation =
        ours == written.spec.attachment_tickets.end() ? 0 : ours->second.generation;
    FollowOptions follow{wanted.volume, wanted.timeout,
                         fmt::format("{} to be attached to {}", wanted.volume, wanted.node), id,
                         usable_verdict(id, generation, !wanted.disable_frontend)};
    CO_TRY_VOID(co_await follow_volume(context, std::move(follow)));
  }
  co_return co_await say_attached(context, std::move(wanted), std::move(book));
}

// The tickets went before; the node may still be letting go of the volume.
Task<Outcome<void>> nothing_to_remove(Context& context, Detach which, lh::Volume volume) {
  const std::string node = volume.status.current_node_id;
  if (!which.wait || node.empty() || !volume.spec.node_id.empty()) {
    context.printer.line(fmt::format("{} has no tickets: nothing to detach", which.volume));
    co_return Outcome<void>();
  }
  FollowOptions follow{which.volume, which.timeout, fmt::format("{} to be detached", which.volume), "",
                       released_verdict({node})};
  CO_TRY_VOID(co_await follow_volume(context, std::move(follow)));
  context.printer.line(fmt::format("{} detached from {}", which.volume, node));
  co_return Outcome<void>();
}

Task<Outcome<void>> detach_volume(Context& context, Detach which) {
  CO_TRY(const auto volume, co_await get_typed<lh::Volume>(context, which.volume));
  CO_TRY(const auto book, co_await find_typed<lh::VolumeAttachment>(context, which.volume));
  std::vector<std::string> ids;
  if (book) {
    CO_TRY(ids, tickets_to_remove(which, *book));
  }
  if (ids.empty()) co_return co_await nothing_to_remove(context, std::move(which), volume.object);
  Json removed = Json::object();
  std::set<std::string> nodes;
  for (const std::string& id : ids) {
    removed.set(id, nullptr);
    const std::string& node = book->spec.attachment_tickets.at(id).node_id;
    if (!node.empty()) nodes.insert(node);
  }
  Json patch = Json::object({{"spec", Json::object({{"attachmentTickets", std::move(removed)}})}});
  CO_TRY(const Json written, co_await write_tickets(context, which.volume, std::move(patch)));
  if (which.wait && !nodes.empty()) {
    FollowOptions follow{which.volume, which.timeout, fmt::format("{} to be detached", which.volume), "",
                         released_verdict(nodes)};
    CO_TRY_VOID(co_await follow_volume(context, std::move(follow)));
  }
  const std::string where = fmt::format("{}", fmt::join(nodes, ", "));
  context.printer.done(
      kind_of<lh::VolumeAttachment>(), written,
      which.wait ? fmt::format("{} detached{}{}", which.volume, where.empty() ? "" : " from ", where)
                 : fmt::format("ticket {} of {} removed", fmt::join(ids, ", "), which.volume));
  co_return Outcome<void>();
}

Table ticket_table(const Context& context, const std::vector<lh::VolumeAttachment>& attachments) {
  Table table{
      {"VOLUME", "TICKET", "TYPE", "NODE", "SATISFIED", "WAITING FOR", "AGE", "EXPIRES", "FRONTEND"}, {}, 7};
  for (const lh::VolumeAttachment& attachment : attachments) {
    for (const auto& [id, ticket] : attachment.spec.attachment_tickets) {
      const bool satisfied = is_satisfied(attachment, id);
      const auto frontend = ticket.parameters.find(std::string(lh::kParameterDisableFrontend));
      std::optional<model::Time> requested;
      if (ticket.requested_at) requested = ticket.requested_at->at;
      table.rows.push_back({attachment.metadata.name, id, ticket.type,
                            ticket.node_id.empty() ? std::string("(reserved)") : ticket.node_id,
                            Cell::state(satisfied ? "yes" : "waiting"),
                            satisfied ? "" : waiting_text(attachment, id), age(context, requested),
                            ticket.expires_at ? model::format_rfc3339(*ticket.expires_at) : "",
                            frontend == ticket.parameters.end() ? "on"
                            : frontend->second == "any"         ? "any"
                            : frontend->second == "true"        ? "off"
                                                                : "on"});
    }
  }
  return table;
}

Task<Outcome<void>> list_tickets(Context& context, std::string volume) {
  std::vector<Pair<lh::VolumeAttachment>> books;
  if (volume.empty()) {
    registry::ListOptions everything;
    CO_TRY(books, co_await list_typed<lh::VolumeAttachment>(context, everything));
  } else {
    CO_TRY_VOID(co_await get_typed<lh::Volume>(context, volume));
    CO_TRY(std::optional<Json> book,
           co_await find_object(context, resource<lh::VolumeAttachment>(context, volume)));
    if (book) {
      CO_TRY(auto decoded, model::decode<lh::VolumeAttachment>(*book));
      books.push_back({std::move(*book), std::move(decoded)});
    }
  }
  if (context.printer.objects(kind_of<lh::VolumeAttachment>(), jsons_of(books), volume.empty()))
    co_return Outcome<void>();
  std::vector<lh::VolumeAttachment> typed;
  for (const auto& book : books) typed.push_back(book.object);
  const Table table = ticket_table(context, typed);
  if (table.rows.empty()) {
    context.printer.note("no tickets");
  } else {
    context.printer.table(table);
  }
  co_return Outcome<void>();
}

}  // namespace moor::cli
