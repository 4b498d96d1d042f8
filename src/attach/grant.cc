#include "attach/grant.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

#include "base/plant.h"

namespace moor::attach {

using model::mooring::MemberMode;
using model::mooring::ProofType;

namespace {

std::string describe(const GrantHolder& holder) {
  return fmt::format("engine {} on node {} (epoch {}, incarnation {})", holder.engine, holder.node,
                     holder.epoch, holder.incarnation);
}

Result<GrantHolder> next_holder(GrantSpec& grant, const EngineStart& start) {
  if (start.engine.empty() || start.node.empty())
    return make_error(Errc::invalid, "a start names its engine and its node");
  if (grant.epoch == std::numeric_limits<std::int64_t>::max())
    return make_error(Errc::exhausted, fmt::format("volume {} has used every epoch", grant.volume));
  if (grant.epoch == 0 || !MOOR_PLANT("attach-epoch-reused")) ++grant.epoch;
  return GrantHolder{
      .epoch = grant.epoch, .engine = start.engine, .node = start.node, .incarnation = start.incarnation};
}

Result<void> check_proof(const GrantHolder& holder, const ReleaseProof& proof) {
  if (!(proof.holder == holder))
    return make_error(Errc::conflict, fmt::format("the proof speaks of {}; the record names {}",
                                                  describe(proof.holder), describe(holder)));
  if (proof.type == ProofType::fenced && proof.fenced_by_epoch <= holder.epoch)
    return make_error(Errc::invalid,
                      fmt::format("epoch {} does not fence epoch {}", proof.fenced_by_epoch, holder.epoch));
  if (proof.type == ProofType::override_by_operator && (proof.by.empty() || proof.message.empty()))
    return make_error(Errc::invalid, "an override names its person and says why");
  return {};
}

// Every field by its place: one that is added later does not compile until it is compared too.
bool is_same(const ReleaseProof& left, const ReleaseProof& right) {
  const auto fields = [](const ReleaseProof& proof) {
    const auto& [type, holder, fenced_by_epoch, at, by, message] = proof;
    return std::tie(type, holder, fenced_by_epoch, at, by, message);
  };
  return fields(left) == fields(right);
}

bool is_same(const GrantSpec& left, const GrantSpec& right) {
  const auto fields = [](const GrantSpec& spec) {
    const auto& [volume, epoch, active, standby, members, generation, export_id, unproven, snapshot, proofs,
                 next_replica] = spec;
    return std::tuple(std::tie(volume, epoch, active, standby, members, generation, export_id, unproven,
                               snapshot, next_replica),
                      std::cref(proofs));
  };
  const auto& [one, proofs] = fields(left);
  const auto& [other, other_proofs] = fields(right);
  return one == other &&
         std::equal(proofs.get().begin(), proofs.get().end(), other_proofs.get().begin(),
                    other_proofs.get().end(),
                    [](const ReleaseProof& a, const ReleaseProof& b) { return is_same(a, b); });
}

// The fields that change hands with the engine.
void take_member_fields(GrantSpec& to, const GrantSpec& from) {
  to.members = from.members;
  to.generation = from.generation;
  to.export_id = from.export_id;
  to.snapshot = from.snapshot;
}

// What is left when the fields of the engine's agent are taken as they were: everything else that changed.
bool differs_beyond_members(const GrantSpec& before, const GrantSpec& after) {
  GrantSpec rest = after;
  take_member_fields(rest, before);
  return !is_same(rest, before);
}

bool differs_in_members(const GrantSpec& before, const GrantSpec& after) {
  return before.members != after.members || before.generation != after.generation ||
         before.export_id != after.export_id || before.snapshot != after.snapshot;
}

bool is_at(const std::optional<GrantHolder>& holder, const GrantCaller& caller) {
  return holder && holder->node == caller.node && holder->incarnation == caller.incarnation;
}

// Proofs are only added; when there are too many the oldest go.
bool keeps_proofs(const GrantSpec& before, const GrantSpec& after) {
  const std::size_t most = std::min(before.proofs.size(), after.proofs.size());
  for (std::size_t kept = most + 1; kept-- > 0;) {
    if (kept < before.proofs.size() && after.proofs.size() < model::mooring::kMaxProofs) continue;
    bool equal = true;
    for (std::size_t i = 0; i < kept && equal; ++i)
      equal = is_same(before.proofs[before.proofs.size() - kept + i], after.proofs[i]);
    if (equal) return true;
  }
  return false;
}

model::Causes check_controller(const GrantSpec& before, const GrantSpec& after) {
  model::Causes causes;
  if (before.active && differs_in_members(before, after))
    causes.push_back(model::forbidden(
        "spec.members",
        fmt::format("members, generation, exportID and snapshot belong to {} while it is active",
                    describe(*before.active))));
  const bool activated = before.standby && after.active == before.standby;
  // A move that was decided replaces the engine of the other side, which the new epoch fences.
  const bool decided = before.active && after.active && after.active->epoch > before.epoch &&
                       after.active->engine != before.active->engine;
  // A move that was undone: the source's own process goes on in a higher epoch.
  const bool undone = before.active && after.active && before.standby && !after.standby &&
                      after.active->epoch > before.epoch && after.active->engine == before.active->engine &&
                      after.active->node == before.active->node &&
                      after.active->incarnation == before.active->incarnation;
  if (before.active && after.active != before.active && !activated && !decided && !undone &&
      !has_proof(after, *before.active))
    causes.push_back(model::forbidden(
        "spec.active", fmt::format("{} goes only with a proof of its release", describe(*before.active))));
  const bool overtaken = before.standby && after.active && after.active->epoch > before.standby->epoch;
  if (before.standby && after.standby != before.standby && !activated && !overtaken &&
      !has_proof(after, *before.standby))
    causes.push_back(model::forbidden(
        "spec.standby", fmt::format("{} goes only with a proof of its release", describe(*before.standby))));
  if (!keeps_proofs(before, after))
    causes.push_back(model::forbidden("spec.proofs", "proofs are added at the end and never taken back"));
  return causes;
}

model::Causes check_agent(const GrantSpec& before, const GrantSpec& after, const GrantCaller& caller) {
  if (is_at(before.standby, caller)) {
    // The one change of the standby's agent; nothing else may travel with it.
    GrantSpec activated = before;
    activated.active = before.standby;
    activated.standby.reset();
    if (is_same(activated, after)) return {};
  }
  if (!before.active)
    return {model::forbidden("spec", "no engine is active: only the volume controller changes this grant")};
  if (before.active->node != caller.node)
    return {model::forbidden("spec", fmt::format("the grant belongs to {}; node {} may not change it",
                                                 describe(*before.active), caller.node))};
  if (before.active->incarnation != caller.incarnation)
    return {model::forbidden(
        "spec", fmt::format("the grant belongs to incarnation {} of node {}, which now lives as {}",
                            before.active->incarnation, caller.node, caller.incarnation))};
  GrantSpec rest = after;
  if (before.unproven && !after.unproven) rest.unproven = true;
  if (differs_beyond_members(before, rest))
    return {model::forbidden("spec",
                             "an agent changes members, generation, exportID and snapshot (and takes back "
                             "unproven); epoch, active, standby and proofs belong to the volume controller")};
  return {};
}

model::Causes check_person(const GrantSpec& before, const GrantSpec& after, const GrantCaller& caller) {
  const model::Causes refused = {model::forbidden(
      "spec",
      "a person may only release the active engine, by one more proof of type Override in their own name "
      "that says why; everything else is written by the system")};
  if (!before.active || after.active || after.proofs.empty()) return refused;
  const ReleaseProof& proof = after.proofs.back();
  if (proof.type != ProofType::override_by_operator || proof.by != caller.name) return refused;
  const auto released = release_active(before, proof);
  if (!released || !is_same(*released, after)) return refused;
  return {};
}

}  // namespace

Result<GrantSpec> grant_start(GrantSpec grant, const EngineStart& start) {
  if (grant.active)
    return make_error(Errc::conflict,
                      fmt::format("{} is active and not proven to be released", describe(*grant.active)));
  TRY(auto holder, next_holder(grant, start));
  grant.active = holder;
  return grant;
}

Result<GrantSpec> release_active(GrantSpec grant, ReleaseProof proof) {
  if (!grant.active) return make_error(Errc::conflict, "no engine is active");
  TRY_VOID(check_proof(*grant.active, proof));
  grant.active.reset();
  record_proof(grant, std::move(proof));
  return grant;
}

Result<GrantSpec> release_standby(GrantSpec grant, ReleaseProof proof) {
  if (!grant.standby) return make_error(Errc::conflict, "there is no standby engine");
  TRY_VOID(check_proof(*grant.standby, proof));
  grant.standby.reset();
  record_proof(grant, std::move(proof));
  return grant;
}

Result<GrantSpec> set_standby(GrantSpec grant, const EngineStart& start) {
  if (!grant.active) return make_error(Errc::conflict, "no engine is active: there is nothing to move");
  if (grant.standby)
    return make_error(Errc::conflict, fmt::format("{} is standby already", describe(*grant.standby)));
  for (const auto& [name, mode] : grant.members)
    if (mode == MemberMode::wo)
      return make_error(Errc::conflict, fmt::format("replica {} is being rebuilt", name));
  TRY(auto holder, next_holder(grant, start));
  grant.standby = holder;
  return grant;
}

Result<GrantSpec> activate_standby(GrantSpec grant) {
  if (!grant.standby) return make_error(Errc::conflict, "there is no standby engine");
  grant.active = grant.standby;
  grant.standby.reset();
  return grant;
}

Result<GrantSpec> grant_over(GrantSpec grant, const EngineStart& start) {
  TRY(auto holder, next_holder(grant, start));
  grant.active = holder;
  grant.standby.reset();
  return grant;
}

bool has_proof(const GrantSpec& grant, const GrantHolder& holder) {
  return std::any_of(grant.proofs.begin(), grant.proofs.end(),
                     [&](const ReleaseProof& proof) { return proof.holder == holder; });
}

void record_proof(GrantSpec& grant, ReleaseProof proof) {
  grant.proofs.push_back(std::move(proof));
  if (grant.proofs.size() > model::mooring::kMaxProofs)
    grant.proofs.erase(grant.proofs.begin(), grant.proofs.end() - model::mooring::kMaxProofs);
}

std::optional<ReleaseProof> incarnation_proof(const GrantHolder& holder, std::int64_t incarnation_now,
                                              model::Time now) {
  if (incarnation_now <= holder.incarnation && !MOOR_PLANT("attach-same-life-ended")) return std::nullopt;
  return ReleaseProof{.type = ProofType::incarnation_ended,
                      .holder = holder,
                      .at = model::MicroTime{now},
                      .by = "volume-controller",
                      .message = fmt::format("node {} lives as incarnation {}; every process of incarnation "
                                             "{} has ended",
                                             holder.node, incarnation_now, holder.incarnation)};
}

model::Causes check_grant_change(const Grant& before, const Grant& after, const GrantCaller& caller) {
  if (is_same(before.spec, after.spec)) return {};
  switch (caller.role) {
    case GrantRole::volume_controller: return check_controller(before.spec, after.spec);
    case GrantRole::agent: return check_agent(before.spec, after.spec, caller);
    case GrantRole::person: return check_person(before.spec, after.spec, caller);
  }
  return {};
}

bool mirror_grant(const GrantSpec& grant, model::longhorn::VolumeStatus& status) {
  if (status.epoch == grant.epoch) return false;
  status.epoch = grant.epoch;
  return true;
}

}  // namespace moor::attach
