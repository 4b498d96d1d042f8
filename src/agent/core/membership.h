// May an engine's change of members be committed, and what is its answer? Pure.
//
// The Grant handed in must be a fresh read, not a cached one. The rule that matters: `refuse` tells the
// engine "not committed and never will be", so it is said only when that is certain; whenever a write may or
// may not have happened, the Grant is read again and this is asked again.
#pragma once

#include "agent/core/facts.h"
#include "model/mooring/grant.h"

namespace moor::agent {

struct MembershipDecision {
  enum class Verdict {
    commit,      // write `grant`, conditioned on the version that was read; then ask again
    confirm,     // it stands in the Grant: tell the engine
    superseded,  // the Grant names another process, or none: this engine must end
    refuse,      // another change came first: the engine must look again
  };
  Verdict verdict = Verdict::refuse;
  model::mooring::Grant grant;  // commit
  std::string message;
};

// The process that this epoch of this engine is, on this life of this node, and no other.
bool is_holder(const std::optional<model::mooring::GrantHolder>& holder, const Self& self,
               const std::string& engine, std::int64_t epoch);
MembershipDecision decide_membership(const model::mooring::Grant& grant, const Self& self,
                                     const std::string& engine, const Proposal& proposal);

}  // namespace moor::agent
