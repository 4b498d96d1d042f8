// Operations on the Grant, the fencing record of a volume: each takes a record and gives the next one or says
// why not; whoever calls writes it by compare-and-swap. And who may change which part, for admission.
//
// An error changes nothing. `invalid`: the request can never succeed; `conflict`: not in this state.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "model/cause.h"
#include "model/longhorn/volume.h"
#include "model/mooring/grant.h"

namespace moor::attach {

using model::mooring::Grant;
using model::mooring::GrantHolder;
using model::mooring::GrantSpec;
using model::mooring::ReleaseProof;

// Where an engine process is to run. Its epoch comes from the Grant.
struct EngineStart {
  std::string engine;
  std::string node;
  std::int64_t incarnation = 0;
};

// The next epoch, given to this start as the active engine (S3). Conflict while another holder is active: its
// release comes first, possibly in the same transaction.
Result<GrantSpec> grant_start(GrantSpec grant, const EngineStart& start);

// The active (or standby) holder is known to write no more: the proof is kept and the holder cleared (S12).
// The proof must fit: the holder named is the one in the record (S13: equal epoch and incarnation); Fenced
// needs a higher epoch; an Override names its person and says why.
Result<GrantSpec> release_active(GrantSpec grant, ReleaseProof proof);
Result<GrantSpec> release_standby(GrantSpec grant, ReleaseProof proof);

// The destination of a move gets an epoch above the active one; only when no member is WO.
Result<GrantSpec> set_standby(GrantSpec grant, const EngineStart& start);
// The standby becomes active; the former active holder is fenced by it.
Result<GrantSpec> activate_standby(GrantSpec grant);

// A move is decided: this start gets an epoch above all others and replaces whoever is active, on the other
// side of the move; a standby goes with it, its epoch burnt. Whoever is replaced is fenced once this one
// serves, and is proven released then: the move's record keeps its name until then.
Result<GrantSpec> grant_over(GrantSpec grant, const EngineStart& start);
// The record holds a proof of this holder's release.
bool has_proof(const GrantSpec& grant, const GrantHolder& holder);

// Keeps the newest kMaxProofs.
void record_proof(GrantSpec& grant, ReleaseProof proof);

// The proof that a holder's node lives a later life (absent: it does not, or is not known to).
std::optional<ReleaseProof> incarnation_proof(const GrantHolder& holder, std::int64_t incarnation_now,
                                              model::Time now);

enum class GrantRole { volume_controller, agent, person };

struct GrantCaller {
  GrantRole role = GrantRole::person;
  std::string name;              // for proofs: who
  std::string node;              // agents: their node
  std::int64_t incarnation = 0;  // agents: of their node, as the server knows it
};

// Who may change what (0200): the volume controller everything but members, generation, exportID and
// snapshot, and those too while nobody is active; the agent of `active` in its incarnation exactly those, and
// `unproven` to false; the agent of `standby` may make it active; a person may release the active holder by
// an Override in their name. Empty: allowed. The rules that need no caller are the model's
// (validate_grant_update).
model::Causes check_grant_change(const Grant& before, const Grant& after, const GrantCaller& caller);

// What Volume.status shows of the Grant, for people. Answers whether anything changed.
bool mirror_grant(const GrantSpec& grant, model::longhorn::VolumeStatus& status);

}  // namespace moor::attach
