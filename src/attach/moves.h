// The rules of a move: when an attached volume begins to move to another node, when it has moved, when it
// stays. What the attachment controller decides; move_steps.h says what the volume controller does then
// (docs/decisions/0300).
//
// Tickets decide first: the source's gone is a confirmation, the destination's gone a rollback, both gone a
// detach. While both are there the nodes decide: a move never waits for a dead node if the other one can go
// on. Nothing is decided twice: once spec.nodeID is the destination there is no way back (S24).
#pragma once

#include <optional>
#include <string>

#include "attach/roster.h"

namespace moor::attach {

using model::longhorn::MoveStatus;

// The record names a move that has not ended.
bool is_moving(const Volume& volume);
// A move is recorded, or asked for and not recorded yet.
bool is_move_asked(const Volume& volume);
// The record's phase is ready or activated: the destination can take over, or has.
bool is_move_ready(const Volume& volume);

// The ticket that keeps the volume where it is, and the one that asks for it elsewhere.
struct MoveWish {
  std::string source_ticket;
  std::string destination_ticket;
};
// Absent unless the volume is attached and has two workload tickets on two nodes that may share it for the
// time of a move: it is migratable, or both serve one owner (S21). A third node is no part of it.
std::optional<MoveWish> wished_move(const Book& book, const Roster& roster);
// Why the wished move does not begin now; empty: it does.
std::vector<Blocker> move_start_blockers(const Book& book, const Roster& roster, const MoveWish& wish);

struct MoveChoice {
  enum class Kind { stay, start, confirm, roll_back, detach };
  Kind kind = Kind::stay;
  std::string node = {};  // start, confirm: the destination
  std::string why = {};   // for people
  bool warning = false;
};
// For a volume that is given to a node and whose move is asked for or under way; else: does one begin?
MoveChoice review_move(const Book& book, const Roster& roster);

// The destination's ticket has what it asks for before the volume is there: the standby is ready, and the
// Grant names it (S15).
bool is_moved_to(const Book& book, const AttachmentTicket& ticket);
// What the destination's ticket waits for while its move is under way.
std::vector<Blocker> move_blockers(const Book& book, const AttachmentTicket& destination);
// What any other ticket waits for, and everything that must not happen during a move: rebuild, purge,
// expansion, snapshots, eviction. Absent: no move.
std::optional<Blocker> move_blocker(const Volume& volume);

// Both tickets of a move that was cut off are there and the volume is detached: the node that the record
// decides for; empty: no record.
std::string node_after_a_cut(const Volume& volume);

}  // namespace moor::attach
