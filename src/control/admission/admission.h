// What may be written to the kinds of the attachment book, and by whom; beyond what an object can tell by
// itself (model) and what a node's identity may touch at all (registry/node_scope).
//
// - Volume: spec.nodeID, migrationNodeID, disableFrontend and lastAttachedBy are the system's; a new one gets
//   its label.
// - VolumeAttachment: tickets are numbered and dated here; access modes limit them.
// - Grant: each part by whoever 0200 names; a Grant lives as long as its volume.
// - The volume's token is filled in once; settings have valid values; the Ledger is the system's.
// - An engine that may write, and the replicas that hold the data, are not deleted by hand.
#pragma once

#include "base/clock.h"
#include "base/random.h"
#include "registry/admission.h"

namespace moor::control {

class ControlAdmission final : public registry::Admission {
 public:
  ControlAdmission(const Clock& clock, Random& random) : clock_(clock), random_(random) {}
  bool handles(const model::KindInfo& kind) const override;
  registry::Answer<void> mutate(const registry::AdmissionRequest& request, Json& object) override;
  registry::Answer<void> validate(const registry::AdmissionRequest& request, const Json& object) override;
  registry::Answer<void> before_delete(const registry::AdmissionRequest& request) override;

 private:
  const Clock& clock_;
  Random& random_;
};

}  // namespace moor::control
