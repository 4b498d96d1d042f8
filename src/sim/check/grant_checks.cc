// The Grant and the processes that hold it: S1, S2, S3, S12, S13, S44.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/check/checks.h"
#include "sim/check/support.h"

namespace moor::sim {
namespace {

using namespace check;

// A request that was submitted after a newer engine had begun to serve must never be acknowledged by an older
// one.
class OneWriter final : public Checker {
 public:
  OneWriter() : Checker("S1") {}

  void at_step(const Reality& reality, const Step& step) override {
    if (!step.processes) return;
    for (const std::string& volume : step.volumes)
      for (const EngineSight& engine : reality.engines_of(volume)) {
        Newest& newest = newest_[engine.volume];
        if (engine.serving && engine.epoch > newest.epoch) newest = {engine.epoch, step.number, engine.node};
      }
  }

  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto grant = changed<mr::Grant>(change);
      if (grant && !grant->before) newest_.erase(change.name);  // another volume of that name
    }
  }

  void on_answer(const Reality&, const ClientAnswer& answer) override {
    if (answer.error != 0 || answer.op == ClientOp::read || answer.epoch == 0) return;
    const auto newest = newest_.find(answer.volume);
    if (newest == newest_.end() || newest->second.epoch <= answer.epoch) return;
    if (answer.submitted <= newest->second.since) return;
    violated(fmt::format(
        "volume {}: the engine of epoch {} acknowledged a {} on node {} that was asked for after the "
        "engine of epoch {} had begun to serve on node {}: two engines could write",
        answer.volume, answer.epoch, answer.op == ClientOp::write ? "write" : "flush", answer.node,
        newest->second.epoch, newest->second.node));
  }

 private:
  struct Newest {
    std::uint64_t epoch = 0;
    std::uint64_t since = 0;  // step
    std::string node;
  };
  std::map<std::string, Newest> newest_;
};

class EpochNeverFalls final : public Checker {
 public:
  EpochNeverFalls() : Checker("S2") {}
  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto grant = changed<mr::Grant>(change);
      if (!grant || !grant->after) continue;
      const model::OwnerReference* owner = grant->after->metadata.controller_owner();
      std::int64_t& highest = highest_[owner == nullptr ? change.name : owner->uid];
      if (grant->after->spec.epoch < highest)
        violated(fmt::format("volume {}: its Grant went back from epoch {} to {}", change.name, highest,
                             grant->after->spec.epoch));
      highest = std::max(highest, grant->after->spec.epoch);
    }
  }

 private:
  std::map<std::string, std::int64_t> highest_;  // by the volume's uid
};

// One process for each epoch, on the node and in the life that the Grant named. (S13: and a life is one
// boot.)
class EpochIsOneProcess final : public Checker {
 public:
  EpochIsOneProcess() : Checker("S3") {}

  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto grant = changed<mr::Grant>(change);
      if (!grant || !grant->after) continue;
      Volume& volume = volumes_[change.name];
      if (!grant->before) volume = {};
      for (const auto* holder : {&grant->after->spec.active, &grant->after->spec.standby})
        if (*holder) note_holder(change.name, volume, **holder);
    }
  }

  void at_step(const Reality& reality, const Step& step) override {
    if (!step.processes) return;
    for (const std::string& volume : step.volumes)
      for (const EngineSight& engine : reality.engines_of(volume)) look(engine);
  }

 private:
  struct Process {
    std::string node;
    std::string boot;
    int pid = 0;
    bool operator==(const Process&) const = default;
  };
  void look(const EngineSight& engine) {
    Volume& volume = volumes_[engine.volume];
    const Process now{engine.node, engine.boot_id, engine.pid};
    const auto known = volume.processes.find(engine.epoch);
    if (known != volume.processes.end()) {
      if (!(known->second == now))
        violated(fmt::format(
            "volume {}: epoch {} was started twice: as process {} on node {} and as process {} on "
            "node {}",
            engine.volume, engine.epoch, known->second.pid, known->second.node, now.pid, now.node));
      return;
    }
    volume.processes.emplace(engine.epoch, now);
    check_start(engine, volume);
  }
  struct Volume {
    std::map<std::uint64_t, mr::GrantHolder> holders;
    std::map<std::uint64_t, Process> processes;
  };

  void note_holder(const std::string& name, Volume& volume, const mr::GrantHolder& holder) const {
    const auto [known, fresh] = volume.holders.emplace(static_cast<std::uint64_t>(holder.epoch), holder);
    if (!fresh && !(known->second == holder))
      violated(fmt::format("volume {}: epoch {} was granted twice: first {}, then {}", name, holder.epoch,
                           describe(known->second), describe(holder)));
  }

  void check_start(const EngineSight& engine, const Volume& volume) {
    const auto holder = volume.holders.find(engine.epoch);
    if (holder == volume.holders.end())
      return violated(
          fmt::format("volume {}: node {} started an engine with epoch {}, which was never granted",
                      engine.volume, engine.node, engine.epoch));
    if (holder->second.node != engine.node || holder->second.engine != engine.engine)
      return violated(fmt::format("volume {}: {} was started as {} on node {}", engine.volume,
                                  describe(holder->second), engine.engine, engine.node));
    const auto [life, fresh] =
        lives_.emplace(std::pair(engine.node, holder->second.incarnation), engine.boot_id);
    if (!fresh && life->second != engine.boot_id)
      violated(fmt::format(
          "node {}: incarnation {} has run engines before and after the machine was started anew: "
          "what one life says would be taken for the word of the other (S13)",
          engine.node, holder->second.incarnation));
  }

  std::map<std::string, Volume> volumes_;
  std::map<std::pair<std::string, std::int64_t>, std::string> lives_;  // node, incarnation → boot id
};

