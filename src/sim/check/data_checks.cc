// Engines and replicas as they are: S4, S5, S6, S11, and equal members once everything rests.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>

#include "sim/check/checks.h"
#include "sim/check/support.h"

namespace moor::sim {
namespace {

using namespace check;
using block::engine::State;

// The floor on disk never goes back, whoever is obeyed now is the one that the disk names, and nothing of the
// one before takes effect any more once the next is let in.
class ReplicaObeysItsFloor final : public Checker {
 public:
  ReplicaObeysItsFloor() : Checker("S4") {}
  void at_step(const Reality& reality, const Step& step) override {
    if (!step.processes && !step.floors) return;
    for (const std::string& volume : step.volumes) look(reality.replicas_of(volume));
  }
  void on_answer(const Reality& reality, const ClientAnswer& answer) override {
    look(reality.replicas_of(answer.volume));
  }
  // Every newer floor follows a change of the Grant, so one that went down is seen before it can rise again.
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes)
      if (change.kind == &control::kind_of<mr::Grant>()) look(reality.replicas_of(change.name));
  }
  void after_healing(const Reality& reality) override { look(reality.replicas()); }

 private:
  void look(const std::vector<ReplicaSight>& replicas) {
    for (const ReplicaSight& replica : replicas) {
      block::Floor& known = floors_[{replica.node, replica.directory}];
      const block::Floor& now = replica.floor;
      const bool lower = now.epoch < known.epoch || (now.epoch == known.epoch && now.session < known.session);
      const bool other = now.epoch == known.epoch && now.epoch != 0 && now.engine != known.engine;
      if (lower || other)
        violated(fmt::format(
            "replica {} on node {}: its floor went from epoch {} of {} (session {}) to epoch {} of {} "
            "(session {}): a fenced engine would be obeyed again",
            replica.name, replica.node, known.epoch, known.engine, known.session, now.epoch, now.engine,
            now.session));
      known = now;
      if (replica.unfinished > 0)
        violated(fmt::format(
            "replica {} on node {} has let epoch {} of {} in while {} request(s) of the engine that it "
            "fenced were still under way: they take effect after those of the new one",
            replica.name, replica.node, now.epoch, now.engine, replica.unfinished));
      if (replica.core == nullptr || !replica.open) continue;
      const auto holder = replica.core->holder();
      if (holder) look_at_session(replica, *holder);
      if (holder && !(*holder == now))
        violated(fmt::format(
            "replica {} on node {} obeys epoch {} of {} (session {}), and its disk knows epoch {} of "
            "{} (session {})",
            replica.name, replica.node, holder->epoch, holder->engine, holder->session, now.epoch, now.engine,
            now.session));
    }
  }
  // A session is one connection: whoever else says that it is this one speaks with a voice of the past.
  void look_at_session(const ReplicaSight& replica, const block::Floor& holder) {
    const Place where{replica.node, replica.directory};
    const std::pair connection{replica.pid, replica.holder_connection};
    auto& known = sessions_[where];
    if (known.first == holder && known.second != connection)
      violated(fmt::format(
          "replica {} on node {} has let session {} of epoch {} of {} in twice: the one that came first "
          "is fenced by its own past",
          replica.name, replica.node, holder.session, holder.epoch, holder.engine));
    known = {holder, connection};
  }

  using Place = std::pair<std::string, std::string>;  // node, directory
  std::map<Place, block::Floor> floors_;
  std::map<Place, std::pair<block::Floor, std::pair<int, std::uint64_t>>> sessions_;
};

// What an engine that acknowledges now has to do with the Grant that is in force.
struct Served {
  block::engine::Status status;
  mr::GrantSpec grant;
};

std::optional<Served> served_by(const Reality& reality, const ClientAnswer& answer) {
  if (answer.error != 0 || answer.op == ClientOp::read || answer.epoch == 0) return std::nullopt;
  const auto engines = reality.engines_of(answer.volume);
  const EngineSight* engine = find_engine(engines, answer.volume, answer.epoch);
  if (engine == nullptr || engine->core == nullptr) return std::nullopt;
  Served served{engine->core->status(), {}};
  if (served.status.state != State::serving) return std::nullopt;
  const auto grant = reality.get<mr::Grant>(lh::kDefaultNamespace, answer.volume);
  if (!grant || !grant->spec.active || grant->spec.active->epoch != static_cast<std::int64_t>(answer.epoch))
    return std::nullopt;
  served.grant = grant->spec;
  return served;
}

// Whoever could be the source of truth later knows the epoch and the generation under which clients are
// answered.
class MembersKnowTheEpoch final : public Checker {
 public:
  MembersKnowTheEpoch() : Checker("S5") {}
  void on_answer(const Reality& reality, const ClientAnswer& answer) override {
    const auto served = served_by(reality, answer);
    if (!served) return;
    const auto generation = served->status.membership.generation;
    const auto replicas = reality.replicas_of(answer.volume);
    for (const auto& [name, mode] : served->grant.members) {
      if (mode != mr::MemberMode::rw) continue;
      const ReplicaSight* replica = find_replica(replicas, name);
      if (replica == nullptr) continue;
      if (replica->floor.epoch < answer.epoch)
        violated(fmt::format(
            "volume {}: epoch {} acknowledges to clients while member {} is RW in the Grant and knows "
            "only epoch {}",
            answer.volume, answer.epoch, name, replica->floor.epoch));
      else if (replica->generation < generation &&
               static_cast<std::int64_t>(generation) == served->grant.generation)
        violated(fmt::format(
            "volume {}: epoch {} acknowledges under generation {} while member {} has stored only "
            "generation {}: after a restore of the store it could pass for in sync",
            answer.volume, answer.epoch, generation, name, replica->generation));
    }
  }
};

