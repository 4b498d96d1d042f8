#include "block/core/bridge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <random>

namespace moor::block::bridge {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kSize = 1u << 20;

class BridgeTest : public ::testing::Test {
 protected:
  static nbd::RemoteExport remote(std::string id = "x1", std::uint64_t size = kSize) {
    nbd::RemoteExport remote;
    remote.size = size;
    remote.flags = nbd::kHasFlags | nbd::kSendFlush | nbd::kSendTrim | nbd::kSendWriteZeroes;
    remote.export_id = std::move(id);
    return remote;
  }
  void step(Event event) {
    Actions actions;
    bridge_.step(std::move(event), actions);
    for (Action& action : actions) {
      if (auto* send = std::get_if<Send>(&action)) sent_.push_back(send->request);
      if (auto* answer = std::get_if<Answer>(&action)) answers_[answer->id] = answer->error;
      if (auto* resized = std::get_if<Resized>(&action)) resized_ = resized->size;
      if (std::holds_alternative<DropConnection>(action)) dropped_ = true;
      if (std::holds_alternative<Ended>(action)) ended_ = true;
    }
  }
  void up(std::string id = "x1", std::uint64_t size = kSize) {
    sent_.clear();
    step(Up{++connection_, remote(std::move(id), size)});
  }
  void down() { step(Down{connection_}); }
  void submit(std::uint64_t id, Op op, std::uint64_t offset = 0, std::uint64_t length = 4096) {
    step(Submit{{.id = id, .op = op, .no_hole = false, .offset = offset, .length = length, .payload = {}}});
  }
  void reply(std::size_t sent, std::uint32_t error = 0) {
    nbd::ClientReply reply;
    reply.id = sent_.at(sent).id;
    reply.error = error;
    step(Replied{connection_, std::move(reply)});
  }
  std::vector<std::uint64_t> sent_offsets() const {
    std::vector<std::uint64_t> offsets;
    for (const auto& request : sent_) offsets.push_back(request.offset);
    return offsets;
  }

