// A lease: who holds a duty, and until when unless renewed. Leader election and node heartbeats use it.
#pragma once

#include "model/kind.h"
#include "model/meta/object_meta.h"

namespace moor::model::coordination {

inline constexpr std::string_view kGroup = "coordination.k8s.io";
inline constexpr std::string_view kVersion = "v1";
inline constexpr std::string_view kApiVersion = "coordination.k8s.io/v1";
inline constexpr std::string_view kPackage = "io.k8s.api.coordination.v1";

struct LeaseSpec {
  std::optional<std::string> holder_identity = {};
  std::optional<std::int32_t> lease_duration_seconds = {};
  std::optional<MicroTime> acquire_time = {};
  std::optional<MicroTime> renew_time = {};
  std::optional<std::int32_t> lease_transitions = {};
  Json extra = {};
};
MOOR_DESCRIBED(LeaseSpec);

struct Lease {
  ObjectMeta metadata = {};
  LeaseSpec spec = {};
};
MOOR_DESCRIBED_KIND(Lease);

}  // namespace moor::model::coordination
