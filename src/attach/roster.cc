#include "attach/roster.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/plant.h"

namespace moor::attach {

namespace {

Time arrival_of(const AttachmentTicket& ticket) {
  return ticket.requested_at ? ticket.requested_at->at : Time::min();
}

// Why a ticket leaves the book for good; empty: it stays.
std::string retirement_reason(const Book& book, const AttachmentTicket& ticket) {
  if (ticket.owner) {
    const auto owner = book.owners.find(owner_key(*ticket.owner));
    if (owner != book.owners.end() && owner->second == OwnerState::gone &&
        !MOOR_PLANT("attach-dead-owner-kept"))
      return fmt::format("its owner, {} {}, is gone", ticket.owner->kind, ticket.owner->name);
  }
  if (const auto expiry = expiry_of(ticket, book.settings);
      expiry && book.now >= *expiry + book.settings.expired_ticket_retention())
    return fmt::format("it lapsed at {}", model::format_rfc3339(*expiry));
  if (ticket.type == model::longhorn::attacher::kApi && !ticket.node_id.empty() &&
      book.settings.detach_manual_tickets_when_cordoned()) {
    const auto node = book.nodes.find(ticket.node_id);
    if (node != book.nodes.end() && node->second.cordoned)
      return fmt::format(
          "node {} is cordoned, and the setting "
          "detach-manually-attached-volumes-when-cordoned is on",
          ticket.node_id);
  }
  return {};
}

bool is_on_current_node(const Book& book, const Standing& standing) {
  return standing.chooses && standing.ticket->node_id == book.volume.spec.node_id &&
         is_compatible(*standing.ticket, book.volume.spec.disable_frontend);
}

// A ticket that only waits on the node does not count: its owner has nothing yet.
bool owner_has_volume(const Book& book, const Roster& roster, const std::string& owner) {
  return std::any_of(roster.standings.begin(), roster.standings.end(), [&](const auto& one) {
    return is_on_current_node(book, one.second) && was_satisfied(book, *one.second.ticket) &&
           owner_key(*one.second.ticket) == owner;
  });
}

// First in line is the reservation that holds the volume already, then that of an owner who has it (shelving
// reserves before it lets go, S27), then the oldest.
const AttachmentTicket* leading_reservation(const Book& book, const Roster& roster) {
  const AttachmentTicket* lead = nullptr;
  const auto comes_before = [&](const AttachmentTicket& left, const AttachmentTicket& right) {
    const bool left_held = was_satisfied(book, left);
    const bool right_held = was_satisfied(book, right);
    if (left_held != right_held) return left_held;
    const bool left_uses = owner_has_volume(book, roster, owner_key(left));
    const bool right_uses = owner_has_volume(book, roster, owner_key(right));
    if (left_uses != right_uses) return left_uses;
    if (arrival_of(left) != arrival_of(right)) return arrival_of(left) < arrival_of(right);
    return compare_tickets(left, right, TieBreak::name) < 0;
  };
  for (const auto& [id, standing] : roster.standings) {
    if (standing.expired || !is_reservation(*standing.ticket)) continue;
    if (lead == nullptr || comes_before(*standing.ticket, *lead)) lead = standing.ticket;
  }
  return lead;
}

// A reservation keeps others away but takes nothing from those who had the volume before it came.
bool is_kept_away(const Book& book, const Standing& standing, const AttachmentTicket& lead) {
  const AttachmentTicket& ticket = *standing.ticket;
  if (MOOR_PLANT("attach-reservation-ignored") || &ticket == &lead || owner_key(ticket) == owner_key(lead))
    return false;
  if (!is_on_current_node(book, standing)) return true;
  // Without a word of who had it first, the order of arrival tells.
  return !was_satisfied(book, ticket) && (was_satisfied(book, lead) || arrival_of(ticket) > arrival_of(lead));
}

}  // namespace

bool was_satisfied(const Book& book, const AttachmentTicket& ticket) {
  const auto& statuses = book.attachment.status.attachment_ticket_statuses;
  const auto found = statuses.find(ticket.id);
  return found != statuses.end() && found->second.satisfied;
}

Roster call_roll(const Book& book) {
  Roster roster;
  // Deleting the attachment equals having no tickets.
  if (book.attachment.metadata.is_being_deleted()) return roster;
  for (const auto& [id, ticket] : book.attachment.spec.attachment_tickets) {
    if (std::string reason = retirement_reason(book, ticket); !reason.empty()) {
      roster.retired.push_back({.ticket = id, .reason = std::move(reason)});
      continue;
    }
    const auto expiry = expiry_of(ticket, book.settings);
    Standing standing{.ticket = &ticket,
                      .expired = expiry && book.now >= *expiry && !MOOR_PLANT("attach-expired-counts")};
    standing.chooses =
        !standing.expired && !is_reservation(ticket) && !is_served_by_share(ticket, book.volume);
    roster.standings.emplace(id, standing);
  }
  if (!is_single_attach(book.volume)) return roster;
  roster.lead = leading_reservation(book, roster);
  if (roster.lead != nullptr)
    for (auto& [id, standing] : roster.standings)
      standing.reserved_out =
          !standing.expired &&
          (is_kept_away(book, standing, *roster.lead) ||
           (MOOR_PLANT("attach-reservation-blocks-owner") && standing.ticket != roster.lead));
  return roster;
}

std::vector<const AttachmentTicket*> holders_on(const Book& book, const Roster& roster,
                                                const std::string& node, bool frontend_disabled) {
  std::vector<const AttachmentTicket*> holders;
  if (node.empty()) return holders;
  for (const auto& [id, standing] : roster.standings)
    if (standing.chooses && !standing.reserved_out && standing.ticket->node_id == node &&
        is_compatible(*standing.ticket, frontend_disabled))
      holders.push_back(standing.ticket);
  const TieBreak tie_break = book.settings.tie_break();
  std::sort(holders.begin(), holders.end(), [&](const AttachmentTicket* left, const AttachmentTicket* right) {
    const bool left_yields = is_interruptible(*left, book.volume);
    const bool right_yields = is_interruptible(*right, book.volume);
    if (left_yields != right_yields) return right_yields;
    return compare_tickets(*left, *right, tie_break) < 0;
  });
  return holders;
}

const AttachmentTicket* single_owner_holder(const Book& book,
                                            const std::vector<const AttachmentTicket*>& holders) {
  if (book.volume.spec.access_mode != model::longhorn::AccessMode::rwop) return nullptr;
  const AttachmentTicket* first = nullptr;
  for (const AttachmentTicket* holder : holders) {
    if (!is_workload(*holder)) continue;
    if (was_satisfied(book, *holder)) return holder;
    if (first == nullptr) first = holder;
  }
  return first;
}

}  // namespace moor::attach
