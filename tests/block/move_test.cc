// Moves with real processes: a source engine and its standby over TCP, three replicas, NBD clients at both.
// Whoever is killed, stopped or rolled back, every acknowledged write is there and every read was right
// (load.h). MOOR_SEED repeats the choices of the random rounds, MOOR_MOVE_ROUNDS says how many.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <random>

#include "base/json.h"
#include "cluster.h"
#include "load.h"

namespace moor::block::e2e {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kSize = 8u << 20;

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

auto for_a_while(int milliseconds) {
  return [until = Clock::now() + std::chrono::milliseconds(milliseconds)] { return Clock::now() >= until; };
}

bool eventually(const std::function<bool()>& holds, int seconds = 30) {
  const auto until = Clock::now() + std::chrono::seconds(seconds);
  while (!holds()) {
    if (Clock::now() > until) return false;
    ::poll(nullptr, 0, 10);
  }
  return true;
}

class MoveTest : public ::testing::Test {
 protected:
  static constexpr LoadOptions kGuest{4, 32, 0, 64u << 10, false, false};
  static constexpr LoadOptions kBreaking{4, 32, 0, 64u << 10, false, true};

  void begin() {
    ASSERT_NO_FATAL_FAILURE(cluster_.create("secret"));
    ASSERT_NO_FATAL_FAILURE(cluster_.start_replicas());
    source_ = cluster_.engine(++epoch_, {0, 1, 2}, options(here_, {}));
    ASSERT_FALSE(source_->ready().empty());
    ASSERT_EQ(ctl(here_, "hold on").code, 0);
  }
  static Cluster::EngineOptions options(const std::string& where, std::vector<std::string> more) {
    Cluster::EngineOptions result;
    result.where = where;
    more.insert(more.end(), {"--peer-listen", "tcp:127.0.0.1:0"});
    result.more = std::move(more);
    return result;
  }
  // Returns once it takes clients.
  void start_standby() {
    standby_ = cluster_.engine(++epoch_, {0, 1, 2},
                               options(there_, {"--standby", "--source", text_of(here_, "peerAddress")}));
    ASSERT_FALSE(standby_->ready().empty());
    ASSERT_EQ(ctl(there_, "hold on").code, 0);
  }
  // The destination is the source of the next move.
  void moved() {
    std::swap(here_, there_);
    source_ = std::move(standby_);
  }
  Output ctl(const std::string& where, const std::string& words) const {
    return run(cluster_.control(where) + words, 30);
  }
  Json status(const std::string& where) const {
    auto parsed = parse_json(ctl(where, "status").text);
    return parsed.ok() ? *std::move(parsed) : Json::object();
  }
  std::string text_of(const std::string& where, const std::string& key) const {
    const Json json = status(where);
    return std::string(json.get_string(key).value_or(""));
  }
  bool reaches(const std::string& where, const std::string& state) const {
    return eventually([&] { return text_of(where, "state") == state; });
  }
  void take_back() {
    const Output taken = ctl(here_, fmt::format("epoch take {}", ++epoch_));
    ASSERT_EQ(taken.code, 0) << taken.text;
  }
  // Everything through the engine at `where`, held against the model.
  void expect_all(const std::string& where) {
    std::string failure;
    const std::vector<Tag> found = Load::read_all(cluster_.uri(where), kSize, failure);
    ASSERT_EQ(failure, "");
    ASSERT_EQ(model_.adopt(found, false), "");
  }
  void end(Server& server, int code) {
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), code);
  }
  static void kill(Server& server) {
    server.signal(SIGKILL);
    server.wait();
  }
  void finish() {
    end(*source_, 0);
    cluster_.expect_equal_replicas({0, 1, 2}, epoch_ + 10);
    cluster_.stop_replicas();
  }

  Cluster cluster_{"8Mi"};
  VolumeModel model_{kSize};
  std::unique_ptr<Server> source_;
  std::unique_ptr<Server> standby_;
  std::string here_ = "a";
  std::string there_ = "b";
  int epoch_ = 0;
  Tag next_tag_ = 1;
};

}  // namespace

