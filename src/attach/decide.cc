#include "attach/decide.h"

#include <fmt/format.h>

#include <algorithm>

#include "attach/blockers.h"
#include "attach/moves.h"
#include "attach/roster.h"
#include "attach/statuses.h"
#include "base/plant.h"

namespace moor::attach {

using model::longhorn::BlockerType;
using model::longhorn::Robustness;
using model::longhorn::VolumeState;

namespace {

void say(Decision& decision, std::string_view reason, std::string message, bool warning = false) {
  decision.notices.push_back(
      {.warning = warning, .reason = std::string(reason), .message = std::move(message)});
}

bool can_win(const Book& book, const Roster& roster, const Standing& standing) {
  return standing.chooses && choice_blockers(book, roster, standing).empty();
}

// With `node` only tickets for that one.
const AttachmentTicket* best_choice(const Book& book, const Roster& roster, const std::string& node = {}) {
  const AttachmentTicket* best = nullptr;
  const TieBreak tie_break = book.settings.tie_break();
  for (const auto& [id, standing] : roster.standings)
    if (can_win(book, roster, standing) && (node.empty() || standing.ticket->node_id == node) &&
        (best == nullptr || compare_tickets(*standing.ticket, *best, tie_break) < 0))
      best = standing.ticket;
  return best;
}

// The best ticket that could have the volume on another node; with `workload` only one that uses the data.
const AttachmentTicket* best_elsewhere(const Book& book, const Roster& roster, bool workload) {
  const AttachmentTicket* best = nullptr;
  for (const auto& [id, standing] : roster.standings) {
    const AttachmentTicket& ticket = *standing.ticket;
    if (ticket.node_id == book.volume.spec.node_id || (workload && !is_workload(ticket)) ||
        !can_win(book, roster, standing))
      continue;
    if (best == nullptr || compare_tickets(ticket, *best, book.settings.tie_break()) < 0) best = &ticket;
  }
  return best;
}

// S18: every ticket on the node can be interrupted, the compatible ones and the others.
bool all_here_yield(const Book& book, const Roster& roster) {
  return std::all_of(roster.standings.begin(), roster.standings.end(), [&](const auto& one) {
    const Standing& standing = one.second;
    return !standing.chooses || standing.ticket->node_id != book.volume.spec.node_id ||
           is_interruptible(*standing.ticket, book.volume);
  });
}

bool was_never_attached_here(const Volume& volume) {
  return volume.status.current_node_id.empty() && volume.status.state != VolumeState::attached;
}

void detach(const Book& book, Decision& decision, std::string_view reason, const std::string& why,
            bool warning = false) {
  decision.volume.node_id = "";
  if (!book.volume.spec.migration_node_id.empty()) decision.volume.migration_node_id = "";
  say(decision, reason,
      fmt::format("volume {} leaves node {}: {}", book.volume.metadata.name, book.volume.spec.node_id, why),
      warning);
}

void apply_move(const Book& book, const MoveChoice& choice, Decision& decision) {
  const Volume& volume = book.volume;
  const std::string& name = volume.metadata.name;
  const std::string& destination = volume.spec.migration_node_id;
  switch (choice.kind) {
    case MoveChoice::Kind::stay: return;
    case MoveChoice::Kind::detach: return detach(book, decision, "Detaching", choice.why, choice.warning);
    case MoveChoice::Kind::start:
      decision.volume.migration_node_id = choice.node;
      decision.takes_place_on = choice.node;
      return say(decision, "MoveStarted",
                 fmt::format("volume {} begins to move from node {} to node {}: {}", name,
                             volume.spec.node_id, choice.node, choice.why));
    case MoveChoice::Kind::confirm:
      decision.volume.node_id = destination;
      decision.volume.migration_node_id = "";
      return say(decision, "MoveConfirmed",
                 fmt::format("volume {} stays on node {}: {}", name, destination, choice.why),
                 choice.warning);
    case MoveChoice::Kind::roll_back:
      decision.volume.migration_node_id = "";
      return say(decision, "MoveRolledBack",
                 fmt::format("volume {} stays on node {} and does not move to node {}: {}", name,
                             volume.spec.node_id, destination, choice.why),
                 choice.warning);
  }
}

// The volume is given to a node: does it stay?
void review(const Book& book, const Roster& roster, Decision& decision) {
  const Volume& volume = book.volume;
  const std::string& node = volume.spec.node_id;
  if (volume.metadata.is_being_deleted())
    return detach(book, decision, "Detaching", "the volume is being deleted");
  if (volume.status.robustness == Robustness::faulted && !MOOR_PLANT("attach-faulted-stays"))
    return detach(book, decision, "Detaching", "the volume is faulted", true);
  if (is_move_asked(volume)) return apply_move(book, review_move(book, roster), decision);
  if (holders_on(book, roster, node, volume.spec.disable_frontend).empty())
    return detach(book, decision, "Detaching", "no ticket asks for it there as it is attached");
  if (all_here_yield(book, roster) || MOOR_PLANT("attach-priority-preempts"))
    if (const AttachmentTicket* workload =
            best_elsewhere(book, roster, !MOOR_PLANT("attach-maintenance-preempts")))
      return MOOR_PLANT("attach-moves-directly")
                 ? void(decision.volume.node_id = workload->node_id)
                 : detach(book, decision, "Interrupted",
                          fmt::format("ticket {} wants it on node {}, and the work here can be done later",
                                      ticket_name(*workload), workload->node_id));
  // Not a pre-emption: nobody has the volume yet, and this node cannot take it.
  if (was_never_attached_here(volume) && !node_blockers(book, node).empty())
    if (const AttachmentTicket* other = best_elsewhere(book, roster, false))
      return detach(
          book, decision, "Detaching",
          fmt::format("{}; ticket {} can have it on node {}", node_blockers(book, node).front().message,
                      ticket_name(*other), other->node_id));
  apply_move(book, review_move(book, roster), decision);
}

void choose(const Book& book, const Roster& roster, Decision& decision) {
  if (!gate_blockers(book).empty()) return;
  // A move that was cut off is decided by its record, not by the order of its tickets.
  const std::string side = node_after_a_cut(book.volume);
  const AttachmentTicket* winner = side.empty() ? nullptr : best_choice(book, roster, side);
  if (winner == nullptr) winner = best_choice(book, roster);
  if (winner == nullptr) return;
  const auto& spec = book.volume.spec;
  decision.volume.node_id = winner->node_id;
  decision.takes_place_on = winner->node_id;
  const FrontendWish wish = frontend_wish(*winner);
  const bool disable = wish == FrontendWish::any ? spec.disable_frontend : wish == FrontendWish::disabled;
  if (disable != spec.disable_frontend) decision.volume.disable_frontend = disable;
  const auto by = winner->parameters.find(std::string(model::longhorn::kParameterLastAttachedBy));
  const std::string attached_by = by == winner->parameters.end() ? "" : by->second;
  if (attached_by != spec.last_attached_by) decision.volume.last_attached_by = attached_by;
  say(decision, "Attaching",
      fmt::format("volume {} goes to node {} for ticket {}", book.volume.metadata.name, winner->node_id,
                  ticket_name(*winner)));
}

bool is_in_passing(const Blocker& blocker) {
  return blocker.type == BlockerType::volume_not_ready || blocker.type == BlockerType::detaching;
}

bool same_cause(const Blocker& left, const Blocker& right) {
  return left.type == right.type && left.holder == right.holder && left.node_id == right.node_id;
}

void say_what_changed(const Book& book, Decision& decision) {
  const auto& before = book.attachment.status.attachment_ticket_statuses;
  for (const auto& [id, status] : decision.statuses) {
    const auto found = before.find(id);
    const AttachmentTicketStatus* old = found == before.end() ? nullptr : &found->second;
    const AttachmentTicket& ticket = book.attachment.spec.attachment_tickets.at(id);
    if (status.satisfied) {
      if (old == nullptr || !old->satisfied)
        say(decision, "Satisfied", fmt::format("ticket {} has what it asks for", ticket_name(ticket)));
      continue;
    }
    const Blocker& first = status.blockers.front();
    const bool known =
        old != nullptr && std::any_of(old->blockers.begin(), old->blockers.end(),
                                      [&](const Blocker& one) { return same_cause(one, first); });
    if (known || is_in_passing(first)) continue;
    if (first.type == BlockerType::expired)
      say(decision, "TicketExpired", first.message, true);
    else
      say(decision, "Waiting", fmt::format("ticket {} waits: {}", ticket_name(ticket), first.message));
  }
}

Book changed(Book book, const VolumeChanges& changes) {
  auto& spec = book.volume.spec;
  if (changes.node_id) spec.node_id = *changes.node_id;
  if (changes.migration_node_id) spec.migration_node_id = *changes.migration_node_id;
  if (changes.disable_frontend) spec.disable_frontend = *changes.disable_frontend;
  return book;
}

// Time alone changes the answer when a ticket lapses, and when a lapsed one has been shown long enough.
std::optional<Time> next_look(const Book& book, const Roster& roster) {
  std::optional<Time> next;
  for (const auto& [id, standing] : roster.standings) {
    const auto expiry = expiry_of(*standing.ticket, book.settings);
    if (!expiry) continue;
    const Time at = standing.expired ? *expiry + book.settings.expired_ticket_retention() : *expiry;
    if (!next || at < *next) next = at;
  }
  return next;
}

}  // namespace

std::vector<Blocker> gate_blockers(const Book& book) {
  const Volume& volume = book.volume;
  const auto& status = volume.status;
  if (volume.metadata.is_being_deleted()) return {deleting(volume)};
  std::vector<Blocker> blockers;
  if (status.robustness == Robustness::faulted) blockers.push_back(faulted(book));
  if (status.state == VolumeState::none || status.state == VolumeState::creating) {
    blockers.push_back(not_created(volume));
    return blockers;
  }
  const bool held = book.grant && book.grant->spec.active;
  if (status.state != VolumeState::detached || !status.current_node_id.empty() || held)
    blockers.push_back(closing(book));
  if (!status.current_migration_node_id.empty())
    blockers.push_back(leftover_move(volume, status.current_migration_node_id));
  else if (!volume.spec.migration_node_id.empty())
    blockers.push_back(leftover_move(volume, volume.spec.migration_node_id));
  return blockers;
}

Decision decide(const Book& book) {
  Decision decision;
  const Roster roster = call_roll(book);
  decision.retire = roster.retired;
  for (const Retirement& gone : roster.retired)
    say(decision, "TicketRetired",
        fmt::format("ticket {} is retired: {}",
                    ticket_name(book.attachment.spec.attachment_tickets.at(gone.ticket)), gone.reason));
  if (book.volume.spec.node_id.empty() && !book.volume.spec.migration_node_id.empty())
    decision.volume.migration_node_id = "";
  if (book.volume.spec.node_id.empty())
    choose(book, roster, decision);
  else
    review(book, roster, decision);

  // Statuses speak of the volume as this decision leaves it.
  decision.statuses = decision.volume.any() ? ticket_statuses(changed(book, decision.volume), roster)
                                            : ticket_statuses(book, roster);
  say_what_changed(book, decision);
  decision.again_at = next_look(book, roster);
  return decision;
}

bool is_at_rest(const Volume& volume, const VolumeAttachment& attachment) {
  return attachment.spec.attachment_tickets.empty() && attachment.status.attachment_ticket_statuses.empty() &&
         volume.spec.node_id.empty() && volume.spec.migration_node_id.empty();
}

bool is_plain(const Volume& volume, const VolumeAttachment& attachment) {
  const auto& tickets = attachment.spec.attachment_tickets;
  const auto& status = volume.status;
  const std::string& node = volume.spec.node_id;
  const bool given = tickets.size() == 1 && !node.empty() && tickets.begin()->second.node_id == node;
  const bool nowhere_else = status.current_node_id.empty() || status.current_node_id == node;
  const bool moves = !volume.spec.migration_node_id.empty() || !status.current_migration_node_id.empty() ||
                     status.move.has_value();
  const model::Condition* placed =
      model::find_condition(status.conditions, model::longhorn::kVolumeScheduled);
  const bool has_places = placed == nullptr || placed->status != model::ConditionStatus::no;
  return given && nowhere_else && !moves && has_places &&
         (status.state == VolumeState::detached || status.state == VolumeState::attaching ||
          status.state == VolumeState::attached);
}

std::optional<Time> untold_until(const Decision& decision, const VolumeAttachment& attachment, Time now) {
  std::optional<Time> until;
  const auto& told = attachment.status.attachment_ticket_statuses;
  for (const auto& [id, status] : told)
    if (!decision.statuses.contains(id)) return std::nullopt;
  for (const auto& [id, status] : decision.statuses) {
    const auto before = told.find(id);
    if (before != told.end() && before->second == status) continue;
    const auto ticket = attachment.spec.attachment_tickets.find(id);
    const bool passes = std::all_of(status.blockers.begin(), status.blockers.end(), is_in_passing);
    if (before != told.end() || status.satisfied || !passes ||
        ticket == attachment.spec.attachment_tickets.end() || !ticket->second.requested_at)
      return std::nullopt;
    const Time asked = ticket->second.requested_at->at;
    if (asked > now || asked + kUntold <= now) return std::nullopt;
    if (!until || asked + kUntold < *until) until = asked + kUntold;
  }
  return until;
}

Applied apply_decision(const Decision& decision, Volume& volume, VolumeAttachment& attachment) {
  Applied applied;
  const auto set = [&](auto& field, const auto& wanted) {
    if (!wanted || field == *wanted) return;
    field = *wanted;
    applied.volume = true;
  };
  set(volume.spec.node_id, decision.volume.node_id);
  set(volume.spec.migration_node_id, decision.volume.migration_node_id);
  set(volume.spec.disable_frontend, decision.volume.disable_frontend);
  set(volume.spec.last_attached_by, decision.volume.last_attached_by);
  for (const Retirement& gone : decision.retire)
    applied.attachment_spec |= attachment.spec.attachment_tickets.erase(gone.ticket) > 0;
  if (attachment.status.attachment_ticket_statuses != decision.statuses) {
    attachment.status.attachment_ticket_statuses = decision.statuses;
    applied.attachment_status = true;
  }
  return applied;
}

}  // namespace moor::attach
