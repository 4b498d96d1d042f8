// The Grant: the one fencing record of a volume, same name as the volume. Every change is a compare-and-swap,
// and no engine writes without being named here. Controllers set active and standby; the agent of standby may
// make itself active; only the agent of active, with equal epoch and incarnation, may change members.
// Admission checks the caller; the rules below need no caller.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/mooring/group.h"

namespace moor::model::mooring {

enum class MemberMode { rw, wo, err };
MOOR_ENUM_NAMES(MemberMode, "RW", "WO", "ERR")

// One start of an engine process. Each takes a new epoch (S3).
struct GrantHolder {
  std::int64_t epoch = 0;
  std::string engine = {};
  std::string node = {};
  std::int64_t incarnation = 0;
  bool operator==(const GrantHolder&) const = default;
};
MOOR_DESCRIBED(GrantHolder);

enum class ProofType { unmounted, fenced, incarnation_ended, override_by_operator };
MOOR_ENUM_NAMES(ProofType, "Unmounted", "Fenced", "IncarnationEnded", "Override")

// Why a holder is known to write no more (S12).
struct ReleaseProof {
  ProofType type = ProofType::unmounted;
  GrantHolder holder = {};
  std::int64_t fenced_by_epoch = 0;
  std::optional<MicroTime> at = {};
  std::string by = {};
  std::string message = {};
};
MOOR_DESCRIBED(ReleaseProof);

// The snapshot that the latest generation committed: after a crash it says whether to roll forward or back.
struct GrantSnapshot {
  std::string name = {};
  std::int64_t generation = 0;
  bool operator==(const GrantSnapshot&) const = default;
};
MOOR_DESCRIBED(GrantSnapshot);

inline constexpr std::size_t kMaxProofs = 32;  // the newest are kept
inline constexpr std::size_t kMaxMembers = 32;

struct GrantSpec {
  std::string volume = {};
  std::int64_t epoch = 0;  // the highest ever granted
  std::optional<GrantHolder> active = {};
  std::optional<GrantHolder> standby = {};
  std::map<std::string, MemberMode> members = {};
  std::int64_t generation = 0;
  std::string export_id = {};
  bool unproven = false;
  std::optional<GrantSnapshot> snapshot = {};
  std::vector<ReleaseProof> proofs = {};  // oldest first
  std::int64_t next_replica = 0;          // number of the next replica's name: none is ever used twice
};
MOOR_DESCRIBED(GrantSpec);

struct Grant {
  ObjectMeta metadata = {};
  GrantSpec spec = {};
};
MOOR_DESCRIBED_KIND(Grant);

Causes validate_grant(const Grant& grant);
// Epoch and generation never go down (S2); a member leaves ERR only through WO (S44); a member set ERR, and a
// new snapshot, raise the generation; the last RW member is never set ERR.
Causes validate_grant_update(const Grant& before, const Grant& after);

}  // namespace moor::model::mooring