// As QEMU does it: the destination opens its connections and reads before the source has stopped.
TEST_F(MoveTest, AClientOpensTheDestinationEarlyAndItsFirstWriteSwitchesOver) {
  ASSERT_NO_FATAL_FAILURE(begin());
  Load before(model_, 1, kGuest);
  ASSERT_TRUE(before.connect(cluster_.uri(here_))) << before.failure();
  before.run(for_a_while(200));
  ASSERT_NO_FATAL_FAILURE(start_standby());
  EXPECT_EQ(text_of(there_, "state"), "standby");
  Load after(model_, 2, kGuest);
  ASSERT_TRUE(after.connect(cluster_.uri(there_))) << after.failure();
  before.run(for_a_while(200));  // nothing was fenced by the connections
  ASSERT_EQ(before.failure(), "");
  EXPECT_EQ(status(here_).get_uint64("connections"), 4u) << "the standby is no client";
  ASSERT_TRUE(before.drain());
  ASSERT_NO_FATAL_FAILURE(expect_all(there_));
  EXPECT_EQ(text_of(there_, "state"), "standby") << "reads do not activate";
  EXPECT_EQ(text_of(here_, "state"), "serving");

  after.next_tag = before.next_tag;
  after.run(for_a_while(300));
  ASSERT_EQ(after.failure(), "");
  EXPECT_EQ(text_of(there_, "state"), "serving");
  EXPECT_TRUE(reaches(here_, "superseded")) << "it keeps its clients";
  before.disconnect();
  ASSERT_TRUE(after.drain());
  ASSERT_NO_FATAL_FAILURE(expect_all(there_));
  ASSERT_EQ(ctl(here_, "hold off").code, 0);
  EXPECT_EQ(source_->wait(), 3);
  after.disconnect();
  moved();
  finish();
}

TEST_F(MoveTest, ARollbackWithoutAWriteGoesOnWithTheOldSessions) {
  ASSERT_NO_FATAL_FAILURE(begin());
  Load guest(model_, 3, kGuest);
  ASSERT_TRUE(guest.connect(cluster_.uri(here_))) << guest.failure();
  guest.run(for_a_while(100));
  // Paused before the switchover, as a client that tells us is: nothing is in flight.
  ASSERT_TRUE(guest.drain());
  ASSERT_NO_FATAL_FAILURE(start_standby());
  ASSERT_EQ(ctl(there_, "activate").code, 0);
  ASSERT_TRUE(reaches(there_, "serving"));
  ASSERT_TRUE(reaches(here_, "superseded"));
  kill(*standby_);
  ASSERT_NO_FATAL_FAILURE(take_back());
  guest.run(for_a_while(300));
  EXPECT_EQ(guest.failure(), "") << "not one connection broke, not one request failed";
  EXPECT_GT(guest.requests(), 0u);
  EXPECT_EQ(text_of(here_, "state"), "serving");
  EXPECT_EQ(status(here_).get_uint64("epoch"), static_cast<std::uint64_t>(epoch_));
  ASSERT_TRUE(guest.drain());
  ASSERT_NO_FATAL_FAILURE(expect_all(here_));
  guest.disconnect();
  finish();
}

