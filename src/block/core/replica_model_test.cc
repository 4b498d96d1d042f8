// Random work against the naive model, with crashes at chosen and at random points.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "block/core/replica_model.h"
#include "block/core/replica_testing.h"

namespace moor::block {
namespace {

constexpr std::uint64_t kModelBytes = 9u << 20;  // more than one map sector, three dirty regions

// One replica under random work. Everything random comes from one seed.
class Workload {
 public:
  explicit Workload(std::uint64_t seed)
      : random_(seed), disk_(seed * 7 + 1), world_(disk_), model_(kModelBytes) {
    ReplicaCreate options;
    options.size = kModelBytes;
    check(SimReplica::create(disk_, options).ok(), "create");
    check(world_.start().ok(), "first start");
    reconnect();
  }

  SimDisk& disk() { return disk_; }
  std::string failure;

  // One operation to its end; false when the disk stopped in the middle.
  bool step() {
    const std::uint64_t dice = random_() % 100;
    if (dice < 45) return mutate(PeerOp::write);
    if (dice < 53) return mutate(PeerOp::trim);
    if (dice < 61) return mutate(PeerOp::write_zeroes);
    if (dice < 70) return flush();
    if (dice < 80) return read_some();
    if (dice < 87) return snapshot();
    if (dice < 91) return mark_removed();
    if (dice < 96) return purge();
    if (dice < 98) return revert();
    world_.pump_steps(random_() % 30);  // the background gets ahead
    return !disk_.stopped();
  }

  // Several mutations at once, which may overlap, in an order the replica must keep.
  bool burst() {
    std::vector<std::pair<std::uint64_t, std::pair<Extent, Tag>>> sent;
    const std::uint64_t count = 2 + random_() % 8;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Extent extent = some_extent();
      const bool zero = random_() % 5 == 0;
      const Tag tag = zero ? 0 : next_tag_++;
      model_.begin(extent, tag);
      PeerRequest request = SimReplica::request_of(zero ? PeerOp::trim : PeerOp::write, extent);
      const auto bytes = zero ? std::vector<std::byte>{} : fill(tag, extent);
      sent.push_back({world_.submit(peer_, request, bytes), {extent, tag}});
    }
    world_.pump_until([&] {
      return std::ranges::all_of(sent, [&](const auto& s) { return world_.replies.contains(s.first); });
    });
    bool all = true;
    for (const auto& [id, what] : sent) {
      const auto found = world_.replies.find(id);
      if (found == world_.replies.end()) {
        all = false;
        continue;
      }
      check(found->second.reply.error == 0, "burst: " + found->second.reply.message);
    }
    // Overlaps: the last one sent wins. If one is unanswered nothing later in the same place is judged.
    if (all) {
      for (const auto& [id, what] : sent) model_.done(what.first, what.second);
    }
    return all;
  }

  // The background gets to its end; false when the disk stopped in the middle.
  bool settle() {
    world_.pump();
    return !disk_.stopped();
  }

  void crash_and_check() {
    world_.crash();
    const Result<void> started = world_.start();
    check(started.ok(), "open after a crash: " + (started.ok() ? "" : started.error().message));
    if (!failure.empty()) return;
    resolve_pending();
    reconnect();
    adopt_head();
    check_snapshots(1);
  }

  void finish() {
    world_.pump();
    check_head_exactly();
    check_snapshots(model_.snapshots.size());
  }

 private:
  void check(bool holds, const std::string& what) {
    if (!holds && failure.empty()) failure = what;
  }
  void reconnect() {
    peer_ = world_.connect(++epoch_);
    check(world_.accepted.contains(peer_), "connect");
  }

  Extent some_extent() {
    std::uint64_t length = kModelSector;
    switch (random_() % 6) {
      case 0: length = kModelSector * (1 + random_() % 7); break;
      case 1: length = kBlockSize; break;
      case 2: length = kModelSector * (1 + random_() % 64); break;
      case 3: length = kBlockSize * (1 + random_() % 16); break;
      case 4: length = random_() % 16 == 0 ? 4u << 20 : 65536; break;
      default: break;
    }
    // Most of the work in a small place, so that layers overlap.
    const std::uint64_t room = random_() % 3 != 0 ? 256u << 10 : kModelBytes;
    const std::uint64_t span = std::max(room, length);
    const std::uint64_t base = random_() % 2 == 0 ? 0 : std::min<std::uint64_t>(kModelBytes - span, 8u << 20);
    return {base + (random_() % ((span - length) / kModelSector + 1)) * kModelSector, length};
  }

  bool mutate(PeerOp op) {
    if (random_() % 4 == 0) return burst();
    const Extent extent = some_extent();
    const Tag tag = op == PeerOp::write ? next_tag_++ : 0;
    model_.begin(extent, tag);
    PeerRequest request = SimReplica::request_of(op, extent);
    request.fua = random_() % 10 == 0;
    request.no_hole = op == PeerOp::write_zeroes && random_() % 3 == 0;
    const auto bytes = op == PeerOp::write ? fill(tag, extent) : std::vector<std::byte>{};
    const auto heard = world_.call(peer_, request, bytes);
    if (!heard) return false;
    check(heard->reply.error == 0, "mutate: " + heard->reply.message);
    model_.done(extent, tag);
    if (request.fua) model_.flushed();
    return true;
  }

