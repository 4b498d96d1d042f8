// The status of every ticket, given where the volume goes. Inside the room; decide.h is the door.
#pragma once

#include <map>
#include <string>

#include "attach/roster.h"

namespace moor::attach {

// `book` as it will be: its volume's spec already has the changes of the decision. Statuses that do not
// change come out equal to those before, times included.
std::map<std::string, AttachmentTicketStatus> ticket_statuses(const Book& book, const Roster& roster);

// Why this ticket could not win if the volume were free; empty: it could.
std::vector<Blocker> choice_blockers(const Book& book, const Roster& roster, const Standing& standing);

}  // namespace moor::attach
