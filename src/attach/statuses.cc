#include "attach/statuses.h"

#include <fmt/format.h>

#include "attach/blockers.h"
#include "attach/decide.h"
#include "attach/moves.h"
#include "base/assert.h"
#include "base/plant.h"

namespace moor::attach {

using model::Condition;
using model::ConditionStatus;
using model::longhorn::BlockerType;
using model::longhorn::ShareManagerState;
using model::longhorn::VolumeState;

namespace {

using Blockers = std::vector<Blocker>;

void add(Blockers& to, Blockers more) {
  for (Blocker& blocker : more) to.push_back(std::move(blocker));
}

// The volume is where its spec wants it, and the Grant says so too (S15).
bool is_where_wanted(const Book& book) {
  const Volume& volume = book.volume;
  const std::string& node = volume.spec.node_id;
  if (MOOR_PLANT("attach-satisfied-early") && !node.empty()) return true;
  if (node.empty() || volume.status.state != VolumeState::attached || volume.status.current_node_id != node)
    return false;
  if (book.engine.exhausted || !book.engine.operator_needed.empty()) return false;
  if (!book.grant) return true;
  const auto& active = book.grant->spec.active;
  if (!active) return false;
  // The destination of a move writes, and the source keeps its clients until the move is decided.
  const bool moving = is_moving(volume) &&
                      volume.status.move->phase == model::longhorn::MovePhase::activated &&
                      volume.status.move->source_node_id == node;
  return active->node == node || (moving && active->node == volume.status.move->destination_node_id);
}

class Judge {
 public:
  Judge(const Book& book, const Roster& roster)
      : book_(book),
        roster_(roster),
        holders_(holders_on(book, roster, book.volume.spec.node_id, book.volume.spec.disable_frontend)),
        single_owner_(single_owner_holder(book, holders_)),
        move_(wished_move(book, roster)),
        attached_(is_where_wanted(book)) {}

  bool is_attached() const { return attached_; }

  // Empty: the ticket is satisfied.
  Blockers judge(const Standing& standing) const {
    const AttachmentTicket& ticket = *standing.ticket;
    if (standing.expired) return {expired(ticket, *expiry_of(ticket, book_.settings))};
    if (book_.volume.metadata.is_being_deleted()) return {deleting(book_.volume)};
    if (is_reservation(ticket)) return judge_reservation(standing);
    if (!standing.chooses) return judge_client_of_share();
    const std::string& node = book_.volume.spec.node_id;
    if (node.empty()) return judge_unattached(standing);
    return node == ticket.node_id ? judge_here(standing) : judge_elsewhere(standing);
  }

 private:
  Blockers judge_reservation(const Standing& standing) const {
    if (roster_.lead == nullptr) return {};
    if (standing.reserved_out) return {reserved_by(*roster_.lead)};
    const std::string owner = owner_key(*standing.ticket);
    for (const AttachmentTicket* holder : holders_)
      if (owner_key(*holder) != owner) return {held_elsewhere(book_, {holder})};
    return {};
  }

  // Clients of a share are wherever they like; they wait for the share (S17).
  Blockers judge_client_of_share() const {
    const auto& status = book_.volume.status;
    if (attached_ && status.share_state == ShareManagerState::running && !status.share_endpoint.empty())
      return {};
    Blockers blockers;
    if (status.robustness == model::longhorn::Robustness::faulted) blockers.push_back(faulted(book_));
    const AttachmentTicket* share = nullptr;
    for (const auto& [id, standing] : roster_.standings)
      if (standing.chooses && standing.ticket->type == model::longhorn::attacher::kShareManager &&
          (share == nullptr || compare_tickets(*standing.ticket, *share, book_.settings.tie_break()) < 0))
        share = standing.ticket;
    blockers.push_back(share_not_ready(book_.volume, share));
    return blockers;
  }

  Blockers judge_unattached(const Standing& standing) const {
    Blockers blockers = choice_blockers(book_, roster_, standing);
    add(blockers, gate_blockers(book_));
    // Withdrawn in this very decision, before the volume had left its rest: the next decision chooses.
    if (blockers.empty()) blockers.push_back(closing(book_));
    return blockers;
  }

  Blockers judge_elsewhere(const Standing& standing) const {
    Blockers blockers = choice_blockers(book_, roster_, standing);
    if (is_compatible(*standing.ticket, book_.volume.spec.disable_frontend)) {
      const AttachmentTicket& ticket = *standing.ticket;
      if (is_destination(ticket))
        return is_moved_to(book_, ticket) ? Blockers{} : move_blockers(book_, ticket);
      if (move_ && move_->destination_ticket == ticket.id)
        return with_fallback(move_start_blockers(book_, roster_, *move_));
    }
    if (auto moving = move_blocker(book_.volume))
      blockers.push_back(std::move(*moving));
    else if (!holders_.empty())
      blockers.push_back(held_elsewhere(book_, holders_));
    else
      blockers.push_back(closing(book_));  // a move keeps the volume without a ticket
    return blockers;
  }

