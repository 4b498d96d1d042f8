// Moves under restarts of the controllers at every moment, and under anything at random: the end is the one
// that the tickets ask for (L5, L9), nothing starts twice (S3), one engine is left (S23).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>

#include "control/testing/stage.h"

namespace moor::control {
namespace {

using namespace std::chrono_literals;
using Deed = std::function<void(Stage&)>;

void attach(Stage& stage) {
  stage.create_volume("v1", R"("size":"1073741824","accessMode":"rwx","migratable":true)");
  stage.add_ticket("v1", "one", "csi-attacher", "node-1");
}

void begin(Stage& stage) {
  attach(stage);
  stage.add_ticket("v1", "two", "csi-attacher", "node-2");
}

void activate(Stage& stage) {
  begin(stage);
  stage.write_on("node-2");
}

std::string fingerprint(Stage& stage) {
  std::string text = stage.state_of("v1") + " move=" + stage.move_of("v1");
  for (const char* ticket : {"one", "two"})
    if (const auto book = stage.get<lh::VolumeAttachment>("v1");
        book && book->spec.attachment_tickets.contains(ticket))
      text += fmt::format(" {}={}", ticket, stage.is_satisfied("v1", ticket) ? "satisfied" : "waits");
  for (const auto& [name, process] : stage.reality.engines)
    text += fmt::format(" {}{}", process.node, process.standby ? "(standby)" : "");
  text += fmt::format(" engines={}", stage.all<lh::Engine>().size());
  return text;
}

// One restart after so many pieces of work, for each number of them.
void expect_same_end(const Deed& prologue, const Deed& deed, const std::string& wanted) {
  std::size_t moments = 0;
  for (bool more = true; more && moments < 400; ++moments) {
    Stage stage;
    prologue(stage);
    stage.hold = true;
    deed(stage);
    stage.hold = false;
    more = stage.nudge(moments);
    stage.restart_controllers();
    stage.settle();
    stage.pass(3s);
    for (const auto& [start, count] : stage.reality.starts) EXPECT_EQ(count, 1) << start << " (S3)";
    ASSERT_EQ(fingerprint(stage), wanted) << "restarted after " << moments << " pieces of work";
    const std::uint64_t revision = stage.revision();
    stage.settle();
    EXPECT_EQ(stage.revision(), revision) << "L8";
  }
  EXPECT_GT(moments, 5u);
}

TEST(MoveRestart, WhileItBegins) {
  expect_same_end(
      attach, [](Stage& stage) { stage.add_ticket("v1", "two", "csi-attacher", "node-2"); },
      "attached node-1 healthy move=ready node-1 node-2 one=satisfied two=satisfied node-2(standby) node-1 "
      "engines=2");
}

TEST(MoveRestart, WhileTheDestinationTakesOver) {
  expect_same_end(
      begin, [](Stage& stage) { stage.write_on("node-2"); },
      "attached node-1 healthy move=activated node-1 node-2 one=satisfied two=satisfied node-2 node-1 "
      "engines=2");
}

TEST(MoveRestart, WhileItIsConfirmed) {
  for (const Deed& prologue : {Deed(begin), Deed(activate)})
    expect_same_end(
        prologue, [](Stage& stage) { stage.remove_ticket("v1", "one"); },
        "attached node-2 healthy move=- two=satisfied node-2 engines=1");
}

TEST(MoveRestart, WhileItIsRolledBack) {
  for (const Deed& prologue : {Deed(begin), Deed(activate)})
    expect_same_end(
        prologue, [](Stage& stage) { stage.remove_ticket("v1", "two"); },
        "attached node-1 healthy move=- one=satisfied node-1 engines=1");
}

TEST(MoveRestart, WhileBothLeave) {
  for (const Deed& prologue : {Deed(begin), Deed(activate)})
    expect_same_end(
        prologue,
        [](Stage& stage) {
          stage.remove_ticket("v1", "two");
          stage.remove_ticket("v1", "one");
        },
        "detached - unknown move=- engines=1");
}

TEST(MoveRestart, WhileAProcessOfEitherSideComesBack) {
  expect_same_end(
      begin, [](Stage& stage) { stage.kill_engine_on("node-1"); },
      "attached node-1 healthy move=ready node-1 node-2 one=satisfied two=satisfied node-2(standby) node-1 "
      "engines=2");
  expect_same_end(
      begin, [](Stage& stage) { stage.kill_engine_on("node-2"); },
      "attached node-1 healthy move=ready node-1 node-2 one=satisfied two=satisfied node-2(standby) node-1 "
      "engines=2");
}

// Tickets come and go, processes and agents die, controllers restart, clients write. When it ends: each
// ticket has what it asks for, and there is one engine per satisfied node.
class MoveStorm {
 public:
  explicit MoveStorm(std::uint64_t seed) : random_(seed) {
    attach(stage_);
    stage_.hold = true;
  }

