// Three members, and again and again the leader is killed under writers and watchers: nothing acknowledged is
// lost, no transaction is half applied, no watch has a gap or a repeat.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "base/completion.h"
#include "base/task_group.h"
#include "store/etcd/etcd_store.h"
#include "store/etcd/under_test.h"
#include "store/etcd/wire.h"

namespace moor::store::etcd {
namespace {
using namespace std::chrono_literals;

constexpr int kWriters = 6;
constexpr int kRounds = 3;

// One writer counts up in two keys at once.
struct Writer {
  std::string a;
  std::string b;
  int acknowledged = 0;
  int unknown = 0;
  int refused = 0;
};

struct World {
  Store* store;
  Executor* executor;
  bool stop = false;
  std::vector<Writer> writers;
  std::vector<Event> events;
};

int number(const std::optional<Entry>& entry) {
  return entry ? std::stoi(*entry->value) : 0;
}

// Both keys in one consistent read.
struct Pair {
  std::optional<Entry> a;
  std::optional<Entry> b;
};
Task<Result<Pair>> read_pair(Store* store, std::string a) {
  ListRequest request;
  request.prefix = a.substr(0, a.size() - 1);
  CO_TRY(const ListPage page, co_await store->list(request));
  Pair pair;
  for (const Entry& entry : page.entries) (entry.key == a ? pair.a : pair.b) = entry;
  co_return pair;
}

Task<Result<void>> count_up(World* world, std::size_t index) {
  while (!world->stop) {
    auto pair = co_await read_pair(world->store, world->writers[index].a);
    if (!pair) continue;  // the cluster has no leader for a moment; the read itself has waited
    Writer& writer = world->writers[index];
    const int now = number(pair->a);
    if (now != number(pair->b))
      co_return make_error(Errc::corrupt, fmt::format("half a transaction: {} and {}", now, number(pair->b)));
    if (now < writer.acknowledged)
      co_return make_error(Errc::corrupt, fmt::format("lost: {} after {}", now, writer.acknowledged));
    Transaction transaction;
    transaction.compares = {pair->a ? Compare::at(writer.a, pair->a->revision) : Compare::absent(writer.a)};
    transaction.writes = {Write::put(writer.a, std::to_string(now + 1)),
                          Write::put(writer.b, std::to_string(now + 1))};
    const auto committed = co_await world->store->commit(std::move(transaction));
    Writer& self = world->writers[index];
    if (committed)
      self.acknowledged = now + 1;
    else if (committed.is(Errc::timed_out))
      ++self.unknown;
    else if (committed.is(Errc::unavailable) || committed.is(Errc::conflict) ||
             committed.is(Errc::already_exists))
      ++self.refused;
    else
      co_return committed.error();
  }
  co_return Result<void>();
}

Task<Result<void>> collect(World* world, std::unique_ptr<WatchStream> stream, Revision* until) {
  while (*until == 0 || world->events.empty() || world->events.back().entry.revision < *until) {
    CO_TRY(WatchBatch batch, co_await stream->next());
    if (batch.events.size() % 2 != 0) co_return make_error(Errc::corrupt, "half a transaction in a batch");
    world->events.insert(world->events.end(), batch.events.begin(), batch.events.end());
  }
  co_return Result<void>();
}

// A mark, once and for sure: its first tries may meet a member that is just coming back, and an
// answer that is lost says nothing, so the store is asked whether it is there. 0: not within the bound.
Task<Revision> write_mark(Store* store, std::string name) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    Transaction end;
    end.compares = {Compare::absent(name + "/a")};
    end.writes = {Write::put(name + "/a", "1"), Write::put(name + "/b", "1")};
    const auto committed = co_await store->commit(std::move(end));
    if (committed) co_return committed->last();
    const auto read = co_await store->get(name + "/b");
    if (read && read->entry) co_return read->entry->revision;
  }
  co_return Revision{0};
}