// Who held the Grant leaves it only with a proof, and the proof is true: no process of that epoch lives, or
// every member has a higher one. In a move it may leave before that, replaced by an epoch above all; then the
// proof is owed until the move's record goes.
class ReleaseIsProven final : public Checker {
 public:
  ReleaseIsProven() : Checker("S12") {}

  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto grant = changed<mr::Grant>(change);
      if (!grant || !grant->before || !grant->after) continue;
      pay(reality, change.name, grant->after->spec);
      const auto& was = grant->before->spec.active;
      if (!was || grant->after->spec.active == was) continue;
      check(reality, change, *was, grant->before->spec, grant->after->spec);
    }
    for (const Change& change : commit.changes)
      if (const auto volume = changed<lh::Volume>(change); volume && volume->before &&
                                                           volume->before->status.move &&
                                                           (!volume->after || !volume->after->status.move))
        settle(reality, change);
  }

 private:
  // A source that took its volume back goes on in a higher epoch as the same process: its end is the end of
  // both.
  static bool covers(const mr::GrantHolder& proven, const mr::GrantHolder& holder) {
    return proven.engine == holder.engine && proven.node == holder.node &&
           proven.incarnation == holder.incarnation && proven.epoch >= holder.epoch;
  }
  static const mr::ReleaseProof* proof_of(const mr::GrantSpec& grant, const mr::GrantHolder& holder) {
    const auto proof = std::find_if(grant.proofs.rbegin(), grant.proofs.rend(),
                                    [&](const mr::ReleaseProof& one) { return covers(one.holder, holder); });
    return proof == grant.proofs.rend() ? nullptr : &*proof;
  }

  void check(const Reality& reality, const Change& change, const mr::GrantHolder& was,
             const mr::GrantSpec& before, const mr::GrantSpec& after) {
    if (const mr::ReleaseProof* proof = proof_of(after, was))
      return judge(reality, change.name, was, after, *proof);
    const auto volume = reality.get<lh::Volume>(change.space, change.name);
    const bool moves = volume && volume->status.move && after.active && after.active->epoch > was.epoch;
    const bool other = moves && after.active->engine != was.engine;
    const bool undone = moves && before.standby && !after.standby && after.active->node == was.node &&
                        after.active->incarnation == was.incarnation;
    if (!other && !undone)
      return violated(
          fmt::format("volume {}: {} left the Grant without a proof", change.name, describe(was)));
    if (other) owed_[change.name].push_back(was);
  }

  void pay(const Reality& reality, const std::string& volume, const mr::GrantSpec& grant) {
    auto& owed = owed_[volume];
    for (auto holder = owed.begin(); holder != owed.end();) {
      const mr::ReleaseProof* proof = proof_of(grant, *holder);
      if (proof != nullptr) judge(reality, volume, *holder, grant, *proof);
      holder = proof != nullptr ? owed.erase(holder) : std::next(holder);
    }
  }

  // The record goes: nobody but the side that stays may be left unproven.
  void settle(const Reality& reality, const Change& change) {
    const auto owed = std::exchange(owed_[change.name], {});
    const auto grant = reality.get<mr::Grant>(change.space, change.name);
    for (const mr::GrantHolder& holder : owed)
      if (grant && !(grant->spec.active && grant->spec.active->engine == holder.engine))
        violated(fmt::format("volume {}: its move is over, and the release of {} was never proven",
                             change.name, describe(holder)));
  }

  void judge(const Reality& reality, const std::string& volume, const mr::GrantHolder& was,
             const mr::GrantSpec& after, const mr::ReleaseProof& found) const {
    const mr::ReleaseProof* proof = &found;
    if (proof->type == mr::ProofType::fenced) return fenced(reality, volume, was, after);
    if (proof->type == mr::ProofType::override_by_operator) return;
    const std::string_view word = proof->type == mr::ProofType::unmounted
                                      ? "its agent said that it has stopped"
                                      : "its node was started anew";
    const auto engines = reality.engines();
    if (const EngineSight* lives = find_engine(engines, volume, static_cast<std::uint64_t>(was.epoch)))
      return violated(
          fmt::format("volume {}: {} was released because {}, and its process {} still lives on node {}",
                      volume, describe(was), word, lives->pid, lives->node));
    if (after.active || proof->type != mr::ProofType::unmounted) return;
    for (const DeviceSight& device : reality.devices())
      if (device.volume == volume && device.node == was.node && device.users > 0)
        return violated(
            fmt::format("volume {}: {} was released as unmounted, and its device {} is still open on node "
                        "{} by {} user(s)",
                        volume, describe(was), device.link, device.node, device.users));
  }

  void fenced(const Reality& reality, const std::string& volume, const mr::GrantHolder& was,
              const mr::GrantSpec& after) const {
    const auto replicas = reality.replicas();
    for (const auto& [name, mode] : after.members) {
      const ReplicaSight* replica = find_replica(replicas, name);
      if (mode != mr::MemberMode::rw || replica == nullptr) continue;
      if (replica->floor.epoch <= static_cast<std::uint64_t>(was.epoch))
        violated(fmt::format("volume {}: {} is said to be fenced, and member {} would still obey it", volume,
                             describe(was), name));
    }
  }

  std::map<std::string, std::vector<mr::GrantHolder>> owed_;  // by volume
};

