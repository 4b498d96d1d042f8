#include "model/meta/object_meta.h"

#include <algorithm>

#include "model/describe.h"
#include "model/meta/package.h"

namespace moor::model {

MOOR_DESCRIBE(
    OwnerReference,
    "Names an object that this one belongs to. When the last owner goes, this object is collected.") {
  f.omit_empty();
  f.add("apiVersion", &OwnerReference::api_version, "API version of the owner.").required();
  f.add("kind", &OwnerReference::kind, "Kind of the owner.").required();
  f.add("name", &OwnerReference::name, "Name of the owner, in the same namespace or cluster-wide.")
      .required();
  f.add("uid", &OwnerReference::uid,
        "UID of the owner; an object of the same name made later is another owner.")
      .required();
  f.add("controller", &OwnerReference::controller,
        "Whether this owner manages the object; at most one does.");
  f.add("blockOwnerDeletion", &OwnerReference::block_owner_deletion,
        "Whether a foreground deletion of the owner waits until this object is gone.");
}

MOOR_DESCRIBE(ManagedFieldsEntry,
              "Which fields one manager set, so that others can change theirs without harm.") {
  f.omit_empty();
  f.add("manager", &ManagedFieldsEntry::manager, "Name of the program or person that manages these fields.");
  f.add("operation", &ManagedFieldsEntry::operation, "How the fields were set: Apply or Update.");
  f.add("apiVersion", &ManagedFieldsEntry::api_version, "API version that the field paths follow.");
  f.add("time", &ManagedFieldsEntry::time, "When this entry last changed.");
  f.add("fieldsType", &ManagedFieldsEntry::fields_type, "Format of the field set; always FieldsV1.");
  f.add("fieldsV1", &ManagedFieldsEntry::fields_v1, "The set of fields, as a tree of keys.");
  f.add("subresource", &ManagedFieldsEntry::subresource,
        "Subresource through which the fields were set; empty for the object itself.");
}

MOOR_DESCRIBE(
    ObjectMeta,
    "Metadata that every object has: its name, its identity, its place in time and whom it belongs to.") {
  f.omit_empty();
  f.add("name", &ObjectMeta::name,
        "Name, unique among the objects of its kind in a namespace. It cannot change.");
  f.add("generateName", &ObjectMeta::generate_name,
        "Prefix from which the server makes a unique name when none is given.");
  f.add("namespace", &ObjectMeta::space,
        "Namespace of the object; empty for kinds that are cluster-wide. It cannot change.");
  f.add("uid", &ObjectMeta::uid, "Identity in time and space, given by the server; never reused. Read-only.");
  f.add("resourceVersion", &ObjectMeta::resource_version,
        "Version of this object as the server stored it; a write that names an older one is refused. "
        "Read-only.");
  f.add("generation", &ObjectMeta::generation, "Counts changes of the wanted state. Read-only.");
  f.add("creationTimestamp", &ObjectMeta::creation_timestamp,
        "When the server created the object. Read-only.");
  f.add("deletionTimestamp", &ObjectMeta::deletion_timestamp,
        "When deletion was asked for; the object goes once its finalizers are gone. Read-only.");
  f.add("deletionGracePeriodSeconds", &ObjectMeta::deletion_grace_period_seconds,
        "Seconds the object was given to end by itself. Read-only.");
  f.add("labels", &ObjectMeta::labels, "Keys and values to select objects by.");
  f.add("annotations", &ObjectMeta::annotations,
        "Keys and values for tools and people; not for selecting. At most 256 KiB in all.");
  f.add("ownerReferences", &ObjectMeta::owner_references, "Objects that this one belongs to.")
      .list_map({"uid"})
      .atomic_items();
  f.add("finalizers", &ObjectMeta::finalizers,
        "Names of those who must finish their work before the object may go.")
      .list_set();
  f.add("managedFields", &ObjectMeta::managed_fields, "Who set which field; kept by the server.");
  f.add("selfLink", &ObjectMeta::self_link, "Not used; kept for old clients.");
}

MOOR_DESCRIBE(ListMeta, "Metadata of a list: the version it was read at and how to go on reading.") {
  f.omit_empty();
  f.add("resourceVersion", &ListMeta::resource_version,
        "Version of the store at which the list was read; a watch starts here.");
  f.add("continue", &ListMeta::continue_token, "Token for the next part of the list; empty at its end.");
  f.add("remainingItemCount", &ListMeta::remaining_item_count, "How many items follow, when that is known.");
  f.add("selfLink", &ListMeta::self_link, "Not used; kept for old clients.");
}

MOOR_DESCRIBE(ObjectReference, "Points to another object.") {
  f.omit_empty();
  f.add("apiVersion", &ObjectReference::api_version, "API version of the object.");
  f.add("kind", &ObjectReference::kind, "Kind of the object.");
  f.add("namespace", &ObjectReference::space, "Namespace of the object.");
  f.add("name", &ObjectReference::name, "Name of the object.");
  f.add("uid", &ObjectReference::uid, "UID of the object.");
  f.add("resourceVersion", &ObjectReference::resource_version,
        "Version of the object that is meant, if a certain one.");
  f.add("fieldPath", &ObjectReference::field_path, "Part of the object that is meant, if not the whole.");
}

bool ObjectMeta::has_finalizer(std::string_view finalizer) const {
  return std::find(finalizers.begin(), finalizers.end(), finalizer) != finalizers.end();
}

const OwnerReference* ObjectMeta::controller_owner() const {
  for (const OwnerReference& owner : owner_references)
    if (owner.controller.value_or(false)) return &owner;
  return nullptr;
}

}  // namespace moor::model