  Bridge bridge_;
  std::uint64_t connection_ = 0;
  std::vector<nbd::ClientRequest> sent_;
  std::map<std::uint64_t, int> answers_;
  std::uint64_t resized_ = 0;
  bool dropped_ = false;
  bool ended_ = false;
};

TEST_F(BridgeTest, SendsAgainWhatWasNotAnsweredInTheOrderOfArrival) {
  up();
  submit(1, Op::write, 0);
  submit(2, Op::write, 8192);
  submit(3, Op::flush);
  submit(4, Op::read, 16384);
  reply(1);
  down();
  EXPECT_THAT(answers_, ElementsAre(std::pair(2, 0)));
  submit(5, Op::write, 65536);  // came while there was nobody to send it to
  up();
  EXPECT_THAT(sent_offsets(), ElementsAre(0, 0, 16384, 65536));
  EXPECT_EQ(sent_[1].command, static_cast<std::uint16_t>(nbd::Command::flush));
  EXPECT_EQ(bridge_.statistics().resent, 3u);
  for (std::size_t i = 0; i < 4; ++i) reply(i);
  EXPECT_EQ(answers_.size(), 5u);
  EXPECT_EQ(bridge_.open(), 0u);
}

TEST_F(BridgeTest, OverlappingWritesGoOneAfterTheOtherAlsoWhenSentAgain) {
  up();
  submit(1, Op::write, 0, 8192);
  submit(2, Op::write, 4096, 8192);
  submit(3, Op::write, 8192, 4096);  // overlaps only 2, which has not gone out
  submit(4, Op::write, 65536);
  EXPECT_THAT(sent_offsets(), ElementsAre(0, 65536));
  down();
  up();
  EXPECT_THAT(sent_offsets(), ElementsAre(0, 65536));
  reply(0);
  EXPECT_THAT(sent_offsets(), ElementsAre(0, 65536, 4096));
  reply(2);
  EXPECT_THAT(sent_offsets(), ElementsAre(0, 65536, 4096, 8192));
  EXPECT_EQ(bridge_.statistics().waited, 2u);
}

TEST_F(BridgeTest, AReadWaitsForTheWriteItOverlapsAndNotTheOtherWayRound) {
  up();
  submit(1, Op::write, 0);
  submit(2, Op::read, 0);
  EXPECT_EQ(sent_.size(), 1u);
  reply(0);
  EXPECT_EQ(sent_.size(), 2u);
  submit(3, Op::write, 0);
  EXPECT_EQ(sent_.size(), 3u);
}

TEST_F(BridgeTest, AFlushWaitsForNothingAndIsAnsweredByTheEngineAlone) {
  up();
  submit(1, Op::write, 0);
  submit(2, Op::write, 0);
  submit(3, Op::flush);
  ASSERT_EQ(sent_.size(), 2u);
  reply(1);
  EXPECT_THAT(answers_, ElementsAre(std::pair(3, 0)));
  submit(4, Op::flush);
  down();
  EXPECT_FALSE(answers_.contains(4)) << "a lost connection is no flush";
  up();
  reply(1, nbd::kErrIo);
  EXPECT_EQ(answers_.at(4), EIO);
}

TEST_F(BridgeTest, AnotherExportIdFailsEverythingForGood) {
  up("x1");
  submit(1, Op::write, 0);
  submit(2, Op::write, 0);
  down();
  up("x2");
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_TRUE(ended_);
  EXPECT_THAT(answers_, ElementsAre(std::pair(1, EIO), std::pair(2, EIO)));
  submit(3, Op::read, 0);
  EXPECT_EQ(answers_.at(3), EIO);
  down();
  up("x1");
  submit(4, Op::flush);
  EXPECT_EQ(answers_.at(4), EIO) << "the first id coming back proves nothing about the time between";
}

TEST_F(BridgeTest, AServerWithoutAnIdOrWithLessThanBeforeIsNotTrustedAgain) {
  for (const auto& [id, size] : {std::pair<std::string, std::uint64_t>{"", kSize}, {"x1", kSize - 4096}}) {
    bridge_ = Bridge();
    ended_ = false;
    up(id.empty() ? "" : "x1");
    submit(1, Op::write, 0);
    down();
    up(id, size);
    EXPECT_TRUE(ended_);
  }
}

TEST_F(BridgeTest, GrowsWithTheVolume) {
  up();
  submit(1, Op::write, kSize);
  EXPECT_EQ(answers_.at(1), EINVAL);
  down();
  up("x1", 2 * kSize);
  EXPECT_EQ(resized_, 2 * kSize);
  submit(2, Op::write, kSize);
  EXPECT_EQ(sent_.size(), 1u);
}

TEST_F(BridgeTest, GrowsWhenALookBesideShowsTheSameVolumeLarger) {
  up();
  step(Looked{remote("x2", 2 * kSize)});
  step(Looked{remote("x1", kSize / 2)});
  EXPECT_EQ(resized_, 0u);
  step(Looked{remote("x1", 2 * kSize)});
  EXPECT_EQ(resized_, 2 * kSize);
}

TEST_F(BridgeTest, AnEngineThatEndsHasNotDoneTheRequest) {
  up();
  submit(1, Op::write, 0);
  reply(0, nbd::kErrShutdown);
  EXPECT_TRUE(dropped_);
  EXPECT_THAT(answers_, IsEmpty());
  down();
  up();
  reply(0);
  EXPECT_EQ(answers_.at(1), 0);
}

TEST_F(BridgeTest, ALongRangeGoesInPartsAndResumesWhereItWas) {
  const std::uint64_t size = 5 * kMaxRangeBytes / 2;
  up("x1", size);
  submit(1, Op::write_zeroes, 0, size);
  reply(0);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1].offset, kMaxRangeBytes);
  down();
  up("x1", size);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].offset, kMaxRangeBytes);
  reply(0);
  reply(1);
  EXPECT_EQ(sent_[1].length, kMaxRangeBytes / 2);
  EXPECT_EQ(answers_.at(1), 0);
}

