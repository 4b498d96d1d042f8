// A claim: a user's request for storage, bound to one PersistentVolume.
#pragma once

#include <map>

#include "model/core/group.h"
#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/quantity.h"

namespace moor::model::core {

struct ClaimResources {
  std::map<std::string, Quantity> requests = {};
  std::map<std::string, Quantity> limits = {};
};
MOOR_DESCRIBED(ClaimResources);

struct PersistentVolumeClaimSpec {
  std::vector<std::string> access_modes = {};
  Json selector = {};
  ClaimResources resources = {};
  std::string volume_name = {};
  std::optional<std::string> storage_class_name = {};  // absent: the default class; empty: none
  std::string volume_mode = {};
  Json data_source = {};
  Json data_source_ref = {};
  std::optional<std::string> volume_attributes_class_name = {};
  Json extra = {};
};
MOOR_DESCRIBED(PersistentVolumeClaimSpec);

struct ClaimCondition {
  std::string type = {};
  std::string status = {};
  std::optional<Time> last_probe_time = {};
  std::optional<Time> last_transition_time = {};
  std::string reason = {};
  std::string message = {};
};
MOOR_DESCRIBED(ClaimCondition);

struct PersistentVolumeClaimStatus {
  std::string phase = {};  // Pending, Bound, Lost
  std::vector<std::string> access_modes = {};
  std::map<std::string, Quantity> capacity = {};
  std::vector<ClaimCondition> conditions = {};
  std::map<std::string, Quantity> allocated_resources = {};
  std::map<std::string, std::string> allocated_resource_statuses = {};
  Json extra = {};
};
MOOR_DESCRIBED(PersistentVolumeClaimStatus);

struct PersistentVolumeClaim {
  ObjectMeta metadata = {};
  PersistentVolumeClaimSpec spec = {};
  PersistentVolumeClaimStatus status = {};
};
MOOR_DESCRIBED_KIND(PersistentVolumeClaim);

Causes validate_claim(const PersistentVolumeClaim& claim);
// A bound claim may only grow; an unbound one may still be bound.
Causes validate_claim_update(const PersistentVolumeClaim& before, const PersistentVolumeClaim& after);

}  // namespace moor::model::core