  bool flush() {
    const auto heard = world_.call(peer_, SimReplica::request_of(PeerOp::flush, {}));
    if (!heard) return false;
    check(heard->reply.error == 0, "flush: " + heard->reply.message);
    model_.flushed();
    return true;
  }

  bool read_some() {
    const Extent extent = some_extent();
    const auto heard = world_.call(peer_, SimReplica::request_of(PeerOp::read, extent));
    if (!heard) return false;
    check(heard->reply.error == 0, "read: " + heard->reply.message);
    if (heard->reply.error != 0) return true;
    for (std::uint64_t at = 0; at < extent.length; at += kModelSector) {
      const std::uint64_t sector = (extent.offset + at) / kModelSector;
      check(tag_of(heard->data.data() + at, sector) == model_.now[sector], "a read differs from the model");
    }
    return true;
  }

  // A chain operation that the disk's stop left open is settled after the crash: done or not, nothing
  // between.
  std::optional<PeerReply> chain(PeerOp op, const std::string& name) {
    const PeerRequest request = world_.snapshot_of(op, name);
    pending_ = {op, request.snapshot};
    const auto heard = world_.call(peer_, request);
    if (!heard) return {};
    pending_.reset();
    return heard->reply;
  }

  bool snapshot() {
    if (model_.snapshots.size() > 12) return true;
    const std::string name = "s" + std::to_string(next_snapshot_++);
    const auto reply = chain(PeerOp::snapshot_create, name);
    if (!reply) return false;
    if (reply->error == 0) take_snapshot(name);
    return true;
  }
  void take_snapshot(const std::string& name) {
    model_.flushed();
    model_.snapshots[name].image = model_.now;
  }

  std::string some_snapshot() {
    if (model_.snapshots.empty()) return "";
    auto at = model_.snapshots.begin();
    std::advance(at, static_cast<long>(random_() % model_.snapshots.size()));
    return at->first;
  }

  bool mark_removed() {
    const std::string name = some_snapshot();
    if (name.empty() || model_.snapshots[name].removed) return true;
    const auto reply = chain(PeerOp::snapshot_mark_removed, name);
    if (!reply) return false;
    check(reply->error == 0, "mark removed: " + reply->message);
    model_.snapshots[name].removed = true;
    return true;
  }

  bool purge() {
    std::vector<std::string> removed;
    for (const auto& [name, snapshot] : model_.snapshots) {
      if (snapshot.removed) removed.push_back(name);
    }
    if (removed.empty()) return true;
    const std::string name = removed[random_() % removed.size()];
    const auto reply = chain(PeerOp::snapshot_purge, name);
    if (!reply) return false;
    if (reply->error != 0) return true;  // several children, or another one under way
    // Half of the time to its end; otherwise it goes on beside what follows.
    if (random_() % 2 == 0) {
      world_.pump();
      if (disk_.stopped()) return false;
      check(world_.replica().store().purge_progress().error.empty(),
            "purge: " + world_.replica().store().purge_progress().error);
      check(world_.replica().store().meta().by_snapshot(name) == nullptr, "a purge did not end");
    }
    drop_purged();
    return true;
  }
  void drop_purged() {
    std::erase_if(model_.snapshots, [&](const auto& entry) {
      return entry.second.removed && world_.replica().store().meta().by_snapshot(entry.first) == nullptr;
    });
  }

  bool revert() {
    const std::string name = some_snapshot();
    if (name.empty() || model_.snapshots[name].removed) return true;
    const auto reply = chain(PeerOp::snapshot_revert, name);
    if (!reply) return false;
    if (reply->error == 0) take_revert(name);
    return true;
  }
  void take_revert(const std::string& name) {
    model_.now = model_.snapshots[name].image;
    model_.flushed();
  }

  void resolve_pending() {
    const ReplicaMeta& meta = world_.replica().store().meta();
    if (pending_) {
      const auto& [op, command] = *pending_;
      const std::string& name = command.name;
      if (op == PeerOp::snapshot_create && meta.by_snapshot(name) != nullptr) {
        take_snapshot(name);
      } else if (op == PeerOp::snapshot_mark_removed) {
        model_.snapshots[name].removed = meta.by_snapshot(name)->layer.removed;
      } else if (op == PeerOp::snapshot_revert && meta.head_id == command.head_id) {
        take_revert(name);
      }
      pending_.reset();
    }
    drop_purged();
    std::set<std::string> present;
    for (const LayerRecord& record : meta.layers) present.insert(record.layer.snapshot);
    for (const auto& [name, snapshot] : model_.snapshots)
      check(present.erase(name) == 1, "snapshot lost: " + name);
    check(present.empty(), "a snapshot that nobody took");
  }

