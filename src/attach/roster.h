// The tickets of a book, each with its standing: who is retired, who has lapsed, who holds the volume where
// it is, who could have it. Inside the room; decide.h is the door.
//
// A Roster points into the Book it was made from and lives no longer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "attach/book.h"
#include "attach/tickets.h"

namespace moor::attach {

struct Standing {
  const AttachmentTicket* ticket = nullptr;
  bool expired = false;
  // Takes part in choosing and keeping the node: it has one, has not lapsed, and is not a client of a share.
  bool chooses = false;
  // A reservation of another owner keeps it away (and it did not have the volume before).
  bool reserved_out = false;
};

struct Roster {
  std::map<std::string, Standing> standings;  // tickets that stay, by id
  std::vector<Retirement> retired;
  // The reservation that is first in line; nullptr: none, or the volume serves many owners at once.
  const AttachmentTicket* lead = nullptr;
};

Roster call_roll(const Book& book);

// Tickets on the node that keep the volume there: compatible with how it is attached and not kept away.
// Best first; those that cannot be interrupted come before the others.
std::vector<const AttachmentTicket*> holders_on(const Book& book, const Roster& roster,
                                                const std::string& node, bool frontend_disabled);

// The last status says that the ticket is satisfied. It had the volume then, even if its wishes have changed.
bool was_satisfied(const Book& book, const AttachmentTicket& ticket);

// Of several workload owners on one node, the one that an rwop volume serves; nullptr: no restriction.
const AttachmentTicket* single_owner_holder(const Book& book,
                                            const std::vector<const AttachmentTicket*>& holders);

}  // namespace moor::attach