TEST_F(MoveTest, ARollbackAfterAWriteEndsTheOldSessionsAndKeepsTheWrite) {
  ASSERT_NO_FATAL_FAILURE(begin());
  Load old(model_, 4, kBreaking);
  ASSERT_TRUE(old.connect(cluster_.uri(here_))) << old.failure();
  old.run(for_a_while(100));
  ASSERT_NO_FATAL_FAILURE(start_standby());
  const std::string export_id = text_of(here_, "export_id");
  Load guest(model_, 5, kBreaking);
  guest.next_tag = 1u << 20;
  ASSERT_TRUE(guest.connect(cluster_.uri(there_))) << guest.failure();
  guest.run(for_a_while(100));
  ASSERT_TRUE(guest.drain()) << guest.failure();  // acknowledged at the destination
  guest.disconnect();
  old.run(for_a_while(20));  // held
  ASSERT_NO_FATAL_FAILURE(take_back());
  old.run(for_a_while(10'000));  // ends as soon as its connections have
  ASSERT_TRUE(reaches(here_, "serving"));
  EXPECT_NE(text_of(here_, "export_id"), export_id);
  EXPECT_EQ(status(here_).get_uint64("connections"), 0u);
  ASSERT_NO_FATAL_FAILURE(expect_all(here_));
  EXPECT_TRUE(reaches(there_, "superseded"));
  ASSERT_EQ(ctl(there_, "hold off").code, 0);
  EXPECT_EQ(standby_->wait(), 3);
  Load again(model_, 6, kGuest);
  again.next_tag = 1u << 21;
  ASSERT_TRUE(again.connect(cluster_.uri(here_))) << again.failure();
  again.run(for_a_while(100));
  EXPECT_EQ(again.failure(), "");
  ASSERT_TRUE(again.drain());
  again.disconnect();
  finish();
}

// The source is stopped with requests in every socket buffer, the volume moves, the source wakes up late.
TEST_F(MoveTest, NothingOfAStoppedSourceIsAppliedAfterTheMove) {
  ASSERT_NO_FATAL_FAILURE(begin());
  ASSERT_NO_FATAL_FAILURE(start_standby());
  Load old(model_, 7, kBreaking);
  ASSERT_TRUE(old.connect(cluster_.uri(here_))) << old.failure();
  old.run(for_a_while(150));
  for (int i = 0; i < Cluster::kReplicas; ++i) cluster_.signal_replica(i, SIGSTOP);
  old.run(for_a_while(100));  // piles up on the way to the replicas
  source_->signal(SIGSTOP);
  old.run(for_a_while(100));  // and on the way to the source
  for (int i = 0; i < Cluster::kReplicas; ++i) cluster_.signal_replica(i, SIGCONT);
  ASSERT_EQ(ctl(there_, "activate").code, 0);
  ASSERT_TRUE(reaches(there_, "serving"));
  std::string failure;
  const std::vector<Tag> taken_over = Load::read_all(cluster_.uri(there_), kSize, failure);
  ASSERT_EQ(failure, "");
  Load guest(model_, 8, kGuest);
  guest.next_tag = 1u << 20;
  ASSERT_TRUE(guest.connect(cluster_.uri(there_))) << guest.failure();
  guest.run(for_a_while(200));
  source_->signal(SIGCONT);
  old.run(for_a_while(100));
  ASSERT_TRUE(reaches(here_, "superseded"));
  guest.run(for_a_while(100));
  EXPECT_EQ(guest.failure(), "");
  ASSERT_TRUE(guest.drain());
  // The guest kept away from what the old client had in flight: there nothing may have changed since.
  const std::vector<Tag> at_the_end = Load::read_all(cluster_.uri(there_), kSize, failure);
  ASSERT_EQ(failure, "");
  for (std::uint64_t s = 0; s < at_the_end.size(); ++s) {
    if (at_the_end[s] >= (1u << 20)) continue;
    ASSERT_TRUE(at_the_end[s] == taken_over[s] || at_the_end[s] == 0)
        << "sector " << s << " was written by the source after the move";
  }
  ASSERT_EQ(ctl(here_, "shutdown").code, 0);
  old.run(for_a_while(5'000));
  EXPECT_EQ(source_->wait(), 0);
  ASSERT_NO_FATAL_FAILURE(expect_all(there_));
  guest.disconnect();
  moved();
  finish();
}

// A standby whose source is gone lets reads wait until it is activated.
TEST_F(MoveTest, TheSourceDiesUnderLoadAndTheDestinationTakesOver) {
  ASSERT_NO_FATAL_FAILURE(begin());
  Load old(model_, 9, kBreaking);
  ASSERT_TRUE(old.connect(cluster_.uri(here_))) << old.failure();
  ASSERT_NO_FATAL_FAILURE(start_standby());
  old.run(for_a_while(150));
  kill(*source_);
  old.run(for_a_while(1'000));
  old.disconnect();
  EXPECT_EQ(text_of(there_, "state"), "standby") << "never by itself";
  EXPECT_TRUE(eventually([&] { return status(there_).get_bool("ready") == false; }));
  ASSERT_EQ(ctl(there_, "activate").code, 0);
  ASSERT_TRUE(reaches(there_, "serving"));
  ASSERT_NO_FATAL_FAILURE(expect_all(there_));
  moved();
  finish();
}

TEST_F(MoveTest, OnlyTheVolumesOwnStandbyMayReadThroughTheSource) {
  ASSERT_NO_FATAL_FAILURE(begin());
  const std::string address = text_of(here_, "peerAddress");
  ASSERT_TRUE(address.starts_with("tcp:127.0.0.1:"));
  const std::string uri = "nbd://" + address.substr(4);
  EXPECT_NE(run("nbdinfo " + uri).code, 0) << "no client";
  EXPECT_NE(run("nbdinfo " + uri + "/v").code, 0);
  Cluster::EngineOptions wrong = options(there_, {"--standby", "--source", address});
  wrong.token = cluster_.files() / "wrong";
  run("echo other > " + wrong.token);
  standby_ = cluster_.begin_engine(++epoch_, {0, 1, 2}, wrong);
  EXPECT_TRUE(eventually([&] {
    return ctl(there_, "status").text.find("the token is not this volume's") != std::string::npos;
  })) << ctl(there_, "status").text;
  EXPECT_EQ(text_of(there_, "state"), "standby");
  ASSERT_EQ(ctl(there_, "refuse enough").code, 0);
  EXPECT_EQ(standby_->wait(), 5);
  finish();
}

// One life of a volume with many moves, each with a fault of its own at a moment of its own.
TEST_F(MoveTest, RandomMovesWithAnEngineKilledAtARandomPhase) {
  const std::uint64_t seed = number_from("MOOR_SEED", std::random_device()());
  const int rounds = static_cast<int>(number_from("MOOR_MOVE_ROUNDS", 12));
  fmt::print("MOOR_SEED={}\n", seed);
  SCOPED_TRACE(fmt::format("MOOR_SEED={}", seed));
  std::mt19937_64 random(seed);
  const auto some_ms = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  ASSERT_NO_FATAL_FAILURE(begin());
  int moves = 0;
  int rollbacks = 0;
  for (int round = 0; round < rounds; ++round) {
    const int scenario = round < 4 ? round : static_cast<int>(random() % 4);
    SCOPED_TRACE(fmt::format("round {}, scenario {}", round, scenario));
    Load old(model_, random(), kBreaking);
    old.next_tag = next_tag_;
    ASSERT_TRUE(old.connect(cluster_.uri(here_))) << old.failure();
    old.run(for_a_while(some_ms(60)));
    ASSERT_NO_FATAL_FAILURE(start_standby());
    old.run(for_a_while(some_ms(60)));
    ASSERT_EQ(old.failure(), "");
    next_tag_ = old.next_tag + (1u << 16);
    if (scenario == 0) {  // the destination is killed before it is activated
      kill(*standby_);
      old.run(for_a_while(some_ms(60)));
      ASSERT_TRUE(old.drain()) << old.failure();
      ++rollbacks;
    } else if (scenario == 1) {  // the source is killed before the activation
      kill(*source_);
      old.run(for_a_while(2'000));
      old.disconnect();
      ASSERT_EQ(ctl(there_, "activate").code, 0);
      ASSERT_TRUE(reaches(there_, "serving"));
      moved();
      ++moves;
    } else {  // switched over under the source's nose; then either of them is killed
      Load guest(model_, random(), kBreaking);
      guest.next_tag = next_tag_;
      ASSERT_TRUE(guest.connect(cluster_.uri(there_))) << guest.failure();
      if (scenario == 2) {
        ASSERT_EQ(ctl(there_, "activate").code, 0);
      }
      guest.run(for_a_while(some_ms(40)));
      next_tag_ = guest.next_tag + (1u << 16);
      if (random() % 2 == 0) {
        kill(*standby_);
        guest.run(for_a_while(2'000));
        guest.disconnect();
        ASSERT_NO_FATAL_FAILURE(take_back());
        old.run(for_a_while(200));
        old.disconnect();
        ASSERT_TRUE(reaches(here_, "serving"));
        ++rollbacks;
      } else {
        kill(*source_);
        old.run(for_a_while(2'000));
        old.disconnect();
        guest.run(for_a_while(some_ms(60)));
        ASSERT_EQ(guest.failure(), "");
        if (text_of(there_, "state") == "standby") {
          ASSERT_EQ(ctl(there_, "activate").code, 0);
        }
        ASSERT_TRUE(guest.drain()) << guest.failure();
        ASSERT_TRUE(reaches(there_, "serving"));
        moved();
        ++moves;
      }
    }
    old.disconnect();
    ASSERT_EQ(old.failure(), "");
    ASSERT_NO_FATAL_FAILURE(expect_all(here_));
  }
  fmt::print("{} moves, {} rollbacks\n", moves, rollbacks);
  finish();
}

}  // namespace moor::block::e2e
