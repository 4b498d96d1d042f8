// From every combination of spec.nodeID, currentNodeID and state, and of the two migration fields, with every
// kind of engine that a crash may have left behind, the two controllers reach the stable state that the
// tickets ask for, and then stay there. Volumes that move: every_move_test.cc.
#include <gtest/gtest.h>

#include "world.h"

namespace moor::attach {
namespace {

struct Scene {
  std::string name;
  std::vector<TicketWish> tickets;
};

const std::vector<Scene>& scenes() {
  static const TicketWish snapshot_n1{.id = "snap", .type = attacher::kSnapshot, .frontend = "any"};
  static const std::vector<Scene> all = {
      {"nobody asks", {}},
      {"a pod on n1", {{.id = "pod"}}},
      {"a pod on n2", {{.id = "pod", .node = "n2"}}},
      {"pods on both", {{.id = "pod-1"}, {.id = "pod-22", .node = "n2"}}},
      {"a snapshot on n1, a pod on n2", {snapshot_n1, {.id = "pod", .node = "n2"}}},
      {"a snapshot and an eviction on n1, a pod on n2",
       {snapshot_n1,
        {.id = "evict", .type = attacher::kEviction, .frontend = "any"},
        {.id = "pod", .node = "n2"}}},
      {"incompatible on n1", {{.id = "pod"}, {.id = "page", .type = attacher::kApi, .frontend = "true"}}},
      {"a better ticket for a dead node",
       {{.id = "page", .type = attacher::kApi, .node = "dead"}, {.id = "pod"}}},
      {"only a ticket for a dead node", {{.id = "page", .type = attacher::kApi, .node = "dead"}}},
  };
  return all;
}

struct Start {
  std::string wanted;
  std::string current;
  VolumeState state;
  std::string migration;
  std::string current_migration;
  std::string engine_on;  // and named by the Grant; "": none
  bool frontend_disabled;
};

Book book_of(const Scene& scene, const Start& start) {
  Book book = make_book();
  book.nodes["dead"] = NodeFacts{.ready = false};
  for (const TicketWish& wish : scene.tickets) add_ticket(book, wish);
  book.volume.spec.node_id = start.wanted;
  book.volume.spec.migration_node_id = start.migration;
  book.volume.spec.disable_frontend = start.frontend_disabled;
  book.volume.status.current_node_id = start.current;
  book.volume.status.state = start.state;
  book.volume.status.current_migration_node_id = start.current_migration;
  book.grant = Grant{};
  book.grant->spec.volume = "v1";
  if (!start.engine_on.empty()) {
    book.grant->spec.epoch = 7;
    book.grant->spec.active =
        model::mooring::GrantHolder{.epoch = 7, .engine = "v1-e", .node = start.engine_on, .incarnation = 1};
  }
  return book;
}

template <class Visit>
void for_each_start(Visit visit) {
  const std::vector<std::string> places = {"", "n1", "n2"};
  const std::vector<std::string> move_places = {"", "n1", "n2", "n3"};
  for (const std::string& wanted : places)
    for (const std::string& current : places)
      for (int state = 0; state < 7; ++state)
        for (const std::string& migration : move_places)
          for (const std::string& current_migration : move_places)
            for (const std::string& engine_on : places)
              for (const bool disabled : {false, true})
                visit(Start{wanted, current, static_cast<VolumeState>(state), migration, current_migration,
                            engine_on, disabled});
}

TEST(EveryCombination, ReachesTheStableStateThatTheTicketsAskFor) {
  int worlds = 0;
  int most_changes = 0;
  for (const Scene& scene : scenes())
    for_each_start([&](const Start& start) {
      if (testing::Test::HasFailure()) return;  // the first one tells enough
      const Book book = book_of(scene, start);
      World world(book);
      world.standby_runs = !start.current_migration.empty();
      world.volume_first = worlds % 2 == 1;  // both orders are met many times
      const std::string before = world.text();
      const bool rests = world.run_to_rest();
      auto faults = naive::faults_at_rest(world);
      if (!rests) faults.push_back("no rest after 60 rounds");
      if (world.book.volume.spec.node_id != naive::final_node(book))
        faults.push_back("it should end on '" + naive::final_node(book) + "'");
      EXPECT_TRUE(faults.empty()) << scene.name << "\nfrom " << before << "to " << world.text()
                                  << faults.front();
      const int changes = world.changes;
      most_changes = std::max(most_changes, changes);
      world.run_to_rest();
      EXPECT_EQ(world.changes, changes) << "L8: " << scene.name << " from " << before;
      ++worlds;
    });
  EXPECT_EQ(worlds, 9 * 3 * 3 * 7 * 4 * 4 * 3 * 2);
  EXPECT_LE(most_changes, 30) << "L8: the number of changes is bounded";
  RecordProperty("worlds", worlds);
  RecordProperty("most_changes", most_changes);
}

TEST(EveryCombination, ADeletedVolumeIsClosedFromEverywhere) {
  for_each_start([&](const Start& start) {
    if (testing::Test::HasFailure()) return;
    Book book = book_of(scenes()[3], start);
    book.volume.metadata.deletion_timestamp = kTestNow;
    World world(book);
    world.standby_runs = !start.current_migration.empty();
    EXPECT_TRUE(world.run_to_rest());
    EXPECT_TRUE(world.violations.empty()) << world.violations.front();
    EXPECT_FALSE(world.engine || world.standby_runs || world.book.grant->spec.active) << world.text();
    EXPECT_EQ(world.book.volume.spec.node_id + world.book.volume.status.current_node_id, "");
    EXPECT_EQ(world.book.volume.status.state, VolumeState::deleting);
  });
}

}  // namespace
}  // namespace moor::attach
