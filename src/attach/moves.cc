#include "attach/moves.h"

#include <fmt/format.h>

#include <algorithm>

#include "attach/blockers.h"
#include "attach/statuses.h"

namespace moor::attach {

using model::longhorn::BlockerType;
using model::longhorn::MovePhase;
using model::longhorn::Robustness;
using model::longhorn::VolumeState;
using model::mooring::MemberMode;
using Kind = MoveChoice::Kind;

namespace {

// Only those who use the data have a say: a snapshot that waits for the end of the move must not keep the
// move from ending.
std::vector<const AttachmentTicket*> users_on(const Book& book, const Roster& roster,
                                              const std::string& node) {
  auto users = holders_on(book, roster, node, book.volume.spec.disable_frontend);
  std::erase_if(users, [](const AttachmentTicket* one) { return !is_workload(*one); });
  return users;
}

bool may_share(const Volume& volume, const AttachmentTicket& left, const AttachmentTicket& right) {
  if (is_served_by_share(left, volume) || left.type == model::longhorn::attacher::kShareManager ||
      right.type == model::longhorn::attacher::kShareManager)
    return false;
  if (volume.spec.migratable) return true;
  return left.owner && right.owner && owner_key(left) == owner_key(right);
}

bool node_is_down(const Book& book, const std::string& node) {
  return !node_blockers(book, node).empty();
}

const MoveStatus* record_of(const Volume& volume) {
  return is_moving(volume) ? &*volume.status.move : nullptr;
}

MoveChoice give_up(const Book& book, const Roster& roster, const std::string& why, bool warning = false) {
  const bool kept =
      !holders_on(book, roster, book.volume.spec.node_id, book.volume.spec.disable_frontend).empty();
  return {.kind = kept ? Kind::roll_back : Kind::detach, .why = why, .warning = warning};
}

MoveChoice confirm(const Book& book, const std::string& why, bool warning = false) {
  if (!book.move.chains_differ.empty()) return {};
  return {.kind = Kind::confirm, .node = book.volume.spec.migration_node_id, .why = why, .warning = warning};
}

// spec.migrationNodeID names a destination, and nothing is decided yet.
MoveChoice review_open(const Book& book, const Roster& roster) {
  const Volume& volume = book.volume;
  const std::string& source = volume.spec.node_id;
  const std::string& destination = volume.spec.migration_node_id;
  const auto here = users_on(book, roster, source);
  auto there = users_on(book, roster, destination);
  // Whoever may not share the volume with its present users asks for no move (S21).
  if (!here.empty())
    std::erase_if(there, [&](const AttachmentTicket* one) {
      return std::none_of(here.begin(), here.end(),
                          [&](const AttachmentTicket* user) { return may_share(volume, *user, *one); });
    });
  const bool ready = is_move_ready(volume);
  if (there.empty())
    return give_up(book, roster, fmt::format("no ticket asks for it on node {} any more", destination));
  const bool source_down = node_is_down(book, source);
  const bool destination_down = node_is_down(book, destination);
  if (here.empty()) {
    if (!ready) return give_up(book, roster, "its user left before the move was ready");
    if (destination_down) return {};  // whoever it is for will come back, or its ticket goes
    return confirm(book, fmt::format("its ticket on node {} has left", source));
  }
  if (source_down && !destination_down) {
    const std::string why = node_blockers(book, source).front().message;
    return ready ? confirm(book, why, true)
                 : MoveChoice{.kind = Kind::roll_back, .why = why, .warning = true};
  }
  if (destination_down && !source_down)
    return {
        .kind = Kind::roll_back, .why = node_blockers(book, destination).front().message, .warning = true};
  return {};
}

MoveChoice review_start(const Book& book, const Roster& roster) {
  const auto wish = wished_move(book, roster);
  if (!wish || !move_start_blockers(book, roster, *wish).empty()) return {};
  const AttachmentTicket& ticket = *roster.standings.at(wish->destination_ticket).ticket;
  return {.kind = Kind::start,
          .node = ticket.node_id,
          .why = fmt::format("ticket {} asks for it there", ticket_name(ticket))};
}

}  // namespace

bool is_moving(const Volume& volume) {
  const auto& move = volume.status.move;
  return move && move->phase != MovePhase::none && move->phase != MovePhase::done;
}

bool is_move_asked(const Volume& volume) {
  return is_moving(volume) || !volume.spec.migration_node_id.empty();
}

bool is_move_ready(const Volume& volume) {
  if (!is_moving(volume)) return false;
  const MovePhase phase = volume.status.move->phase;
  return phase == MovePhase::ready || phase == MovePhase::activated;
}

std::optional<MoveWish> wished_move(const Book& book, const Roster& roster) {
  const Volume& volume = book.volume;
  const std::string& node = volume.spec.node_id;
  if (node.empty() || volume.status.current_node_id != node || volume.status.state != VolumeState::attached)
    return std::nullopt;
  const auto here = users_on(book, roster, node);
  const AttachmentTicket* best = nullptr;
  const AttachmentTicket* source = nullptr;
  bool best_can = false;
  for (const auto& [id, standing] : roster.standings) {
    const AttachmentTicket& ticket = *standing.ticket;
    if (!standing.chooses || ticket.node_id == node || !is_workload(ticket) ||
        !is_compatible(ticket, volume.spec.disable_frontend))
      continue;
    const auto partner = std::find_if(here.begin(), here.end(), [&](const AttachmentTicket* one) {
      return may_share(volume, *one, ticket);
    });
    if (partner == here.end()) continue;
    // One whose node can take it comes before one that would have to wait.
    const bool can = choice_blockers(book, roster, standing).empty();
    const bool better =
        best == nullptr ||
        (can != best_can ? can : compare_tickets(ticket, *best, book.settings.tie_break()) < 0);
    if (!better) continue;
    best = &ticket;
    best_can = can;
    source = *partner;
  }
  if (best == nullptr) return std::nullopt;
  return MoveWish{.source_ticket = source->id, .destination_ticket = best->id};
}

std::vector<Blocker> move_start_blockers(const Book& book, const Roster& roster, const MoveWish& wish) {
  const Volume& volume = book.volume;
  const Standing& standing = roster.standings.at(wish.destination_ticket);
  std::vector<Blocker> blockers = choice_blockers(book, roster, standing);
  if (is_move_asked(volume) || !volume.status.current_migration_node_id.empty()) {
    if (auto other = move_blocker(volume))
      blockers.push_back(std::move(*other));
    else
      blockers.push_back(leftover_move(volume, volume.status.current_migration_node_id));
    return blockers;
  }
  if (book.grant)
    for (const auto& [name, mode] : book.grant->spec.members)
      if (mode == MemberMode::wo) blockers.push_back(move_waits_for_rebuild(volume, name));
  const Robustness robustness = volume.status.robustness;
  const bool serves = robustness == Robustness::healthy || robustness == Robustness::degraded;
  const bool held_here = !book.grant || (book.grant->spec.active && !book.grant->spec.standby &&
                                         book.grant->spec.active->node == volume.spec.node_id);
  if (!serves || !held_here || node_is_down(book, volume.spec.node_id))
    blockers.push_back(move_waits_for_engine(book));
  if (book.move.source_has_no_peer) blockers.push_back(move_needs_a_new_engine(volume));
  if (!book.move.slot_taken_on.empty()) blockers.push_back(move_waits_for_slot(book));
  return blockers;
}

MoveChoice review_move(const Book& book, const Roster& roster) {
  const Volume& volume = book.volume;
  const auto& spec = volume.spec;
  const MoveStatus* record = record_of(volume);
  if (!is_move_asked(volume)) return review_start(book, roster);
  // It has been decided, and the volume controller brings it to its end; only a detach may still come.
  if (spec.migration_node_id.empty()) {
    if (!holders_on(book, roster, spec.node_id, spec.disable_frontend).empty()) return {};
    return {.kind = Kind::detach, .why = "no ticket asks for it there any more"};
  }
  const bool fits = spec.migration_node_id != spec.node_id &&
                    (record == nullptr || (record->destination_node_id == spec.migration_node_id &&
                                           record->source_node_id == spec.node_id));
  if (!fits) return give_up(book, roster, "the fields of the move do not fit");
  return review_open(book, roster);
}

bool is_moved_to(const Book& book, const AttachmentTicket& ticket) {
  const Volume& volume = book.volume;
  if (!is_moving(volume) || ticket.node_id != volume.status.move->destination_node_id) return false;
  const MovePhase phase = volume.status.move->phase;
  const bool ready = is_move_ready(volume) || phase == MovePhase::confirming;
  const bool goes_there =
      volume.spec.node_id == ticket.node_id || volume.spec.migration_node_id == ticket.node_id;
  if (!ready || !goes_there || volume.status.current_migration_node_id != ticket.node_id) return false;
  if (!book.grant) return true;
  const auto at = [&](const auto& holder) { return holder && holder->node == ticket.node_id; };
  return at(book.grant->spec.standby) || at(book.grant->spec.active);
}

std::vector<Blocker> move_blockers(const Book& book, const AttachmentTicket& destination) {
  std::vector<Blocker> blockers = node_blockers(book, destination.node_id);
  if (!book.move.destination_error.empty()) blockers.push_back(standby_fails(book, destination.node_id));
  if (auto blocker = move_blocker(book.volume)) blockers.push_back(std::move(*blocker));
  return blockers;
}

std::string node_after_a_cut(const Volume& volume) {
  const MoveStatus* record = record_of(volume);
  if (record == nullptr) return {};
  const bool there = record->phase == MovePhase::activated || record->phase == MovePhase::confirming;
  return there ? record->destination_node_id : record->source_node_id;
}

}  // namespace moor::attach
