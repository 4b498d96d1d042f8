#include "attach/table.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/plant.h"

namespace moor::attach {

namespace {

using S = VolumeState;
using P = NodePair;
using A = Action;

// One line per combination: 5 pairs × 7 states. `deleting` without a deletion is a leftover and is closed.
constexpr std::array<TableRow, 35> kTable = {{
    {P::neither, S::none, A::create, S::creating, S::creating},
    {P::neither, S::creating, A::close, S::detaching, S::detaching},
    {P::neither, S::attaching, A::close, S::detaching, S::detaching},
    {P::neither, S::attached, A::close, S::detaching, S::detaching},
    {P::neither, S::deleting, A::close, S::detaching, S::detaching},
    {P::neither, S::detaching, A::close, S::detaching, S::detached},
    {P::neither, S::detached, A::none, S::detached, S::detached},

    {P::current_only, S::none, A::create, S::creating, S::creating},
    {P::current_only, S::creating, A::close, S::detaching, S::detaching},
    {P::current_only, S::attaching, A::close, S::detaching, S::detaching},
    {P::current_only, S::attached, A::close, S::detaching, S::detaching},
    {P::current_only, S::detached, A::close, S::detaching, S::detaching},
    {P::current_only, S::deleting, A::close, S::detaching, S::detaching},
    {P::current_only, S::detaching, A::close, S::detaching, S::detached},

    {P::wanted_only, S::none, A::create, S::creating, S::creating},
    {P::wanted_only, S::attached, A::close, S::detaching, S::detaching},
    {P::wanted_only, S::deleting, A::close, S::detaching, S::detaching},
    {P::wanted_only, S::detaching, A::close, S::detaching, S::detached},
    {P::wanted_only, S::detached, A::open, S::attaching, S::attaching},
    {P::wanted_only, S::creating, A::open, S::attaching, S::attaching},
    {P::wanted_only, S::attaching, A::open, S::attaching, S::attached},

    {P::same, S::none, A::create, S::creating, S::creating},
    {P::same, S::creating, A::close, S::detaching, S::detaching},
    {P::same, S::attaching, A::close, S::detaching, S::detaching},
    {P::same, S::detached, A::close, S::detaching, S::detaching},
    {P::same, S::deleting, A::close, S::detaching, S::detaching},
    {P::same, S::detaching, A::close, S::detaching, S::detached},
    {P::same, S::attached, A::open, S::attached, S::attached},

    {P::different, S::none, A::create, S::creating, S::creating},
    {P::different, S::creating, A::close, S::detaching, S::detaching},
    {P::different, S::attaching, A::close, S::detaching, S::detaching},
    {P::different, S::detached, A::close, S::detaching, S::detaching},
    {P::different, S::deleting, A::close, S::detaching, S::detaching},
    {P::different, S::detaching, A::close, S::detaching, S::detached},
    // The end of a move; without one that is ready to end, this row closes like the others.
    {P::different, S::attached, A::finish_move, S::attached, S::attached},
}};

constexpr std::array<MigrationRow, 5> kMigrationTable = {{
    {P::neither, StandbyAction::none},
    {P::wanted_only, StandbyAction::none},  // the attachment rules clear it, or a move opens it
    {P::current_only, StandbyAction::close},
    {P::same, StandbyAction::keep},
    {P::different, StandbyAction::close},
}};

const MigrationRow& migration_row(NodePair nodes) {
  const auto found = std::find_if(kMigrationTable.begin(), kMigrationTable.end(),
                                  [&](const MigrationRow& row) { return row.nodes == nodes; });
  MOOR_ASSERT(found != kMigrationTable.end(), "no row for this pair of migration fields");
  return *found;
}

bool can_finish_move(const Position& position, const Progress& progress) {
  return progress.standby_is_active && position.current_migration_node_id == position.node_id;
}

// Deletion closes whatever is there and then stays; the objects go in the order that the volume controller
// knows.
Step deletion_step(const Position& position, const Progress& progress) {
  Step step{.action = A::close,
            .standby = StandbyAction::close,
            .state = S::deleting,
            .current_node_id = position.current_node_id,
            .current_migration_node_id = position.current_migration_node_id};
  if (!progress.stopped || !progress.standby_stopped) return step;
  step.action = A::none;
  step.standby = StandbyAction::none;
  step.current_node_id.clear();
  step.current_migration_node_id.clear();
  step.stable = true;
  return step;
}

// What the fields of a move become beside the row of the table.
void step_migration(const Position& position, const Progress& progress, Step& step) {
  step.standby =
      migration_row(pair_of(position.migration_node_id, position.current_migration_node_id)).action;
  if (step.action == A::close && !position.current_migration_node_id.empty())
    step.standby = StandbyAction::close;
  if (step.standby == StandbyAction::close && progress.standby_stopped)
    step.current_migration_node_id.clear();
  if (step.state == S::attached && step.action == A::open && position.current_migration_node_id.empty() &&
      !position.migration_node_id.empty() && progress.standby_opened)
    step.current_migration_node_id = position.migration_node_id;
}

}  // namespace

NodePair pair_of(const std::string& wanted, const std::string& current) {
  if (wanted.empty()) return current.empty() ? P::neither : P::current_only;
  if (current.empty()) return P::wanted_only;
  return wanted == current ? P::same : P::different;
}

std::span<const TableRow> attach_table() {
  return kTable;
}

std::span<const MigrationRow> migration_table() {
  return kMigrationTable;
}

const TableRow& table_row(NodePair nodes, VolumeState state) {
  const auto found = std::find_if(kTable.begin(), kTable.end(), [&](const TableRow& row) {
    return row.nodes == nodes && row.state == state;
  });
  MOOR_ASSERT(found != kTable.end(), "no row for this combination");
  return *found;
}

Position position_of(const Volume& volume) {
  return {.node_id = volume.spec.node_id,
          .current_node_id = volume.status.current_node_id,
          .state = volume.status.state,
          .migration_node_id = volume.spec.migration_node_id,
          .current_migration_node_id = volume.status.current_migration_node_id,
          .deleting = volume.metadata.is_being_deleted()};
}

Step next_step(const Position& position, const Progress& progress) {
  if (position.deleting) return deletion_step(position, progress);
  const TableRow& row = table_row(pair_of(position.node_id, position.current_node_id), position.state);
  Step step{.action = row.action,
            .state = row.next,
            .current_node_id = position.current_node_id,
            .current_migration_node_id = position.current_migration_node_id};
  if (row.action == A::finish_move) {
    if (can_finish_move(position, progress)) {
      step.current_node_id = position.node_id;
      step.current_migration_node_id.clear();
      return step;
    }
    step.action = A::close;
    step.state = S::detaching;
  }
  if (position.state == S::detached && progress.held) {
    step.action = A::close;
    step.state = S::detaching;
  }
  step_migration(position, progress, step);
  if (row.action == A::open && row.next_when_done == S::attached &&
      (progress.opened || MOOR_PLANT("attach-attached-early"))) {
    step.state = S::attached;
    step.current_node_id = position.node_id;
  }
  if (row.action == A::close && row.next_when_done == S::detached &&
      (progress.stopped || MOOR_PLANT("attach-cleared-early")) && step.current_migration_node_id.empty()) {
    step.state = S::detached;
    step.current_node_id.clear();
  }
  const bool rests = step.action == A::none || (step.action == A::open && position.state == S::attached);
  step.stable = rests && position.current_migration_node_id == position.migration_node_id;
  return step;
}

void apply_step(const Step& step, Volume& volume) {
  volume.status.state = step.state;
  volume.status.current_node_id = step.current_node_id;
  volume.status.current_migration_node_id = step.current_migration_node_id;
}

}  // namespace moor::attach
