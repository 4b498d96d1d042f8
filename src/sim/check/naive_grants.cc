// What must be true of every change of a Grant, said again in the plainest way: by comparing the record
// before and after and looking at nothing that the rules of the product look at.
#include <fmt/format.h>

#include <algorithm>

#include "sim/check/checks.h"
#include "sim/check/support.h"

namespace moor::sim {
namespace {

using namespace check;

class NaiveGrants final : public Checker {
 public:
  NaiveGrants() : Checker("GRANT") {}

  void on_commit(const Reality& reality, const Commit& commit) override {
    ready_.note(commit);
    for (const Change& change : commit.changes) {
      const auto grant = changed<mr::Grant>(change);
      if (!grant || !grant->before || !grant->after) continue;
      const mr::GrantSpec& was = grant->before->spec;
      const mr::GrantSpec& is = grant->after->spec;
      if (is.epoch > was.epoch + given_out(was, is))
        violated(
            fmt::format("volume {}: its Grant jumps from epoch {} to {}", change.name, was.epoch, is.epoch));
      if (is.standby && is.standby != was.standby) stands_by(reality, commit, change, was, is);
      if (is.active && is.active != was.active && is.active != was.standby)
        started(reality, commit, change, was, is);
      if (is.epoch > was.epoch && !(is.active && is.active->epoch == is.epoch) &&
          !(is.standby && is.standby->epoch == is.epoch) && !is_burnt(was, is))
        violated(fmt::format("volume {}: epoch {} was taken and given to nobody", change.name, is.epoch));
    }
  }

 private:
  // A standby that never became active goes: so that it never can, an epoch is spent for nobody.
  static bool is_burnt(const mr::GrantSpec& was, const mr::GrantSpec& is) {
    return was.standby && is.standby != was.standby && is.active != was.standby &&
           std::any_of(is.proofs.begin(), is.proofs.end(), [&](const mr::ReleaseProof& proof) {
             return proof.holder == *was.standby && proof.type == mr::ProofType::fenced &&
                    proof.fenced_by_epoch == was.epoch + 1;
           });
  }

  static std::int64_t given_out(const mr::GrantSpec& was, const mr::GrantSpec& is) {
    std::int64_t count = 0;
    if (is.active && is.active->epoch > was.epoch) ++count;
    if (is.standby && is.standby->epoch > was.epoch) ++count;
    const bool own = is.active && is.active->epoch == was.epoch + 1;
    if (is_burnt(was, is) && !own) ++count;
    return std::max<std::int64_t>(count, 1);
  }

  // A standby is for an attached volume that is recorded as moving there, and for a node that answers.
  void stands_by(const Reality& reality, const Commit& commit, const Change& change, const mr::GrantSpec& was,
                 const mr::GrantSpec& is) const {
    const mr::GrantHolder& holder = *is.standby;
    const auto volume = reality.get<lh::Volume>(change.space, change.name);
    if (!volume || !volume->status.move || volume->status.move->destination_node_id != holder.node)
      return violated(fmt::format("volume {}: {} shall stand by, and no move to that node is recorded",
                                  change.name, describe(holder)));
    if (holder.epoch <= was.epoch)
      violated(fmt::format("volume {}: {} shall stand by, and {} had been given out before", change.name,
                           describe(holder), was.epoch));
    const auto engine = reality.get<lh::Engine>(change.space, holder.engine);
    if (!engine || engine->spec.node_id != holder.node ||
        engine->spec.desire_state != lh::InstanceState::running || engine->spec.active)
      violated(
          fmt::format("volume {}: {} shall stand by, and its Engine was not told so in the same "
                      "transaction",
                      change.name, describe(holder)));
    for (const auto& [name, mode] : is.members)
      if (mode == mr::MemberMode::wo)
        violated(fmt::format("volume {}: {} shall stand by while member {} is rebuilt", change.name,
                             describe(holder), name));
    if (!was.standby && ready_.has_long_been(holder.node, false, commit.at))
      violated(fmt::format("volume {}: {} shall stand by on a node that has not answered for long",
                           change.name, describe(holder)));
  }

  void started(const Reality& reality, const Commit& commit, const Change& change, const mr::GrantSpec& was,
               const mr::GrantSpec& is) const {
    const mr::GrantHolder& holder = *is.active;
    if (holder.epoch != was.epoch + 1 && !(is_burnt(was, is) && holder.epoch == was.epoch + 2))
      return violated(
          fmt::format("volume {}: the start on node {} got epoch {}, and {} had been given out before",
                      change.name, holder.node, holder.epoch, was.epoch));
    const auto engine = reality.get<lh::Engine>(change.space, holder.engine);
    if (!engine || engine->spec.node_id != holder.node ||
        engine->spec.desire_state != lh::InstanceState::running)
      return violated(
          fmt::format("volume {}: epoch {} was granted to node {}, and Engine {} was not told in the same "
                      "transaction",
                      change.name, holder.epoch, holder.node, holder.engine));
    if (ready_.has_long_been(holder.node, false, commit.at))
      violated(fmt::format("volume {}: epoch {} was granted to node {}, which has not answered for long",
                           change.name, holder.epoch, holder.node));
    check_members(reality, commit, change, is, *engine);
  }

  // Without a wait every member that is in step and whose node answers takes part.
  void check_members(const Reality& reality, const Commit& commit, const Change& change,
                     const mr::GrantSpec& grant, const lh::Engine& engine) const {
    const auto volume = reality.get<lh::Volume>(change.space, change.name);
    if (!volume || model::is_condition_true(volume->status.conditions, lh::kVolumeOpening)) return;
    for (const auto& [name, mode] : grant.members) {
      if (mode != mr::MemberMode::rw || engine.spec.replica_address_map.contains(name)) continue;
      const auto replica = reality.get<lh::Replica>(change.space, name);
      if (!replica || !ready_.has_long_been(replica->spec.node_id, true, commit.at)) continue;
      violated(fmt::format(
          "volume {}: epoch {} starts at once without member {}, whose node {} answers: it will be thrown "
          "out of the set though a moment's patience would have kept it",
          change.name, grant.active->epoch, name, replica->spec.node_id));
    }
  }

  Readiness ready_;
};

}  // namespace

std::unique_ptr<Checker> naive_model_of_grants() {
  return std::make_unique<NaiveGrants>();
}

}  // namespace moor::sim