TEST_F(BridgeTest, AReplyOfAnEarlierConnectionIsNotHeard) {
  up();
  submit(1, Op::write, 0);
  nbd::ClientReply late;
  late.id = sent_[0].id;
  down();
  step(Replied{connection_, late});
  up();
  step(Replied{connection_ - 1, late});
  EXPECT_THAT(answers_, IsEmpty());
}

TEST_F(BridgeTest, ForcedRemovalAnswersEverything) {
  submit(1, Op::read, 0);
  EXPECT_EQ(answers_.at(1), EAGAIN) << "before the first connection";
  up();
  submit(2, Op::write, 0);
  submit(3, Op::write, 0);
  down();
  step(Abort{"removed by force"});
  EXPECT_THAT(answers_, ElementsAre(std::pair(1, EAGAIN), std::pair(2, EIO), std::pair(3, EIO)));
}

// A world of one register per block: an engine that answers in any order, loses replies with its connection,
// and applies what it was sent, perhaps, before it goes. Each request takes effect between its submission and
// its answer, and a value once overwritten in front of a reader never returns.
TEST_F(BridgeTest, RandomLossesNeverTakeAValueBack) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Bridge bridge;
    Actions actions;
    std::vector<nbd::ClientRequest> wire;
    std::map<std::uint64_t, std::pair<Op, std::uint64_t>> open;  // id -> op, block
    std::vector<std::uint64_t> store(4, 0);                      // the id of the last write
    std::vector<std::uint64_t> seen(4, 0);                       // the newest write that an answer has shown
    std::map<std::uint64_t, std::uint64_t> read_values;
    std::uint64_t connection = 0;
    std::uint64_t last = 0;
    const auto act = [&](Event event) {
      actions.clear();
      bridge.step(std::move(event), actions);
      for (Action& action : actions) {
        if (auto* send = std::get_if<Send>(&action)) wire.push_back(send->request);
        const auto* answer = std::get_if<Answer>(&action);
        if (answer == nullptr) continue;
        const auto [op, block] = open.at(answer->id);
        ASSERT_EQ(answer->error, 0);
        std::uint64_t value = answer->id;
        if (op == Op::read) std::memcpy(&value, answer->data.data(), sizeof value);
        // Ids grow with submission, and overlapping changes go in that order.
        ASSERT_GE(value, op == Op::read ? read_values[answer->id] : seen[block]);
        seen[block] = std::max(seen[block], value);
        open.erase(answer->id);
      }
    };
    const auto apply = [&](const nbd::ClientRequest& request) {
      const auto block = request.offset / 4096;
      if (request.command == static_cast<std::uint16_t>(nbd::Command::write))
        std::memcpy(&store[block], request.payload.data(), sizeof(std::uint64_t));
    };
    BufferPool pool;
    act(Up{++connection, remote()});
    for (int i = 0; i < 300; ++i) {
      switch (random() % 8) {
        case 0:
          for (const auto& request : wire) {
            if (random() % 2 == 0) apply(request);
          }
          wire.clear();
          act(Down{connection});
          act(Up{++connection, remote()});
          break;
        case 1:
        case 2:
        case 3: {
          const std::uint64_t id = ++last;
          const std::uint64_t block = random() % 4;
          const Op op = random() % 2 == 0 ? Op::read : Op::write;
          open[id] = {op, block};
          if (op == Op::read) read_values[id] = seen[block];
          act(Submit{
              {.id = id,
               .op = op,
               .offset = block * 4096,
               .length = 4096,
               .payload = op == Op::write ? pool.copy_of(std::as_bytes(std::span(&id, 1))) : Slice()}});
          break;
        }
        default: {
          if (wire.empty()) break;
          const std::size_t which = random() % wire.size();
          const nbd::ClientRequest request = wire[which];
          wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(which));
          apply(request);
          nbd::ClientReply reply;
          reply.id = request.id;
          reply.data = pool.copy_of(std::as_bytes(std::span(&store[request.offset / 4096], 1)));
          act(Replied{connection, std::move(reply)});
        }
      }
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace moor::block::bridge