struct Cluster : WithEtcd {
  // The index of the leader among the endpoints.
  std::size_t leader() {
    for (int attempt = 0; attempt < 100; ++attempt) {
      for (std::size_t i = 0; i < server_->size(); ++i) {
        if (!server_->is_running(i)) continue;
        EtcdOptions one = options();
        one.endpoints = {server_->endpoints()[i]};
        const auto link = Link::make(loop_, one);
        const Completion<CallResult<MemberStatus>> done(loop_);
        (*link)->check("x", 1s, [done](CallResult<MemberStatus> member) { done.set(std::move(member)); });
        const auto member = block_on(loop_, taken(done));
        if (member && member->leader != 0 && member->leader == member->member) return i;
      }
    }
    ADD_FAILURE() << "the cluster has no leader";
    return 0;
  }
  static Task<CallResult<MemberStatus>> taken(Completion<CallResult<MemberStatus>> done) {
    co_return co_await done;
  }
};

TEST_F(Cluster, SurvivesTheDeathOfItsLeaderUnderWriters) {
  ServerOptions servers;
  servers.members = 3;
  servers.flags = {"--heartbeat-interval=50", "--election-timeout=500"};
  start(servers);
  EtcdOptions chosen = options();
  chosen.request_timeout = 2s;
  const auto store = open(chosen);
  ASSERT_NE(store, nullptr);
  World world{store.get(), &loop_, false, {}, {}};
  for (int i = 0; i < kWriters; ++i)
    world.writers.push_back({fmt::format("w/{}/a", i), fmt::format("w/{}/b", i), 0, 0, 0});
  auto stream = wait(store->watch("w/", wait(store->list({}))->revision));
  ASSERT_TRUE(stream.ok());
  Revision until = 0;
  TaskGroup group(loop_);
  group.spawn(collect(&world, std::move(*stream), &until));
  TaskGroup writers(loop_);
  for (std::size_t i = 0; i < world.writers.size(); ++i) writers.spawn(count_up(&world, i));
  const auto total = [&] {
    int sum = 0;
    for (const Writer& writer : world.writers) sum += writer.acknowledged;
    return sum;
  };
  for (int round = 0; round < kRounds; ++round) {
    const int before = total();
    ASSERT_TRUE(eventually([&] { return total() >= before + 60; }));
    const std::size_t victim = leader();
    server_->kill(victim);
    const int killed_at = total();
    EXPECT_TRUE(eventually([&] { return total() >= killed_at + 60; })) << "no progress without the leader";
    ASSERT_TRUE(server_->restart(victim).ok());
  }
  world.stop = true;
  const auto written = wait(writers.join());
  EXPECT_TRUE(written.ok()) << written.error().message;
  until = wait(write_mark(store.get(), "w/end"));
  ASSERT_NE(until, 0u) << "the last write was not taken";
  // The watch may have been quicker than the answer; then the collector waits for one event more.
  ASSERT_NE(wait(write_mark(store.get(), "w/after")), 0u);
  const auto collected = wait(group.join());
  EXPECT_TRUE(collected.ok()) << collected.error().message;
  std::map<std::string, int> seen;
  Revision previous = 0;
  for (const Event& event : world.events) {
    EXPECT_GT(event.entry.revision, previous);
    previous = event.entry.revision;
    EXPECT_EQ(std::stoi(*event.entry.value), ++seen[event.entry.key]) << event.entry.key;
  }
  int unknown = 0;
  int refused = 0;
  for (const Writer& writer : world.writers) {
    const auto pair = wait(read_pair(store.get(), writer.a));
    ASSERT_TRUE(pair.ok());
    EXPECT_GE(number(pair->a), writer.acknowledged);
    EXPECT_EQ(number(pair->a), number(pair->b));
    EXPECT_EQ(seen[writer.a], number(pair->a));
    EXPECT_EQ(seen[writer.b], number(pair->b));
    unknown += writer.unknown;
    refused += writer.refused;
  }
  RecordProperty("acknowledged", total());
  RecordProperty("unknown", unknown);
  RecordProperty("refused", refused);
  std::printf("acknowledged %d, unknown %d, refused %d\n", total(), unknown, refused);
}

}  // namespace
}  // namespace moor::store::etcd
