#include "model/coordination/lease.h"

#include "model/make_kind.h"

namespace moor::model::coordination {

MOOR_DESCRIBE(LeaseSpec, "Who holds the lease and for how long.") {
  f.omit_empty();
  f.add("holderIdentity", &LeaseSpec::holder_identity, "Who holds the lease.");
  f.add("leaseDurationSeconds", &LeaseSpec::lease_duration_seconds,
        "Seconds after the last renewal at which others may take it.")
      .at_least(1);
  f.add("acquireTime", &LeaseSpec::acquire_time, "When the present holder took it.");
  f.add("renewTime", &LeaseSpec::renew_time, "When it was last renewed.");
  f.add("leaseTransitions", &LeaseSpec::lease_transitions, "How often it has changed hands.").at_least(0);
  f.preserve(&LeaseSpec::extra);
}

MOOR_DESCRIBE(Lease, "A duty that one holder has for a time.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "Lease");
  f.add("metadata", &Lease::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("spec", &Lease::spec, "Who holds the lease and for how long.");
}

MOOR_KIND(Lease, .group = kGroup, .version = kVersion, .kind = "Lease", .plural = "leases",
          .singular = "lease", .has_status = false,
          .columns = {{.name = "Holder", .path = ".spec.holderIdentity", .description = "Who holds it."},
                      age_column()},
          .strategic_patch = true)

}  // namespace moor::model::coordination
