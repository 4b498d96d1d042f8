#include "agent/core/membership.h"

#include <fmt/format.h>

namespace moor::agent {

using Verdict = MembershipDecision::Verdict;

bool is_holder(const std::optional<model::mooring::GrantHolder>& holder, const Self& self,
               const std::string& engine, std::int64_t epoch) {
  return holder && holder->epoch == epoch && holder->engine == engine && holder->node == self.node &&
         holder->incarnation == self.incarnation;
}

MembershipDecision decide_membership(const model::mooring::Grant& grant, const Self& self,
                                     const std::string& engine, const Proposal& proposal) {
  const model::mooring::GrantSpec& spec = grant.spec;
  if (!is_holder(spec.active, self, engine, proposal.epoch)) {
    const std::string who =
        spec.active ? fmt::format("epoch {} on node {}", spec.active->epoch, spec.active->node) : "nobody";
    return {Verdict::superseded, {}, "the Grant names " + who};
  }
  if (spec.generation == proposal.generation && spec.members == proposal.members &&
      spec.export_id == proposal.export_id)
    return {Verdict::confirm, {}, ""};
  if (spec.generation != proposal.base)
    return {Verdict::refuse,
            {},
            fmt::format("the Grant is at generation {}, the change was made for {}", spec.generation,
                        proposal.base)};
  MembershipDecision decision{Verdict::commit, grant, ""};
  decision.grant.spec.members = proposal.members;
  decision.grant.spec.generation = proposal.generation;
  decision.grant.spec.export_id = proposal.export_id;
  // An engine that starts from an unproven Grant has heard every member: what it proposes is proven.
  decision.grant.spec.unproven = false;
  return decision;
}

}  // namespace moor::agent
