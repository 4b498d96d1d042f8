// The blocker is the true cause: clearing it, and only it, ends the wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "world.h"

namespace moor::attach {
namespace {

using B = BlockerType;
using Change = std::function<void(World&)>;

struct Wait {
  std::string name;
  Change arrange;  // before the ticket `mine` for n1 arrives
  B type;
  std::string holder;
  Change clear;
};

void remove_ticket(World& world, const std::string& id) {
  world.book.attachment.spec.attachment_tickets.erase(id);
}

// Closing and opening need time; what keeps them from ending is a fact of the book.
const std::vector<Wait>& waits() {
  static const std::vector<Wait> all = {
      {"node not ready", [](World& world) { world.book.nodes["n1"].ready = false; }, B::node_not_ready, "n1",
       [](World& world) { world.book.nodes["n1"].ready = true; }},
      {"agent unreachable", [](World& world) { world.book.nodes["n1"].agent_reachable = false; },
       B::agent_unreachable, "n1", [](World& world) { world.book.nodes["n1"].agent_reachable = true; }},
      {"node unknown", [](World& world) { world.book.nodes.erase("n1"); }, B::node_not_found, "n1",
       [](World& world) { world.book.nodes["n1"] = {}; }},
      {"attach limit",
       [](World& world) {
         world.book.nodes["n1"].attach_limit = 2;
         world.book.nodes["n1"].attachments = 2;
       },
       B::node_attach_limit, "n1", [](World& world) { world.book.nodes["n1"].attachments = 1; }},
      {"held elsewhere", [](World& world) { add_ticket(world.book, {.id = "other", .node = "n2"}); },
       B::attached_elsewhere, "other", [](World& world) { remove_ticket(world, "other"); }},
      {"incompatible parameters",
       [](World& world) {
         add_ticket(world.book, {.id = "other", .type = attacher::kApi, .frontend = "true"});
       },
       B::incompatible_parameters, "other", [](World& world) { remove_ticket(world, "other"); }},
      {"reservation of another owner",
       [](World& world) { add_ticket(world.book, {.id = "other", .node = "", .owner = "vm"}); }, B::reserved,
       "other", [](World& world) { remove_ticket(world, "other"); }},
      {"faulted", [](World& world) { world.members_usable = false; }, B::volume_faulted, "v1",
       [](World& world) { world.members_usable = true; }},
  };
  return all;
}

TEST(Why, NamesTheCauseAndClearingThatAndOnlyThatEndsTheWait) {
  for (std::size_t i = 0; i < waits().size(); ++i) {
    const Wait& wait = waits()[i];
    World world(make_book());
    wait.arrange(world);
    ASSERT_TRUE(world.run_to_rest()) << wait.name;
    add_ticket(world.book, {.id = "mine"});
    ASSERT_TRUE(world.run_to_rest()) << wait.name;
    const auto& status = world.book.attachment.status.attachment_ticket_statuses["mine"];
    ASSERT_FALSE(status.satisfied) << wait.name;
    ASSERT_EQ(status.blockers.size(), 1U) << wait.name << "\n" << world.text();
    EXPECT_EQ(status.blockers[0].type, wait.type) << wait.name;
    EXPECT_EQ(status.blockers[0].holder, wait.holder) << wait.name;
    // What would clear any other wait does not end this one.
    for (std::size_t other = 0; other < waits().size(); ++other) {
      const bool same_holder = waits()[other].holder == wait.holder;
      if (other == i || same_holder) continue;
      World elsewhere = world;
      waits()[other].clear(elsewhere);
      ASSERT_TRUE(elsewhere.run_to_rest());
      EXPECT_FALSE(is_satisfied(elsewhere.book, "mine")) << wait.name << " and " << waits()[other].name;
    }
    wait.clear(world);
    ASSERT_TRUE(world.run_to_rest()) << wait.name;
    EXPECT_TRUE(is_satisfied(world.book, "mine")) << wait.name << "\n" << world.text();
    EXPECT_TRUE(world.violations.empty()) << world.violations.front();
  }
}

TEST(Why, ALapsedTicketIsServedAgainWhenItIsExtended) {
  World world(make_book());
  add_ticket(world.book, {.id = "mine"});
  auto& ticket = world.book.attachment.spec.attachment_tickets["mine"];
  ticket.expires_at = kTestNow - std::chrono::seconds(1);
  ASSERT_TRUE(world.run_to_rest());
  const auto& status = world.book.attachment.status.attachment_ticket_statuses["mine"];
  ASSERT_EQ(status.blockers.size(), 1U);
  EXPECT_EQ(status.blockers[0].type, B::expired);
  EXPECT_EQ(world.book.volume.spec.node_id, "");
  ticket.expires_at = kTestNow + std::chrono::hours(1);
  ++ticket.generation;
  ASSERT_TRUE(world.run_to_rest());
  EXPECT_TRUE(is_satisfied(world.book, "mine"));
}

TEST(Why, ADeadNodeThatHoldsTheVolumeIsNamedUntilItComesBack) {
  World world(make_book());
  add_ticket(world.book, {.id = "old"});
  ASSERT_TRUE(world.run_to_rest());
  world.book.nodes["n1"].agent_reachable = false;
  remove_ticket(world, "old");
  add_ticket(world.book, {.id = "new", .node = "n2"});
  ASSERT_TRUE(world.run_to_rest());
  const auto& status = world.book.attachment.status.attachment_ticket_statuses["new"];
  ASSERT_EQ(status.blockers.size(), 1U);
  EXPECT_EQ(status.blockers[0].type, B::detaching);
  EXPECT_EQ(status.blockers[0].holder, "n1");
  EXPECT_TRUE(world.engine && world.engine->node == "n1") << "nobody else starts one meanwhile";
  world.book.nodes["n1"].agent_reachable = true;
  ASSERT_TRUE(world.run_to_rest());
  EXPECT_TRUE(is_satisfied(world.book, "new"));
}

// The seed's stories, played through.

TEST(Stories, ASnapshotYieldsToAPodElsewhereAndIsServedAfterwards) {
  World world(make_book());
  add_ticket(world.book, {.id = "snap", .type = attacher::kSnapshot, .frontend = "any"});
  ASSERT_TRUE(world.run_to_rest());
  ASSERT_TRUE(is_satisfied(world.book, "snap"));
  add_ticket(world.book, {.id = "pod", .node = "n2"});
  ASSERT_TRUE(world.run_to_rest());
  EXPECT_TRUE(is_satisfied(world.book, "pod"));
  EXPECT_FALSE(is_satisfied(world.book, "snap"));
  remove_ticket(world, "pod");
  ASSERT_TRUE(world.run_to_rest());
  EXPECT_TRUE(is_satisfied(world.book, "snap"));
  remove_ticket(world, "snap");
  ASSERT_TRUE(world.run_to_rest());
  EXPECT_EQ(world.book.volume.status.state, VolumeState::detached);
  EXPECT_TRUE(world.violations.empty());
}

TEST(Stories, EqualTicketsAllGetTheirTurnByArrival) {
  World world(make_book());
  world.book.settings = Settings::from_values({{"attachment-tie-break", "arrival"}});
  for (int i = 0; i < 5; ++i)
    add_ticket(world.book, {.id = "pod-" + std::string(5 - static_cast<std::size_t>(i), 'x'),
                            .node = "n" + std::to_string(1 + i % 3),
                            .arrival_seconds = i - 10});
  std::vector<std::string> served;
  while (!world.book.attachment.spec.attachment_tickets.empty()) {
    ASSERT_TRUE(world.run_to_rest());
    std::vector<std::string> now;
    for (const auto& [id, status] : world.book.attachment.status.attachment_ticket_statuses)
      if (status.satisfied) now.push_back(id);
    ASSERT_FALSE(now.empty());
    for (const std::string& id : now) remove_ticket(world, id);
    served.insert(served.end(), now.begin(), now.end());
  }
  EXPECT_EQ(served.size(), 5U) << "L2";
  EXPECT_EQ(served.front(), "pod-xx") << "shares n1 with the oldest";
}

}  // namespace
}  // namespace moor::attach