  void run(int deeds) {
    for (int i = 0; i < deeds; ++i) {
      deed();
      for (std::uint64_t pieces = random_.below(40); pieces > 0 && stage_.nudge(1); --pieces) check();
      check();
    }
    stage_.hold = false;
    for (const char* node : {"node-1", "node-2", "node-3"}) {
      stage_.agent(node).up = true;
      stage_.agent(node).heartbeat();
    }
    stage_.pass(3min);
  }

  void expect_end() {
    check();
    const auto book = stage_.get<lh::VolumeAttachment>("v1");
    const auto& tickets = book->spec.attachment_tickets;
    for (const auto& [id, ticket] : tickets)
      EXPECT_TRUE(stage_.is_satisfied("v1", id))
          << id << " on " << ticket.node_id << ": " << stage_.blockers_of("v1", id) << ", "
          << fingerprint(stage_);
    const auto volume = stage_.get<lh::Volume>("v1");
    if (tickets.empty()) {
      EXPECT_EQ(stage_.state_of("v1"), "detached - unknown");
      EXPECT_TRUE(stage_.reality.engines.empty());
    }
    if (tickets.size() < 2) {
      EXPECT_EQ(stage_.move_of("v1"), "-") << "L5";
      EXPECT_EQ(stage_.all<lh::Engine>().size(), 1u) << "S23";
    }
    const std::uint64_t revision = stage_.revision();
    stage_.settle();
    EXPECT_EQ(stage_.revision(), revision) << "L8";
  }

 private:
  // One ticket per node, on two nodes: admission allows no more.
  void deed() {
    const bool first = random_.chance(1, 2);
    const std::string node = first ? "node-1" : "node-2";
    const std::string ticket = first ? "one" : "two";
    const auto book = stage_.get<lh::VolumeAttachment>("v1");
    const bool there = book->spec.attachment_tickets.contains(ticket);
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:
        if (there) return stage_.remove_ticket("v1", ticket);
        // The second one is taken only once the volume is attached.
        if (book->spec.attachment_tickets.empty() ||
            stage_.get<lh::Volume>("v1")->status.state == lh::VolumeState::attached)
          return stage_.add_ticket("v1", ticket, "csi-attacher", node);
        return;
      case 3: return stage_.write_on(node);
      case 4: return stage_.kill_engine_on(node);
      case 5:
      case 6: return stage_.restart_controllers();
      default:
        stage_.agent(node).up = !stage_.agent(node).up;
        if (stage_.agent(node).up) stage_.agent(node).heartbeat();
        stage_.executor.advance(std::chrono::seconds(random_.below(20)));
    }
  }

  void check() {
    for (const auto& [start, count] : stage_.reality.starts) EXPECT_EQ(count, 1) << start << " (S3)";
    EXPECT_LE(stage_.reality.engines.size(), 2u);
    const auto volume = stage_.get<lh::Volume>("v1");
    const auto grant = stage_.get<mr::Grant>("v1");
    if (volume->status.state == lh::VolumeState::detached) {
      EXPECT_FALSE(grant->spec.active || grant->spec.standby) << "(S12)";
    }
    for (const auto& [name, process] : stage_.reality.engines) {
      EXPECT_LE(process.epoch, grant->spec.epoch) << "(S2)";
      // An engine writes only in an epoch that the Grant named it active in (S22).
      if (grant->spec.standby && name.starts_with(grant->spec.standby->engine + "@")) {
        EXPECT_TRUE(process.standby || process.epoch < grant->spec.standby->epoch) << "(S22) " << name;
      }
    }
  }

  Stage stage_;
  SeededRandom random_;
};

TEST(MoveRestart, AndAnythingElseAtRandomEndsWhereTheTicketsAsk) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    MoveStorm storm(seed);
    storm.run(25);
    storm.expect_end();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace moor::control
