// The attach/detach table of the volume controller: for every combination of spec.nodeID, currentNodeID and
// state one row, as data, and `next_step`, which reads it. From any combination, also ones that only a crash
// or a person can make, following the steps reaches the stable state that spec.nodeID asks for.
//
// Opening and closing are idempotent and take time: a step names the action to keep doing and what the status
// becomes now; what becomes of it once the action is done depends on Progress. Deletion comes first.
#pragma once

#include <span>
#include <string>

#include "model/longhorn/volume.h"

namespace moor::attach {

using model::longhorn::Volume;
using model::longhorn::VolumeState;

// spec.nodeID against currentNodeID, and spec.migrationNodeID against currentMigrationNodeID.
enum class NodePair { neither, current_only, wanted_only, same, different };
NodePair pair_of(const std::string& wanted, const std::string& current);

enum class Action {
  none,
  create,       // make the objects of the volume
  open,         // start replicas and engine on spec.nodeID; again: start what is missing
  close,        // stop engine, then replicas; a standby engine too
  finish_move,  // the destination of a move has become the active engine
};

enum class StandbyAction { none, keep, close };

// One row. `next` is the state at once; `next_when_done` the state once the action is done (the same when the
// row does not wait for it).
struct TableRow {
  NodePair nodes;
  VolumeState state;
  Action action;
  VolumeState next;
  VolumeState next_when_done;
};
std::span<const TableRow> attach_table();
const TableRow& table_row(NodePair nodes, VolumeState state);

// What becomes of the standby side of a move, whatever the rest does.
struct MigrationRow {
  NodePair nodes;
  StandbyAction action;
};
std::span<const MigrationRow> migration_table();

// Where the volume is.
struct Position {
  std::string node_id;  // wanted: spec.nodeID
  std::string current_node_id;
  VolumeState state = VolumeState::none;
  std::string migration_node_id;  // wanted: spec.migrationNodeID
  std::string current_migration_node_id;
  bool deleting = false;
  bool operator==(const Position&) const = default;
};
Position position_of(const Volume& volume);

// What was seen of the processes. `held` sends a detached volume through detaching: only after a crash or by
// hand can it be so, and nothing may open it before the old holder has let go. An open that begins elsewhere
// in the table releases a holder on another node first (grant_start refuses otherwise).
struct Progress {
  bool opened = false;             // engine serves with the Grant's epoch, at least one RW member
  bool stopped = false;            // engine released with proof, replicas stopped
  bool held = false;               // the Grant names an active engine, or one runs
  bool standby_opened = false;     // the destination of a move is ready (moves: a later floor)
  bool standby_stopped = true;     // no standby engine runs
  bool standby_is_active = false;  // the Grant names the destination as active
};

// What to do and what Volume.status becomes. Applying a step and asking again may give the next step at once.
struct Step {
  Action action = Action::none;
  StandbyAction standby = StandbyAction::none;
  VolumeState state = VolumeState::none;
  std::string current_node_id;
  std::string current_migration_node_id;
  bool stable = false;  // nothing is left to reach; open may still start replacements
};
Step next_step(const Position& position, const Progress& progress);
void apply_step(const Step& step, Volume& volume);

}  // namespace moor::attach
