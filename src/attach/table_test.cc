#include "attach/table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace moor::attach {
namespace {

using S = VolumeState;
using A = Action;

// The table as the design writes it, row by row, by hand: "" is none, A and B are nodes.
struct DesignRow {
  std::string wanted;
  std::string current;
  std::vector<S> states;
  A action;
  S next;                         // at once
  S done = S::none;               // when opened or stopped; none: the row does not wait
  std::string current_when_done;  // of rows that wait
};

const std::vector<DesignRow>& design() {
  static const std::vector<DesignRow> rows = {
      {"", "", {S::creating, S::attaching, S::attached}, A::close, S::detaching},
      {"", "", {S::detaching}, A::close, S::detaching, S::detached, ""},
      {"", "", {S::detached}, A::none, S::detached},
      {"", "B", {S::attaching, S::attached, S::detached, S::creating}, A::close, S::detaching},
      {"", "B", {S::detaching}, A::close, S::detaching, S::detached, ""},
      {"A", "", {S::attached}, A::close, S::detaching},
      {"A", "", {S::detaching}, A::close, S::detaching, S::detached, ""},
      {"A", "", {S::detached, S::creating}, A::open, S::attaching},
      {"A", "", {S::attaching}, A::open, S::attaching, S::attached, "A"},
      {"A", "A", {S::attaching, S::detached, S::creating}, A::close, S::detaching},
      {"A", "A", {S::detaching}, A::close, S::detaching, S::detached, ""},
      {"A", "A", {S::attached}, A::open, S::attached},
      {"A", "B", {S::detached, S::attaching, S::creating, S::attached}, A::close, S::detaching},
      {"A", "B", {S::detaching}, A::close, S::detaching, S::detached, ""},
  };
  return rows;
}

TEST(AttachTable, HasExactlyOneRowForEveryCombination) {
  std::set<std::pair<NodePair, S>> seen;
  for (const TableRow& row : attach_table()) EXPECT_TRUE(seen.insert({row.nodes, row.state}).second);
  EXPECT_EQ(seen.size(), 5U * 7U);
  EXPECT_EQ(migration_table().size(), 5U);
}

TEST(AttachTable, SaysWhatTheDesignSays) {
  for (const DesignRow& row : design())
    for (const S state : row.states) {
      const Position position{.node_id = row.wanted, .current_node_id = row.current, .state = state};
      const std::string where = row.wanted + "|" + row.current + "|" + std::string(to_string(state));
      Step step = next_step(position, {});
      EXPECT_EQ(step.action, row.action) << where;
      EXPECT_EQ(step.state, row.next) << where;
      EXPECT_EQ(step.current_node_id, row.current) << where;
      const Progress done{.opened = row.action == A::open, .stopped = row.action == A::close};
      step = next_step(position, done);
      EXPECT_EQ(step.state, row.done == S::none ? row.next : row.done) << where;
      EXPECT_EQ(step.current_node_id, row.done == S::none ? row.current : row.current_when_done) << where;
    }
}

TEST(AttachTable, ANewVolumeIsCreatedWhateverItsFieldsSay) {
  for (const std::string wanted : {"", "A"})
    for (const std::string current : {"", "A", "B"}) {
      const Step step = next_step({.node_id = wanted, .current_node_id = current}, {});
      EXPECT_EQ(step.action, A::create);
      EXPECT_EQ(step.state, S::creating);
    }
}

TEST(AttachTable, RestsOnlyWhereItIsWanted) {
  std::set<std::string> resting;
  for (const std::string wanted : {"", "A"})
    for (const std::string current : {"", "A", "B"})
      for (int state = 0; state < 7; ++state) {
        const Position position{
            .node_id = wanted, .current_node_id = current, .state = static_cast<S>(state)};
        if (next_step(position, {}).stable)
          resting.insert(wanted + "|" + current + "|" + std::string(to_string(position.state)));
      }
  EXPECT_EQ(resting, (std::set<std::string>{"||detached", "A|A|attached"}));
}

TEST(AttachTable, TheCurrentNodeChangesOnlyAtTheEndOfOpeningAndClosing) {
  for (const bool done : {false, true})
    for (const std::string wanted : {"", "A"})
      for (const std::string current : {"", "A", "B"})
        for (int state = 0; state < 7; ++state) {
          const Position position{
              .node_id = wanted, .current_node_id = current, .state = static_cast<S>(state)};
          const Step step = next_step(position, {.opened = done, .stopped = done});
          if (step.current_node_id == current) continue;
          const bool ended =
              step.current_node_id.empty() ? step.state == S::detached : step.state == S::attached;
          EXPECT_TRUE(ended && done) << "S10: " << wanted << current << to_string(position.state);
        }
}

TEST(AttachTable, ADetachedVolumeThatIsStillHeldIsClosedFirst) {
  for (const std::string wanted : {"", "A"}) {
    const Position position{.node_id = wanted, .state = S::detached};
    const Step step = next_step(position, {.held = true});
    EXPECT_EQ(step.action, A::close);
    EXPECT_EQ(step.state, S::detaching);
    EXPECT_FALSE(step.stable);
  }
}

TEST(MigrationTable, ALeftOverStandbyIsClosedAndThenForgotten) {
  const Position position{
      .node_id = "A", .current_node_id = "A", .state = S::attached, .current_migration_node_id = "B"};
  Step step = next_step(position, {.opened = true, .standby_stopped = false});
  EXPECT_EQ(step.standby, StandbyAction::close);
  EXPECT_EQ(step.current_migration_node_id, "B");
  EXPECT_EQ(step.action, A::open) << "the volume goes on serving";
  EXPECT_FALSE(step.stable);
  step = next_step(position, {.opened = true, .standby_stopped = true});
  EXPECT_EQ(step.current_migration_node_id, "");
}

TEST(MigrationTable, AStandbyKeepsTheVolumeFromBeingDetachedUntilItIsClosed) {
  const Position position{.node_id = "",
                          .current_node_id = "A",
                          .state = S::detaching,
                          .migration_node_id = "B",
                          .current_migration_node_id = "B"};
  Step step = next_step(position, {.stopped = true, .standby_stopped = false});
  EXPECT_EQ(step.state, S::detaching);
  EXPECT_EQ(step.standby, StandbyAction::close);
  step = next_step(position, {.stopped = true, .standby_stopped = true});
  EXPECT_EQ(step.state, S::detached);
}

TEST(MigrationTable, AMoveEndsOnItsDestinationOnceThatIsTheActiveEngine) {
  const Position position{
      .node_id = "B", .current_node_id = "A", .state = S::attached, .current_migration_node_id = "B"};
  Step step = next_step(position, {.standby_opened = true, .standby_is_active = true});
  EXPECT_EQ(step.action, A::finish_move);
  EXPECT_EQ(step.current_node_id, "B");
  EXPECT_EQ(step.current_migration_node_id, "");
  EXPECT_EQ(step.state, S::attached);
  step = next_step(position, {.standby_opened = true});
  EXPECT_EQ(step.action, A::close) << "not active: never two engines";
}

TEST(MigrationTable, AStandbyIsShownOnceItIsReady) {
  const Position position{
      .node_id = "A", .current_node_id = "A", .state = S::attached, .migration_node_id = "B"};
  EXPECT_EQ(next_step(position, {.opened = true}).current_migration_node_id, "");
  EXPECT_EQ(next_step(position, {.opened = true, .standby_opened = true, .standby_stopped = false})
                .current_migration_node_id,
            "B");
}

TEST(Deletion, ComesFirstAndEndsClosed) {
  for (int state = 0; state < 7; ++state) {
    const Position position{.node_id = "A",
                            .current_node_id = "A",
                            .state = static_cast<S>(state),
                            .current_migration_node_id = "B",
                            .deleting = true};
    Step step = next_step(position, {.standby_stopped = false});
    EXPECT_EQ(step.action, A::close);
    EXPECT_EQ(step.standby, StandbyAction::close);
    EXPECT_EQ(step.state, S::deleting);
    EXPECT_EQ(step.current_node_id, "A");
    step = next_step(position, {.stopped = true});
    EXPECT_EQ(step.current_node_id, "");
    EXPECT_EQ(step.current_migration_node_id, "");
    EXPECT_TRUE(step.stable);
  }
}

}  // namespace
}  // namespace moor::attach
