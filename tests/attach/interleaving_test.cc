// The race that tickets are to end: the system brings a volume back to its node after a fault while a CSI
// client attaches, detaches and moves it. A thousand random interleavings of reads, writes, crashes and
// requests; every write is checked, and once the requests end the volume is where the tickets want it.
#include <gtest/gtest.h>

#include "base/random.h"
#include "world.h"

namespace moor::attach {
namespace {

class Story {
 public:
  explicit Story(std::uint64_t seed) : random_(seed), world_(make_book()) {}

  World& play(int acts) {
    for (int act = 0; act < acts; ++act) one_act();
    // The faults stop; everybody gets turns.
    world_.members_usable = true;
    for (auto& [name, node] : world_.book.nodes) node = NodeFacts{};
    world_.touch();
    rested_ = world_.run_to_rest(80);
    return world_;
  }
  bool rested() const { return rested_; }

 private:
  void one_act() {
    switch (random_.below(12)) {
      case 0:
      case 1: attachment_reading_ = world_.read(); break;
      case 2:
      case 3:
        if (attachment_reading_) world_.write_attachment(*attachment_reading_);
        break;
      case 4:
      case 5: volume_reading_ = world_.read(); break;
      case 6:
      case 7:
        if (volume_reading_) world_.write_volume(*volume_reading_);
        break;
      case 8: world_.agent_turn(); break;
      case 9: fault(); break;
      default: request();
    }
    world_.book.now += std::chrono::milliseconds(random_.below(3000));
  }

  void fault() {
    switch (random_.below(4)) {
      case 0: world_.crash_engine(); break;
      case 1:
        world_.members_usable = !world_.members_usable;
        world_.touch();
        break;
      case 2: {
        NodeFacts& node = world_.book.nodes[any_node()];
        node.agent_reachable = !node.agent_reachable;
        world_.touch();
        break;
      }
      default: {
        NodeFacts& node = world_.book.nodes[any_node()];
        node.ready = !node.ready;
        world_.touch();
      }
    }
  }

  // What CSI clients, a person and the snapshot controller do to the tickets.
  void request() {
    auto& tickets = world_.book.attachment.spec.attachment_tickets;
    const std::string node = any_node();
    const model::longhorn::VolumeAttachmentSpec before = world_.book.attachment.spec;
    switch (random_.below(6)) {
      case 0:
      case 1: add_ticket(world_.book, {.id = "csi-" + node, .node = node}); break;
      case 2: tickets.erase("csi-" + node); break;
      case 3:  // a requester that changes its mind
        if (const auto found = tickets.find("page"); found != tickets.end())
          found->second.node_id = node;
        else
          add_ticket(world_.book, {.id = "page", .type = attacher::kApi, .node = node});
        break;
      case 4: tickets.erase("page"); break;
      default:
        if (tickets.erase("snap") == 0)
          add_ticket(world_.book,
                     {.id = "snap", .type = attacher::kSnapshot, .node = node, .frontend = "any"});
    }
    number_tickets(before, world_.book.attachment.spec, world_.book.now, world_.book.attachment.status);
    world_.touch();
  }

  std::string any_node() { return "n" + std::to_string(random_.between(1, 3)); }

  SeededRandom random_;
  World world_;
  std::optional<Reading> attachment_reading_;
  std::optional<Reading> volume_reading_;
  bool rested_ = false;
};

TEST(Interleavings, OfReattachAndCsiAttachEndWhereTheTicketsWant) {
  int attached = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    Story story(seed);
    const World& world = story.play(200);
    ASSERT_TRUE(story.rested()) << "seed " << seed << "\n" << world.text();
    const auto faults = naive::faults_at_rest(world);
    ASSERT_TRUE(faults.empty()) << "seed " << seed << ": " << faults.front();
    ASSERT_EQ(world.book.volume.spec.node_id, naive::final_node(world.book)) << "seed " << seed;
    if (!world.book.attachment.spec.attachment_tickets.empty()) {
      ASSERT_NE(world.book.volume.spec.node_id, "") << "L1, seed " << seed << "\n" << world.text();
      ++attached;
    }
  }
  EXPECT_GT(attached, 500) << "the stories should mostly end with somebody attached";
}

}  // namespace
}  // namespace moor::attach