  std::vector<Tag> read_all(SimReplica& world, PeerId peer) {
    std::vector<Tag> tags;
    constexpr std::uint32_t kStep = 1u << 20;
    for (std::uint64_t at = 0; at < kModelBytes; at += kStep) {
      const auto heard = world.call(peer, SimReplica::request_of(PeerOp::read, {at, kStep}));
      if (!heard || heard->reply.error != 0) {
        check(false, "reading everything: " + (heard ? heard->reply.message : "stopped"));
        return std::vector<Tag>(kModelBytes / kModelSector, kTorn);
      }
      for (std::uint64_t i = 0; i < kStep; i += kModelSector) {
        tags.push_back(tag_of(heard->data.data() + i, (at + i) / kModelSector));
      }
    }
    return tags;
  }

  // After a power cut: each sector holds what was flushed or something later; that is now the truth.
  void adopt_head() {
    const std::vector<Tag> tags = read_all(world_, peer_);
    for (std::uint64_t s = 0; s < tags.size(); ++s) {
      if (!model_.allows(s, tags[s])) {
        check(false,
              fmt::format("after a crash sector {} holds {}, not {} or newer", s, tags[s], model_.now[s]));
      }
    }
    model_.now = tags;
    model_.flushed();
  }
  void check_head_exactly() {
    check(read_all(world_, peer_) == model_.now, "the head differs from the model");
  }

  // Looks at each snapshot by reverting to it in a copy of the disk.
  void check_snapshots(std::size_t most) {
    const std::size_t every = model_.snapshots.size() / std::max<std::size_t>(most, 1) + 1;
    for (const auto& [name, snapshot] : model_.snapshots) {
      if (snapshot.removed || (most < model_.snapshots.size() && random_() % every != 0)) continue;
      const auto copy = disk_.clone(random_());
      SimReplica other(*copy);
      const auto started = other.start();
      check(started.ok(), "opening a copy");
      if (!started.ok()) return;
      other.pump();  // a purge into the head would refuse the revert
      const PeerId peer = other.connect(1u << 20);
      PeerRequest command = other.snapshot_of(PeerOp::snapshot_revert, name);
      command.snapshot.head_id = "looking";
      const PeerReply reply = other.call(peer, command)->reply;
      check(reply.error == 0, "revert in a copy: " + reply.message);
      check(read_all(other, peer) == snapshot.image, "snapshot " + name + " changed");
    }
  }

  std::mt19937_64 random_;
  SimDisk disk_;
  SimReplica world_;
  ReplicaModel model_;
  PeerId peer_ = 0;
  Epoch epoch_ = 0;
  Tag next_tag_ = 1;
  std::uint64_t next_snapshot_ = 0;
  std::optional<std::pair<PeerOp, SnapshotCommand>> pending_;
};

std::string run(std::uint64_t seed, std::uint64_t steps, bool crashes) {
  Workload work(seed);
  std::mt19937_64 random(seed);
  for (std::uint64_t i = 0; i < steps && work.failure.empty(); ++i) {
    if (crashes && random() % 12 == 0) work.disk().stop_at(work.disk().operations() + random() % 40);
    if (!work.step()) work.crash_and_check();
  }
  if (work.failure.empty() && crashes) work.crash_and_check();
  if (work.failure.empty()) work.finish();
  return work.failure;
}

RC_GTEST_PROP(ReplicaModel, RandomWorkGivesWhatTheModelSays, ()) {
  const auto seed = *rc::gen::noShrink(rc::gen::inRange<std::uint64_t>(0, 1u << 30));
  const std::string failure = run(seed, 60, false);
  RC_LOG() << "seed " << seed << ": " << failure;
  RC_ASSERT(failure.empty());
}

RC_GTEST_PROP(ReplicaModel, PowerCutsLoseNothingThatWasFlushed, ()) {
  const auto seed = *rc::gen::noShrink(rc::gen::inRange<std::uint64_t>(0, 1u << 30));
  const std::string failure = run(seed, 60, true);
  RC_LOG() << "seed " << seed << ": " << failure;
  RC_ASSERT(failure.empty());
}

// One run of random work, cut off at every numbered change or sync of the disk in turn.
std::string cut_at(std::uint64_t seed, std::uint64_t steps, std::uint64_t point, bool& reached) {
  Workload work(seed);
  work.disk().stop_at(work.disk().operations() + point);
  reached = false;
  for (std::uint64_t i = 0; i < steps; ++i) {
    reached = !work.step();
    if (reached) break;
  }
  if (!reached) reached = !work.settle();
  if (reached) work.crash_and_check();
  if (work.failure.empty()) work.finish();
  return work.failure;
}

TEST(ReplicaModel, EveryNumberedCrashPointLosesNothingThatWasFlushed) {
  const char* chosen = std::getenv("MOOR_SEED");
  const std::uint64_t seed = chosen == nullptr ? std::random_device()() : std::strtoull(chosen, nullptr, 10);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::uint64_t point = 0;
  for (bool reached = true; reached; ++point) {
    ASSERT_LT(point, 20'000u) << "no end";
    ASSERT_EQ(cut_at(seed, 40, point, reached), "") << "seed " << seed << ", crash point " << point;
  }
  std::printf("%llu crash points\n", static_cast<unsigned long long>(point - 1));
  EXPECT_GT(point, 40u);
}

}  // namespace
}  // namespace moor::block
