#include "attach/blockers.h"

#include <fmt/format.h>

#include <algorithm>

#include "attach/moves.h"
#include "base/plant.h"
#include "base/units.h"

namespace moor::attach {

using model::longhorn::BlockerType;
using model::longhorn::CloneState;
namespace attacher = model::longhorn::attacher;

namespace {

std::string with_reason(std::string text, const std::string& reason) {
  return reason.empty() ? text : fmt::format("{}: {}", text, reason);
}

// How a holder leaves, which depends on who it is.
std::string how_it_leaves(const Volume& volume, const AttachmentTicket& holder) {
  if (holder.type == attacher::kApi) {
    std::string text =
        fmt::format("whoever attached it: moor detach {} --node {}", volume.metadata.name, holder.node_id);
    if (holder.expires_at)
      text += fmt::format("; it lapses at {}", model::format_rfc3339(*holder.expires_at));
    return text;
  }
  if (holder.type == attacher::kCsi)
    return fmt::format("the workload on {}: the ticket goes when its pods have left the node",
                       holder.node_id);
  if (holder.type == attacher::kShareManager)
    return "the clients of the share: the ticket goes with the last of them";
  if (ticket_type(holder.type).priority == 0) return "whoever made the ticket: remove it from the attachment";
  return fmt::format("the {}: the ticket goes when its work is done", holder.type);
}

std::string gigabytes(std::int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
}

}  // namespace

std::string ticket_name(const AttachmentTicket& ticket) {
  return ticket.id.empty() ? fmt::format("without an id ({})", ticket.type)
                           : fmt::format("{} ({})", ticket.id, ticket.type);
}

std::vector<Blocker> node_blockers(const Book& book, const std::string& node) {
  const auto found = book.nodes.find(node);
  if (found == book.nodes.end())
    return {{.type = BlockerType::node_not_found,
             .message = fmt::format("there is no node {}", node),
             .holder = node,
             .holder_type = "Node",
             .node_id = node,
             .cleared_by = fmt::format("an agent that joins as {}, or a ticket for another node", node)}};
  const NodeFacts& facts = found->second;
  if (!facts.agent_reachable)
    return {
        {.type = BlockerType::agent_unreachable,
         .message = with_reason(
             fmt::format("the agent of node {} and the server do not reach each other", node), facts.reason),
         .holder = node,
         .holder_type = "Node",
         .node_id = node,
         .since = facts.since,
         .cleared_by = fmt::format("whoever runs node {}: its agent must run and reach the server", node)}};
  if (!facts.ready)
    return {{.type = BlockerType::node_not_ready,
             .message = with_reason(fmt::format("node {} is not ready", node), facts.reason),
             .holder = node,
             .holder_type = "Node",
             .node_id = node,
             .since = facts.since,
             .cleared_by = fmt::format("whoever runs node {}: it must become Ready", node)}};
  return {};
}

std::optional<Blocker> limit_blocker(const Book& book, const std::string& node) {
  const auto found = book.nodes.find(node);
  if (found == book.nodes.end() || book.volume.spec.node_id == node) return std::nullopt;
  const std::int64_t limit = found->second.attach_limit.value_or(book.settings.node_attach_limit());
  if (limit <= 0 || found->second.attachments < limit + (MOOR_PLANT("attach-limit-off-by-one") ? 1 : 0))
    return std::nullopt;
  return Blocker{.type = BlockerType::node_attach_limit,
                 .message = fmt::format("node {} has {} volumes attached and its limit is {}", node,
                                        found->second.attachments, limit),
                 .holder = node,
                 .holder_type = "Node",
                 .node_id = node,
                 .cleared_by = fmt::format("a detach on {}, or a higher node-attach-limit", node)};
}

std::optional<Blocker> data_blocker(const Book& book, const AttachmentTicket& ticket) {
  if (!is_workload(ticket)) return std::nullopt;
  const Volume& volume = book.volume;
  const auto& status = volume.status;
  if (status.restore_required || (!volume.spec.from_backup.empty() && !status.restore_initiated))
    return Blocker{.type = BlockerType::volume_not_ready,
                   .message = fmt::format("the data of volume {} are being restored from a backup",
                                          volume.metadata.name),
                   .holder = volume.metadata.name,
                   .holder_type = "Volume",
                   .node_id = {},
                   .cleared_by = "the restore: it ends by itself"};
  const CloneState clone = status.clone_status.state;
  if (!volume.spec.data_source.empty() && clone != CloneState::copy_completed_awaiting_healthy &&
      clone != CloneState::completed)
    return Blocker{.type = BlockerType::volume_not_ready,
                   .message = fmt::format("the data of volume {} are being copied from {}{}",
                                          volume.metadata.name, volume.spec.data_source,
                                          clone == CloneState::failed ? "; the last try failed" : ""),
                   .holder = volume.metadata.name,
                   .holder_type = "Volume",
                   .node_id = {},
                   .cleared_by = "the copy: it ends by itself"};
  return std::nullopt;
}

std::vector<Blocker> opening_blockers(const Book& book) {
  std::vector<Blocker> blockers;
  const std::string& name = book.volume.metadata.name;
  const std::string& node = book.volume.spec.node_id;
  if (!book.engine.operator_needed.empty())
    blockers.push_back({.type = BlockerType::operator_needed,
                        .message = book.engine.operator_needed,
                        .holder = name,
                        .holder_type = "Volume",
                        .node_id = {},
                        .since = book.engine.since,
                        .cleared_by = "a person"});
  if (book.engine.exhausted)
    blockers.push_back({.type = BlockerType::engine_failing,
                        .message = with_reason(fmt::format("the engine of volume {} ended {} times in a row "
                                                           "and is not restarted any more",
                                                           name, book.engine.restarts),
                                               book.engine.error),
                        .holder = name,
                        .holder_type = "Engine",
                        .node_id = node,
                        .since = book.engine.since,
                        .cleared_by = "a person: mend the cause, then detach and attach again"});
  else if (book.engine.failing)
    blockers.push_back({.type = BlockerType::engine_failing,
                        .message = with_reason(fmt::format("the engine of volume {} ended and is being "
                                                           "restarted (restart {})",
                                                           name, book.engine.restarts),
                                               book.engine.error),
                        .holder = name,
                        .holder_type = "Engine",
                        .node_id = node,
                        .since = book.engine.since,
                        .cleared_by = "the system: it tries again by itself"});
  if (book.storage.no_schedulable_disk)
    blockers.push_back({.type = BlockerType::no_schedulable_disk,
                        .message = with_reason(fmt::format("no disk takes a replica of volume {}", name),
                                               book.storage.detail),
                        .holder = name,
                        .holder_type = "Volume",
                        .node_id = {},
                        .since = book.storage.since,
                        .cleared_by = "whoever runs the nodes: a ready disk that allows scheduling and has "
                                      "the volume's tags"});
  if (book.storage.insufficient_capacity)
    blockers.push_back(
        {.type = BlockerType::insufficient_capacity,
         .message = with_reason(
             fmt::format("a replica of volume {} needs {} and the roomiest disk has {} left", name,
                         gigabytes(book.storage.needed_bytes), gigabytes(book.storage.largest_free_bytes)),
             book.storage.detail),
         .holder = name,
         .holder_type = "Volume",
         .node_id = {},
         .since = book.storage.since,
         .cleared_by = "whoever runs the nodes: room on a disk, or a further disk"});
  return blockers;
}

Blocker opening(const Volume& volume, const std::string& node) {
  return {.type = BlockerType::volume_not_ready,
          .message = fmt::format("volume {} is being attached to node {}", volume.metadata.name, node),
          .holder = volume.metadata.name,
          .holder_type = "Volume",
          .node_id = node,
          .cleared_by = "the system: replicas and engine are being started"};
}

Blocker closing(const Book& book) {
  const Volume& volume = book.volume;
  Blocker blocker{.type = BlockerType::detaching,
                  .holder = volume.metadata.name,
                  .holder_type = "Volume",
                  .node_id = volume.status.current_node_id};
  if (book.grant && book.grant->spec.active) blocker.node_id = book.grant->spec.active->node;
  const std::string& node = blocker.node_id;
  blocker.message = node.empty()
                        ? fmt::format("volume {} is being detached", volume.metadata.name)
                        : fmt::format("volume {} is being detached from node {}", volume.metadata.name, node);
  blocker.cleared_by = "the system: engine and replicas are being stopped";
  if (node.empty()) return blocker;
  if (const auto silent = node_blockers(book, node); !silent.empty()) {
    blocker.message += fmt::format(", and its release is not proven: {}", silent.front().message);
    blocker.holder = node;
    blocker.holder_type = "Node";
    blocker.since = silent.front().since;
    blocker.cleared_by = fmt::format("node {}: when it is back, its agent proves the release", node);
  } else if (!book.engine.device_in_use_by.empty()) {
    blocker.message +=
        fmt::format(", and its device cannot be removed yet: {}", book.engine.device_in_use_by);
    blocker.holder = book.engine.device_in_use_by;
    blocker.holder_type = "DeviceUser";
    blocker.since = book.engine.device_in_use_since;
    blocker.cleared_by = fmt::format("whoever uses the device on node {}: close or unmount it", node);
  }
  return blocker;
}

Blocker expired(const AttachmentTicket& ticket, Time at) {
  return {.type = BlockerType::expired,
          .message = fmt::format("ticket {} lapsed at {}", ticket_name(ticket), model::format_rfc3339(at)),
          .holder = ticket.id,
          .holder_type = "Ticket",
          .node_id = {},
          .since = at,
          .cleared_by = "whoever made the ticket: a later expiresAt, or a new ticket"};
}

Blocker deleting(const Volume& volume) {
  return {.type = BlockerType::volume_deleting,
          .message = fmt::format("volume {} is being deleted", volume.metadata.name),
          .holder = volume.metadata.name,
          .holder_type = "Volume",
          .node_id = {},
          .since = volume.metadata.deletion_timestamp,
          .cleared_by = "nobody: a deletion is not taken back"};
}

Blocker faulted(const Book& book) {
  const std::string& name = book.volume.metadata.name;
  return {
      .type = BlockerType::volume_faulted,
      .message = with_reason(fmt::format("volume {} is faulted: no replica that holds all its data can "
                                         "serve",
                                         name),
                             book.engine.operator_needed),
      .holder = name,
      .holder_type = "Volume",
      .node_id = {},
      .cleared_by = "a node or disk with an in-sync replica that comes back; a person may accept the loss"};
}

Blocker not_created(const Volume& volume) {
  return {.type = BlockerType::volume_not_ready,
          .message = fmt::format("volume {} is being created", volume.metadata.name),
          .holder = volume.metadata.name,
          .holder_type = "Volume",
          .node_id = {},
          .cleared_by = "the system: its objects are being made"};
}

Blocker reserved_by(const AttachmentTicket& reservation) {
  const std::string owner =
      reservation.owner ? fmt::format(" for {} {}", reservation.owner->kind, reservation.owner->name) : "";
  return {.type = BlockerType::reserved,
          .message = fmt::format("the volume is reserved{} by ticket {}", owner, ticket_name(reservation)),
          .holder = reservation.id,
          .holder_type = reservation.type,
          .node_id = {},
          .cleared_by = "the owner of the reservation: it removes its ticket"};
}

Blocker single_owner(const Volume& volume, const AttachmentTicket& holder) {
  return {.type = BlockerType::reserved,
          .message = fmt::format("volume {} serves one owner at a time (rwop), now that of ticket {}",
                                 volume.metadata.name, ticket_name(holder)),
          .holder = holder.id,
          .holder_type = holder.type,
          .node_id = holder.node_id,
          .cleared_by = how_it_leaves(volume, holder)};
}

Blocker held_elsewhere(const Book& book, const std::vector<const AttachmentTicket*>& holders) {
  const Volume& volume = book.volume;
  const AttachmentTicket& holder = *holders.front();
  std::string more = holders.size() > 1 ? fmt::format(" and {} more", holders.size() - 1) : "";
  if (const auto silent = node_blockers(book, holder.node_id); !silent.empty())
    more += fmt::format("; {}", silent.front().message);
  return {.type = BlockerType::attached_elsewhere,
          .message = fmt::format("volume {} is held on node {} by ticket {}{}", volume.metadata.name,
                                 holder.node_id, ticket_name(holder), more),
          .holder = holder.id,
          .holder_type = holder.type,
          .node_id = holder.node_id,
          .cleared_by = how_it_leaves(volume, holder)};
}

Blocker incompatible(const Book& book, const AttachmentTicket& ticket,
                     const std::vector<const AttachmentTicket*>& holders) {
  const Volume& volume = book.volume;
  Blocker blocker{.type = BlockerType::incompatible_parameters,
                  .holder = volume.metadata.name,
                  .holder_type = "Volume",
                  .node_id = ticket.node_id,
                  .cleared_by = "the system: the volume is detached when nobody keeps it so"};
  const std::string how = volume.spec.disable_frontend ? "without a front end" : "with a front end";
  std::string holder_text;
  if (!holders.empty()) {
    const AttachmentTicket& holder = *holders.front();
    blocker.holder = holder.id;
    blocker.holder_type = holder.type;
    blocker.cleared_by = how_it_leaves(volume, holder);
    holder_text = fmt::format(" for ticket {}", ticket_name(holder));
  }
  blocker.message = fmt::format("volume {} is attached to node {} with incompatible parameters: {}{}",
                                volume.metadata.name, ticket.node_id, how, holder_text);
  return blocker;
}

Blocker move_waits_for_rebuild(const Volume& volume, const std::string& replica) {
  return {.type = BlockerType::moving,
          .message = fmt::format("volume {} moves only when no replica is being rebuilt, and {} is",
                                 volume.metadata.name, replica),
          .holder = replica,
          .holder_type = "Replica",
          .node_id = {},
          .cleared_by = "the system: the rebuild ends by itself"};
}

Blocker move_waits_for_engine(const Book& book) {
  return {.type = BlockerType::moving,
          .message = with_reason(fmt::format("volume {} begins to move when its engine on node {} serves",
                                             book.volume.metadata.name, book.volume.spec.node_id),
                                 book.engine.error),
          .holder = book.volume.metadata.name,
          .holder_type = "Engine",
          .node_id = book.volume.spec.node_id,
          .cleared_by = "the system: the engine is being started"};
}

Blocker move_needs_a_new_engine(const Volume& volume) {
  return {.type = BlockerType::moving,
          .message = fmt::format("the engine of volume {} on node {} was started without a way for a second "
                                 "one to follow it",
                                 volume.metadata.name, volume.spec.node_id),
          .holder = volume.metadata.name,
          .holder_type = "Engine",
          .node_id = volume.spec.node_id,
          .cleared_by = "a detach and a new attach: the next engine has one"};
}

Blocker move_waits_for_slot(const Book& book) {
  const std::string& node = book.move.slot_taken_on;
  return {.type = BlockerType::moving,
          .message = fmt::format("the engine that volume {} left on node {} is not cleaned up yet",
                                 book.volume.metadata.name, node),
          .holder = book.volume.metadata.name,
          .holder_type = "Engine",
          .node_id = node,
          .cleared_by = fmt::format("the agent of node {}: it removes device and engine", node)};
}

Blocker standby_fails(const Book& book, const std::string& node) {
  return {.type = BlockerType::engine_failing,
          .message = fmt::format("the standby engine of volume {} does not come up on node {}: {}",
                                 book.volume.metadata.name, node, book.move.destination_error),
          .holder = book.volume.metadata.name,
          .holder_type = "Engine",
          .node_id = node,
          .cleared_by = "the system: it tries again by itself; mend the cause on the node"};
}

std::optional<Blocker> move_blocker(const Volume& volume) {
  if (!is_move_asked(volume)) return std::nullopt;
  const bool recorded = is_moving(volume);
  const std::string source = recorded ? volume.status.move->source_node_id : volume.spec.node_id;
  const std::string destination =
      recorded ? volume.status.move->destination_node_id : volume.spec.migration_node_id;
  Blocker blocker{.type = BlockerType::moving, .node_id = destination};
  blocker.holder = volume.metadata.name;
  blocker.holder_type = "Volume";
  blocker.message =
      fmt::format("volume {} moves from node {} to node {}", volume.metadata.name, source, destination);
  using model::longhorn::MovePhase;
  const MovePhase phase = recorded ? volume.status.move->phase : MovePhase::preparing;
  blocker.message += fmt::format(" ({})", to_string(phase));
  if (recorded) {
    blocker.since = volume.status.move->started_at;
    if (!volume.status.move->message.empty()) blocker.message += ": " + volume.status.move->message;
  }
  const bool waits_for_people = phase == MovePhase::ready || phase == MovePhase::activated;
  blocker.cleared_by =
      waits_for_people
          ? fmt::format(
                "whoever moves it: the ticket for {} leaves (moor migrate {} --confirm) or that for {} "
                "does (--rollback)",
                source, volume.metadata.name, destination)
          : "the system: this step ends by itself";
  return blocker;
}

Blocker leftover_move(const Volume& volume, const std::string& node) {
  return {.type = BlockerType::moving,
          .message = fmt::format("volume {} has the fields of an unfinished move to node {}, which are being "
                                 "cleared",
                                 volume.metadata.name, node),
          .holder = volume.metadata.name,
          .holder_type = "Volume",
          .node_id = node,
          .cleared_by = "the system: the standby side is being closed"};
}

Blocker share_not_ready(const Volume& volume, const AttachmentTicket* share_ticket) {
  if (share_ticket == nullptr)
    return {.type = BlockerType::share_manager,
            .message = fmt::format("the share of volume {} is being set up", volume.metadata.name),
            .holder = volume.metadata.name,
            .holder_type = "ShareManager",
            .node_id = {},
            .cleared_by = "the system: the share manager asks for the volume on a node of its own"};
  return {.type = BlockerType::share_manager,
          .message = fmt::format("the share of volume {} does not serve yet on node {} (ticket {})",
                                 volume.metadata.name, share_ticket->node_id, ticket_name(*share_ticket)),
          .holder = share_ticket->id,
          .holder_type = share_ticket->type,
          .node_id = share_ticket->node_id,
          .cleared_by = "the share manager, once its own ticket is satisfied"};
}

void settle_since(std::vector<Blocker>& blockers, const AttachmentTicketStatus* before, Time now) {
  for (Blocker& blocker : blockers) {
    Time since = blocker.since.value_or(now);
    if (before != nullptr)
      for (const Blocker& old : before->blockers)
        if (old.type == blocker.type && old.holder == blocker.holder && old.node_id == blocker.node_id &&
            old.since) {
          since = *old.since;
          break;
        }
    blocker.since = std::chrono::floor<std::chrono::seconds>(since);
  }
}

}  // namespace moor::attach
