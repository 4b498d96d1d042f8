#include "model/core/namespace.h"

#include "model/make_kind.h"

namespace moor::model::core {

MOOR_DESCRIBE(NamespaceSpec, "What is wanted of the namespace.") {
  f.omit_empty();
  f.add("finalizers", &NamespaceSpec::finalizers, "Who must finish before the namespace may go.");
  f.preserve(&NamespaceSpec::extra);
}

MOOR_DESCRIBE(NamespaceStatus, "What is known of the namespace.") {
  f.omit_empty();
  f.add("phase", &NamespaceStatus::phase, "Active or Terminating.");
  f.add("conditions", &NamespaceStatus::conditions, "What holds up a deletion.").list_map({"type"});
  f.preserve(&NamespaceStatus::extra);
}

MOOR_DESCRIBE(Namespace, "A space for names: objects in different namespaces may have the same name.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "Namespace");
  f.add("metadata", &Namespace::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("spec", &Namespace::spec, "What is wanted of the namespace.");
  f.add("status", &Namespace::status, "What is known of the namespace.");
}

MOOR_KIND(Namespace, .version = kVersion, .kind = "Namespace", .plural = "namespaces",
          .singular = "namespace", .short_names = {"ns"}, .namespaced = false, .name_rule = NameRule::label,
          .columns = {{.name = "Status", .path = ".status.phase", .description = "Active or Terminating."},
                      age_column()},
          .selectable_fields = {"status.phase"}, .strategic_patch = true)

}  // namespace moor::model::core
