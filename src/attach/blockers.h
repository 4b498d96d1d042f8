// How a blocker is worded: one function per cause, each with the holder, since when, and who can clear it.
// Inside the room: decide() alone decides that a ticket waits.
#pragma once

#include <string>
#include <vector>

#include "attach/book.h"
#include "attach/tickets.h"

namespace moor::attach {

// What keeps the node from taking the volume, whoever asks: it does not exist, its agent is silent, it is not
// ready. Empty: nothing.
std::vector<Blocker> node_blockers(const Book& book, const std::string& node);
// The node takes no further volume; absent: it does, or has this one already.
std::optional<Blocker> limit_blocker(const Book& book, const std::string& node);
// The data are not all there yet (restore, clone), so no workload may see them.
std::optional<Blocker> data_blocker(const Book& book, const AttachmentTicket& ticket);

// What keeps a chosen node from having the volume: engine, places for replicas, a person's word.
std::vector<Blocker> opening_blockers(const Book& book);
Blocker opening(const Volume& volume, const std::string& node);
// What a volume that is being closed waits for.
Blocker closing(const Book& book);

Blocker expired(const AttachmentTicket& ticket, Time at);
Blocker deleting(const Volume& volume);
Blocker faulted(const Book& book);
Blocker not_created(const Volume& volume);
Blocker reserved_by(const AttachmentTicket& reservation);
Blocker single_owner(const Volume& volume, const AttachmentTicket& holder);
// `holders` is not empty; the first one is named.
Blocker held_elsewhere(const Book& book, const std::vector<const AttachmentTicket*>& holders);
Blocker incompatible(const Book& book, const AttachmentTicket& ticket,
                     const std::vector<const AttachmentTicket*>& holders);
// What a move waits for before it begins.
Blocker move_waits_for_rebuild(const Volume& volume, const std::string& replica);
Blocker move_waits_for_engine(const Book& book);
Blocker move_needs_a_new_engine(const Volume& volume);
Blocker move_waits_for_slot(const Book& book);
// The standby on the destination ends as soon as it is started.
Blocker standby_fails(const Book& book, const std::string& node);
Blocker leftover_move(const Volume& volume, const std::string& node);
Blocker share_not_ready(const Volume& volume, const AttachmentTicket* share_ticket);

// "longhorn-ui (longhorn-api)"; a ticket may have an empty id.
std::string ticket_name(const AttachmentTicket& ticket);

// Gives each blocker its time: that of the same blocker before, else its own, else now; in whole seconds, as
// objects keep them.
void settle_since(std::vector<Blocker>& blockers, const AttachmentTicketStatus* before, Time now);

}  // namespace moor::attach
