// Small books for tests: one volume v1, nodes n1 to n3, a fixed time. Tests read better when each says only
// what matters to it.
#pragma once

#include <string>

#include "attach/decide.h"
#include "attach/tickets.h"

namespace moor::attach {

namespace attacher = model::longhorn::attacher;
using model::longhorn::BlockerType;
using model::longhorn::Robustness;
using model::longhorn::VolumeState;

inline constexpr Time kTestNow{std::chrono::seconds(1'700'000'000)};

struct TicketWish {
  std::string id;
  std::string_view type = attacher::kCsi;
  std::string node = "n1";
  std::string frontend = {};  // "true", "false", "any"; empty: absent
  std::string owner = {};     // name of a Pod; empty: none
  int arrival_seconds = 0;
};

inline AttachmentTicket make_ticket(const TicketWish& wish) {
  AttachmentTicket ticket{.id = wish.id, .type = std::string(wish.type), .node_id = wish.node};
  if (!wish.frontend.empty()) ticket.parameters["disableFrontend"] = wish.frontend;
  if (!wish.owner.empty())
    ticket.owner = model::ObjectReference{.kind = "Pod", .space = "default", .name = wish.owner};
  ticket.requested_at = model::MicroTime{kTestNow + std::chrono::seconds(wish.arrival_seconds)};
  return ticket;
}

// A detached rwo volume without tickets; n1, n2 and n3 are ready.
inline Book make_book() {
  Book book;
  book.volume.metadata.name = "v1";
  book.volume.spec.access_mode = model::longhorn::AccessMode::rwo;
  book.volume.status.state = VolumeState::detached;
  book.attachment.metadata.name = "v1";
  book.attachment.spec.volume = "v1";
  for (const char* node : {"n1", "n2", "n3"}) book.nodes[node] = NodeFacts{};
  book.now = kTestNow;
  return book;
}

inline void add_ticket(Book& book, const TicketWish& wish) {
  book.attachment.spec.attachment_tickets[wish.id] = make_ticket(wish);
}

// The volume is attached to the node, and its Grant says so.
inline void set_attached(Book& book, const std::string& node) {
  book.volume.spec.node_id = node;
  book.volume.status.current_node_id = node;
  book.volume.status.state = VolumeState::attached;
  book.volume.status.robustness = Robustness::healthy;
  book.grant = Grant{};
  book.grant->spec.volume = "v1";
  book.grant->spec.epoch = 1;
  book.grant->spec.active = model::mooring::GrantHolder{.epoch = 1, .engine = "v1-e", .node = node};
}

// Decides and writes, as the controller does.
inline Decision step(Book& book) {
  Decision decision = decide(book);
  apply_decision(decision, book.volume, book.attachment);
  return decision;
}

inline bool is_satisfied(const Book& book, const std::string& id) {
  return book.attachment.status.attachment_ticket_statuses.at(id).satisfied;
}

// The types of the blockers of a ticket, in order.
inline std::vector<BlockerType> blocker_types(const Decision& decision, const std::string& id) {
  std::vector<BlockerType> types;
  for (const Blocker& blocker : decision.statuses.at(id).blockers) types.push_back(blocker.type);
  return types;
}

inline const Blocker& first_blocker(const Decision& decision, const std::string& id) {
  return decision.statuses.at(id).blockers.at(0);
}

}  // namespace moor::attach
