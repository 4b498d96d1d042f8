// What the volume controller does about a move, as a table of its own beside table.h: from the wanted fields,
// the record and what is seen of both engines to one step. Pure. Every combination has an answer, and
// following the answers ends every move on the side that the wanted fields name (L5, S23).
//
// It speaks only of attached volumes. A volume that is to leave its node, or is on its way, is closed by
// table.h whatever its record says, both engines; `record_may_go` says when the record is of no use any more.
#pragma once

#include <string>

#include "model/longhorn/volume.h"

namespace moor::attach {

using model::longhorn::MovePhase;
using model::longhorn::Volume;

// What was seen of a move's two engines.
struct MoveProgress {
  bool source_serves = false;       // named active, and it serves in that epoch
  bool destination_serves = false;  // the same
  bool destination_active = false;  // the Grant names the destination as active
  bool source_active = false;
  bool standby_granted = false;  // the Grant names the destination as standby
  bool standby_ended = false;    // and its process, or the life of its node, is over
  // It ran in the Grant's epoch and knew its source, and the source keeps its clients when superseded. Once
  // said of an epoch it stands until the Grant names another, or none.
  bool standby_ready = false;
  // The engine on the side that loses has ended and is released with proof, or is fenced and its node away.
  bool loser_gone = false;
};

enum class MoveAction {
  none,           // no move, and none asked for
  begin,          // make the record
  grant_standby,  // the destination gets a standby epoch: the first one, or the next
  wait,           // keep the engine of `keep` going and wait
  swap,           // active := destination, whatever became of its standby
  take_back,      // active := source, above every epoch
  stop_loser,     // stop the engine on the other side
  finish,         // the other side is deleted, the record goes
};

enum class MoveSide { source, destination };

struct MoveStep {
  MoveAction action = MoveAction::none;
  MovePhase phase = MovePhase::none;
  MoveSide keep = MoveSide::source;  // whose engine is kept going meanwhile
  std::string current_node_id = {};
  std::string current_migration_node_id = {};
  bool handled = false;  // false: table.h decides
};

MoveStep next_move_step(const Volume& volume, const MoveProgress& progress);

// The same step when the standby turned out to need another epoch, of which its agent has yet to hear.
MoveStep not_ready(MoveStep step);

// The record of a volume that is not attached: nothing of the move is left, and nobody needs it to decide
// between two tickets.
bool record_may_go(const Volume& volume, bool both_tickets_there);

}  // namespace moor::attach