  Blockers judge_here(const Standing& standing) const {
    const AttachmentTicket& ticket = *standing.ticket;
    if (standing.reserved_out) return {reserved_by(*roster_.lead)};
    if (!is_compatible(ticket, book_.volume.spec.disable_frontend) &&
        !MOOR_PLANT("attach-incompatible-shared"))
      return {incompatible(book_, ticket, holders_)};
    if (single_owner_ != nullptr && !MOOR_PLANT("attach-two-owners") && is_workload(ticket) &&
        owner_key(ticket) != owner_key(*single_owner_))
      return {single_owner(book_.volume, *single_owner_)};
    if (attached_ || is_moved_to(book_, ticket)) return {};
    Blockers blockers = node_blockers(book_, ticket.node_id);
    add(blockers, opening_blockers(book_));
    if (is_closing_first()) blockers.push_back(closing(book_));
    if (blockers.empty()) blockers.push_back(opening(book_.volume, ticket.node_id));
    return blockers;
  }

  // The node that the volume moves to, as this decision leaves it.
  bool is_destination(const AttachmentTicket& ticket) const {
    const Volume& volume = book_.volume;
    return is_workload(ticket) && !volume.spec.migration_node_id.empty() &&
           volume.spec.migration_node_id == ticket.node_id &&
           (!is_moving(volume) || volume.status.move->destination_node_id == ticket.node_id);
  }

  // A move that was refused in this very decision begins with the next one.
  Blockers with_fallback(Blockers blockers) const {
    if (blockers.empty()) blockers.push_back(move_waits_for_engine(book_));
    return blockers;
  }

  // The volume is not yet free of where it was.
  bool is_closing_first() const {
    const auto& status = book_.volume.status;
    return status.state == VolumeState::detaching ||
           (!status.current_node_id.empty() && status.current_node_id != book_.volume.spec.node_id);
  }

  const Book& book_;
  const Roster& roster_;
  std::vector<const AttachmentTicket*> holders_;
  const AttachmentTicket* single_owner_;
  std::optional<MoveWish> move_;
  bool attached_;
};

Condition satisfied_condition(const Blockers& blockers) {
  Condition condition{.type = std::string(model::longhorn::kConditionSatisfied)};
  condition.status = blockers.empty() ? ConditionStatus::yes : ConditionStatus::no;
  if (blockers.empty()) return condition;
  const Blocker& first = blockers.front();
  condition.reason = first.type == BlockerType::incompatible_parameters
                         ? std::string(model::longhorn::kReasonIncompatibleParameters)
                         : std::string(to_string(first.type));
  condition.message = first.message;
  return condition;
}

}  // namespace

std::vector<Blocker> choice_blockers(const Book& book, const Roster& roster, const Standing& standing) {
  const AttachmentTicket& ticket = *standing.ticket;
  Blockers blockers = node_blockers(book, ticket.node_id);
  if (auto limit = limit_blocker(book, ticket.node_id)) blockers.push_back(std::move(*limit));
  if (standing.reserved_out) blockers.push_back(reserved_by(*roster.lead));
  if (auto data = data_blocker(book, ticket)) blockers.push_back(std::move(*data));
  return blockers;
}

std::map<std::string, AttachmentTicketStatus> ticket_statuses(const Book& book, const Roster& roster) {
  const Judge judge(book, roster);
  const auto& before = book.attachment.status.attachment_ticket_statuses;
  std::map<std::string, AttachmentTicketStatus> statuses;
  for (const auto& [id, standing] : roster.standings) {
    const auto found = before.find(id);
    const AttachmentTicketStatus* old = found == before.end() ? nullptr : &found->second;
    AttachmentTicketStatus status{.id = id, .generation = standing.ticket->generation};
    if (MOOR_PLANT("attach-old-generation") && old != nullptr) status.generation = old->generation;
    status.blockers = judge.judge(standing);
    status.satisfied = status.blockers.empty();
    MOOR_ASSERT(!status.satisfied || is_reservation(*standing.ticket) || judge.is_attached() ||
                    is_moved_to(book, *standing.ticket),
                "ticket {} of {} would be satisfied without an attachment", id, book.volume.metadata.name);
    settle_since(status.blockers, old, book.now);
    if (old != nullptr) status.conditions = old->conditions;
    model::set_condition(status.conditions, satisfied_condition(status.blockers), book.now);
    statuses.emplace(id, std::move(status));
  }
  return statuses;
}

}  // namespace moor::attach
