#include "model/mooring/ledger.h"

#include "model/make_kind.h"

namespace moor::model::mooring {

MOOR_DESCRIBE(LedgerAttachment, "One place among the volumes that the node may have attached.") {
  f.omit_empty();
  f.add("since", &LedgerAttachment::since, "Since when the volume has this place.");
}

MOOR_DESCRIBE(LedgerSpec, "What of the node's limits is given out.") {
  f.omit_empty();
  f.add("attachments", &LedgerSpec::attachments,
        "Volumes that have a place on the node, by namespace and name; kept while the node has a limit.");
  f.add("disks", &LedgerSpec::disks, "Bytes promised on each disk, by the replica's namespace and name.");
}

MOOR_DESCRIBE(Ledger, "What of a node's limits is given out; written by every decision that spends one.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "Ledger");
  f.add("metadata", &Ledger::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("spec", &Ledger::spec, "What is given out.").omit_empty(false);
}

namespace {

Json attachments_cell(const Json& object, Time) {
  const Json* attachments = object.find_path({"spec", "attachments"});
  return static_cast<std::int64_t>(attachments == nullptr ? 0 : attachments->size());
}

Json replicas_cell(const Json& object, Time) {
  const Json* disks = object.find_path({"spec", "disks"});
  std::int64_t count = 0;
  for (std::size_t i = 0; disks != nullptr && disks->is_object() && i < disks->size(); ++i)
    count += static_cast<std::int64_t>(disks->value_at(i).size());
  return count;
}

}  // namespace

MOOR_KIND(Ledger, .group = kGroup, .version = kVersion, .kind = "Ledger", .plural = "ledgers",
          .singular = "ledger", .short_names = {"mled"}, .categories = {"mooring"}, .namespaced = false,
          .has_status = false, .custom = true,
          .columns = {{.name = "Attachments",
                       .type = "integer",
                       .description = "Volumes that have a place on the node.",
                       .cell = attachments_cell},
                      {.name = "Replicas",
                       .type = "integer",
                       .description = "Replicas that have room on its disks.",
                       .cell = replicas_cell},
                      age_column()})

}  // namespace moor::model::mooring