// An engine goes on without a member only once the Grant says that it is out.
class NoMemberIsDroppedSilently final : public Checker {
 public:
  NoMemberIsDroppedSilently() : Checker("S6") {}
  void on_answer(const Reality& reality, const ClientAnswer& answer) override {
    const auto served = served_by(reality, answer);
    if (!served) return;
    for (const auto& [name, mode] : served->grant.members) {
      if (mode != mr::MemberMode::rw) continue;
      const auto found = std::find_if(served->status.members.begin(), served->status.members.end(),
                                      [&](const auto& one) { return one.config.name == name; });
      const bool used = found != served->status.members.end() && found->mode == block::MemberMode::rw &&
                        found->connected && !found->leaving;
      if (!used)
        violated(fmt::format(
            "volume {}: epoch {} acknowledges without member {}, which is RW in the Grant ({}): its "
            "data falls behind and nobody knows",
            answer.volume, answer.epoch, name,
            found == served->status.members.end() ? "no member for the engine"
            : found->connected                    ? "out for the engine"
                                                  : "not connected"));
    }
  }
};

// A member that cannot take a write is taken out; a client hears of it only when nobody could take it.
class OneFullDiskStopsNobody final : public Checker {
 public:
  OneFullDiskStopsNobody() : Checker("S44") {}
  void on_answer(const Reality& reality, const ClientAnswer& answer) override {
    if (answer.error != ENOSPC || answer.op != ClientOp::write || answer.epoch == 0) return;
    const auto engines = reality.engines_of(answer.volume);
    const EngineSight* engine = find_engine(engines, answer.volume, answer.epoch);
    if (engine == nullptr || engine->core == nullptr) return;
    const auto replicas = reality.replicas_of(answer.volume);
    for (const auto& member : engine->core->status().members) {
      const ReplicaSight* replica = find_replica(replicas, member.config.name);
      if (member.mode != block::MemberMode::rw || !member.connected || replica == nullptr) continue;
      if (replica->full_until >= answer.submitted) continue;
      return violated(fmt::format(
          "volume {}: a write of a client on node {} failed for want of room, and member {}, which is in "
          "step, had room all the time",
          answer.volume, answer.node, member.config.name));
    }
  }
};

class OneEnginePerNode final : public Checker {
 public:
  OneEnginePerNode() : Checker("S11") {}
  void at_step(const Reality& reality, const Step& step) override {
    if (!step.processes) return;
    for (const std::string& volume : step.volumes)
      if (reality.engine_count_of(volume) > 1) look(reality.engines_of(volume));
  }

 private:
  void look(const std::vector<EngineSight>& engines) const {
    std::map<std::string, const EngineSight*> seen;
    for (const EngineSight& engine : engines) {
      const auto [known, fresh] = seen.emplace(engine.node, &engine);
      if (!fresh)
        violated(fmt::format("volume {}: node {} runs two engines at once, with epochs {} and {}",
                             engine.volume, engine.node, known->second->epoch, engine.epoch));
    }
  }
};

// Everything rests and an engine serves: whichever member is asked, the answer is the same.
class MembersAreEqualAtRest final : public Checker {
 public:
  MembersAreEqualAtRest() : Checker("DATA") {}
  void after_healing(const Reality& reality) override {
    const auto replicas = reality.replicas();
    const auto engines = reality.engines();
    for (const mr::Grant& grant : reality.all<mr::Grant>()) {
      if (!grant.spec.active) continue;
      const EngineSight* engine =
          find_engine(engines, grant.metadata.name, static_cast<std::uint64_t>(grant.spec.active->epoch));
      if (engine == nullptr || engine->core == nullptr) continue;
      const auto status = engine->core->status();
      if (status.state != State::serving || status.operations != 0) continue;
      compare(reality, replicas, grant);
    }
  }

 private:
  void compare(const Reality& reality, const std::vector<ReplicaSight>& replicas,
               const mr::Grant& grant) const {
    std::optional<std::vector<std::byte>> first;
    std::string first_name;
    for (const auto& [name, mode] : grant.spec.members) {
      const ReplicaSight* replica = mode == mr::MemberMode::rw ? find_replica(replicas, name) : nullptr;
      if (replica == nullptr) continue;
      auto bytes = reality.bytes_of(*replica);
      if (!bytes) continue;
      if (!first) {
        first = std::move(bytes);
        first_name = name;
        continue;
      }
      if (are_equal(*first, *bytes)) continue;
      const auto at = std::mismatch(first->begin(), first->end(), bytes->begin(), bytes->end());
      return violated(
          fmt::format("volume {}: members {} and {} are both RW, nothing is under way, and they differ at "
                      "byte {}: a read depends on whom it asks",
                      grant.metadata.name, first_name, name, at.first - first->begin()));
    }
  }
};

}  // namespace

std::unique_ptr<Checker> invariant_s04_replica_obeys_its_floor() {
  return std::make_unique<ReplicaObeysItsFloor>();
}
std::unique_ptr<Checker> invariant_s05_members_know_the_epoch() {
  return std::make_unique<MembersKnowTheEpoch>();
}
std::unique_ptr<Checker> invariant_s06_no_member_is_dropped_silently() {
  return std::make_unique<NoMemberIsDroppedSilently>();
}
std::unique_ptr<Checker> invariant_s44_one_full_disk_stops_nobody() {
  return std::make_unique<OneFullDiskStopsNobody>();
}
std::unique_ptr<Checker> invariant_s11_one_engine_per_node() {
  return std::make_unique<OneEnginePerNode>();
}
std::unique_ptr<Checker> liveness_members_are_equal_at_rest() {
  return std::make_unique<MembersAreEqualAtRest>();
}

}  // namespace moor::sim
