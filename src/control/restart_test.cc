// The controllers may be stopped at any moment and started again, here or elsewhere: the end is the same
// (L9), nothing runs twice on the way, and the writes end (L8).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>

#include "control/testing/stage.h"

namespace moor::control {
namespace {

using namespace std::chrono_literals;

// What people see at the end, without times and counters that may differ.
std::string fingerprint(Stage& stage) {
  std::string text = stage.state_of("v1");
  if (const auto book = stage.get<lh::VolumeAttachment>("v1"))
    for (const auto& [id, status] : book->status.attachment_ticket_statuses)
      text += fmt::format(" {}={}", id, status.satisfied ? "satisfied" : stage.blockers_of("v1", id));
  if (const auto grant = stage.get<mr::Grant>("v1")) {
    text += fmt::format(" active={}", grant->spec.active ? grant->spec.active->node : "-");
    for (const auto& [name, mode] : grant->spec.members) text += fmt::format(" {}={}", name, to_string(mode));
  }
  for (const auto& [name, process] : stage.reality.engines) text += " " + name;
  for (const auto& [name, process] : stage.reality.replicas) text += " " + name;
  return text;
}

// Plays the story with one restart after so many pieces of work; answers whether there was still work then.
bool play(const std::function<void(Stage&)>& prologue, const std::function<void(Stage&)>& deed,
          std::size_t restart_after, std::string& end) {
  Stage stage;
  prologue(stage);
  stage.hold = true;
  deed(stage);
  stage.hold = false;
  const bool more = stage.nudge(restart_after);
  stage.restart_controllers();
  stage.settle();
  stage.pass(3s);
  for (const auto& [start, count] : stage.reality.starts) EXPECT_EQ(count, 1) << start;
  const std::uint64_t revision = stage.revision();
  stage.settle();
  EXPECT_EQ(stage.revision(), revision);
  end = fingerprint(stage);
  return more;
}

void expect_same_end(const std::function<void(Stage&)>& prologue, const std::function<void(Stage&)>& deed,
                     const std::string& wanted) {
  std::size_t moments = 0;
  for (bool more = true; more && moments < 400; ++moments) {
    std::string end;
    more = play(prologue, deed, moments, end);
    ASSERT_THAT(end, testing::StartsWith(wanted)) << "restarted after " << moments << " pieces of work";
  }
  EXPECT_GT(moments, 5u);
}

void attach(Stage& stage) {
  stage.add_ticket("v1", "csi", "csi-attacher", "node-1");
}

void create(Stage& stage) {
  stage.create_volume("v1");
}

void create_and_attach(Stage& stage) {
  create(stage);
  attach(stage);
}

TEST(Restart, DuringCreation) {
  expect_same_end([](Stage&) {}, create, "detached - unknown active=- v1-r-1=RW v1-r-2=RW v1-r-3=RW");
}

TEST(Restart, DuringAttach) {
  expect_same_end(create, attach,
                  "attached node-1 healthy csi=satisfied active=node-1 v1-r-1=RW v1-r-2=RW v1-r-3=RW "
                  "v1-e@node-1 v1-r-1 v1-r-2 v1-r-3");
}

TEST(Restart, DuringDetach) {
  expect_same_end(
      create_and_attach, [](Stage& stage) { stage.remove_ticket("v1", "csi"); },
      "detached - unknown active=- v1-r-1=RW v1-r-2=RW v1-r-3=RW");
}

TEST(Restart, DuringAChangeOfNodes) {
  expect_same_end(
      create_and_attach, [](Stage& stage) { stage.add_ticket("v1", "csi", "csi-attacher", "node-2"); },
      "attached node-2 healthy csi=satisfied active=node-2");
}

TEST(Restart, WhileAnEngineComesBack) {
  expect_same_end(
      create_and_attach, [](Stage& stage) { stage.kill_engine("v1"); },
      "attached node-1 healthy csi=satisfied active=node-1");
}

TEST(Restart, DuringDeletion) {
  expect_same_end(
      create_and_attach, [](Stage& stage) { stage.remove(kind_of<lh::Volume>(), "v1"); }, "gone");
}

// Requests, deaths and restarts at random; when they end, every ticket has what it asks for or says why not.
class Storm {
 public:
  explicit Storm(std::uint64_t seed) : random_(seed) {
    stage_.create_volume("v1");
    stage_.hold = true;
  }

  void run(int deeds) {
    for (int i = 0; i < deeds; ++i) {
      deed();
      for (std::uint64_t pieces = random_.below(40); pieces > 0 && stage_.nudge(1); --pieces) check();
      check();
    }
    stage_.hold = false;
    for (const char* node : {"node-1", "node-2", "node-3"}) stage_.agent(node).up = true;
    stage_.pass(2min);
  }

  void expect_end() {
    check();
    const auto book = stage_.get<lh::VolumeAttachment>("v1");
    ASSERT_TRUE(book);
    for (const auto& [id, ticket] : book->spec.attachment_tickets) {
      const bool satisfied = stage_.is_satisfied("v1", id);
      EXPECT_TRUE(satisfied || stage_.blockers_of("v1", id) == "AttachedElsewhere")
          << id << " on " << ticket.node_id << ": " << stage_.blockers_of("v1", id) << ", volume "
          << stage_.state_of("v1");
    }
    const bool any = !book->spec.attachment_tickets.empty();
    EXPECT_THAT(stage_.state_of("v1"), testing::StartsWith(any ? "attached node-" : "detached -"));
    const std::uint64_t revision = stage_.revision();
    stage_.settle();
    EXPECT_EQ(stage_.revision(), revision);
  }

 private:
  void deed() {
    const std::string node = fmt::format("node-{}", 1 + random_.below(3));
    const std::string ticket = fmt::format("t{}", random_.below(3));
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:
        return stage_.add_ticket("v1", ticket, random_.chance(1, 2) ? "csi-attacher" : "snapshot-controller",
                                 node);
      case 3:
      case 4: return stage_.remove_ticket("v1", ticket);
      case 5: return stage_.kill_engine("v1");
      case 6: return stage_.restart_controllers();
      default:
        stage_.agent(node).up = !stage_.agent(node).up;
        if (stage_.agent(node).up) stage_.agent(node).heartbeat();
        stage_.executor.advance(std::chrono::seconds(random_.below(20)));
    }
  }

  void check() {
    EXPECT_LE(stage_.reality.engines.size(), 1u) << "two engines run at once (S1)";
    for (const auto& [start, count] : stage_.reality.starts) EXPECT_EQ(count, 1) << start << " (S3)";
    const auto volume = stage_.get<lh::Volume>("v1");
    const auto grant = stage_.get<mr::Grant>("v1");
    if (!volume || !grant) return;
    if (volume->status.state == lh::VolumeState::detached) {
      EXPECT_EQ(volume->status.current_node_id, "") << "(S10)";
      EXPECT_FALSE(grant->spec.active) << "(S12)";
    }
  }

  Stage stage_;
  SeededRandom random_;
};

TEST(Restart, AndAnythingElseAtRandomEndsWell) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Storm storm(seed);
    storm.run(25);
    storm.expect_end();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace moor::control
