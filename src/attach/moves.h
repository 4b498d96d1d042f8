// Moves of an attached volume to another node. The rules that start, confirm and roll back a move belong to a
// later floor; here is what the attachment rules must know of one today: whether a move is under way, whether
// two tickets ask for one, and which migration fields are left over from something that is no longer there.
#pragma once

#include <optional>
#include <string>

#include "attach/roster.h"

namespace moor::attach {

// The move record of the volume names a move that has not ended.
bool is_moving(const Volume& volume);

// spec.migrationNodeID is set and no move record stands behind it: it is cleared, whatever the rest says.
bool is_migration_stale(const Volume& volume);

// The ticket that keeps a migratable volume where it is, and the CSI ticket that asks for it elsewhere.
struct MoveWish {
  std::string source_ticket;
  std::string destination_ticket;
};
// Absent unless the volume is migratable, attached, and has a CSI ticket on its node and one elsewhere, both
// of which count.
std::optional<MoveWish> wished_move(const Book& book, const Roster& roster);

}  // namespace moor::attach