class FailedMemberStaysOut final : public Checker {
 public:
  FailedMemberStaysOut() : Checker("S44") {}

  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto grant = changed<mr::Grant>(change);
      if (!grant || !grant->before || !grant->after) continue;
      const mr::GrantSpec& was = grant->before->spec;
      const mr::GrantSpec& is = grant->after->spec;
      for (const auto& [name, mode] : was.members) {
        const auto found = is.members.find(name);
        if (mode == mr::MemberMode::err && found != is.members.end() && found->second == mr::MemberMode::rw)
          violated(
              fmt::format("volume {}: member {} went from ERR to RW without a resync", change.name, name));
      }
      if (count_rw(was) > 0 && count_rw(is) == 0)
        violated(
            fmt::format("volume {}: its last RW member was taken out of the Grant; nobody holds its data now",
                        change.name));
    }
  }
};

}  // namespace

std::unique_ptr<Checker> invariant_s01_one_writer() {
  return std::make_unique<OneWriter>();
}
std::unique_ptr<Checker> invariant_s02_epoch_never_falls() {
  return std::make_unique<EpochNeverFalls>();
}
std::unique_ptr<Checker> invariant_s03_epoch_is_one_process() {
  return std::make_unique<EpochIsOneProcess>();
}
std::unique_ptr<Checker> invariant_s12_release_is_proven() {
  return std::make_unique<ReleaseIsProven>();
}
std::unique_ptr<Checker> invariant_s44_failed_member_stays_out() {
  return std::make_unique<FailedMemberStaysOut>();
}

}  // namespace moor::sim
