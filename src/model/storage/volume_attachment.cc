#include "model/storage/volume_attachment.h"

#include "model/make_kind.h"

namespace moor::model::storage {

MOOR_DESCRIBE(VolumeAttachmentSource, "What is attached.") {
  f.omit_empty();
  f.add("persistentVolumeName", &VolumeAttachmentSource::persistent_volume_name,
        "PersistentVolume to attach.");
  f.add("inlineVolumeSpec", &VolumeAttachmentSource::inline_volume_spec,
        "A volume that no PersistentVolume stands for.");
}

MOOR_DESCRIBE(VolumeAttachmentSpec, "What is to be attached where. It cannot change.") {
  f.omit_empty();
  f.add("attacher", &VolumeAttachmentSpec::attacher, "Driver that does it.").required().not_empty();
  f.add("source", &VolumeAttachmentSpec::source, "What is attached.").required();
  f.add("nodeName", &VolumeAttachmentSpec::node_name, "Node it is attached to.").required().not_empty();
}

MOOR_DESCRIBE(VolumeError, "What went wrong.") {
  f.omit_empty();
  f.add("time", &VolumeError::time, "When.");
  f.add("message", &VolumeError::message, "What, in a sentence.");
  f.add("errorCode", &VolumeError::error_code, "The driver's code.");
}

MOOR_DESCRIBE(VolumeAttachmentStatus, "What is known of the attachment.") {
  f.omit_empty();
  f.add("attached", &VolumeAttachmentStatus::attached, "Whether it is attached.")
      .required()
      .omit_empty(false);
  f.add("attachmentMetadata", &VolumeAttachmentStatus::attachment_metadata, "What the node needs to use it.");
  f.add("attachError", &VolumeAttachmentStatus::attach_error, "Why attaching failed.");
  f.add("detachError", &VolumeAttachmentStatus::detach_error, "Why detaching failed.");
  f.preserve(&VolumeAttachmentStatus::extra);
}

MOOR_DESCRIBE(VolumeAttachment, "Asks a CSI driver to attach a volume to a node.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "VolumeAttachment");
  f.add("metadata", &VolumeAttachment::metadata, "Name, labels and the rest of the metadata.")
      .omit_empty(false);
  f.add("spec", &VolumeAttachment::spec, "What is to be attached where.").required().immutable();
  f.add("status", &VolumeAttachment::status, "What is known of the attachment.");
}

MOOR_KIND(VolumeAttachment, .group = kGroup, .version = kVersion, .kind = "VolumeAttachment",
          .plural = "volumeattachments", .singular = "volumeattachment", .namespaced = false,
          .columns = {{.name = "Attacher", .path = ".spec.attacher", .description = "Driver that does it."},
                      {.name = "PV",
                       .path = ".spec.source.persistentVolumeName",
                       .description = "What is attached."},
                      {.name = "Node", .path = ".spec.nodeName", .description = "Node it is attached to."},
                      {.name = "Attached",
                       .type = "boolean",
                       .path = ".status.attached",
                       .description = "Whether it is attached."},
                      age_column()},
          .strategic_patch = true, .check = typed_check<VolumeAttachment, validate_volume_attachment>)

Causes validate_volume_attachment(const VolumeAttachment& attachment) {
  Causes causes;
  const VolumeAttachmentSource& source = attachment.spec.source;
  const bool named = source.persistent_volume_name && !source.persistent_volume_name->empty();
  const bool is_inline = !source.inline_volume_spec.is_null();
  if (!named && !is_inline)
    causes.push_back(required("spec.source", "must name a persistentVolumeName or give an inlineVolumeSpec"));
  if (named && is_inline)
    causes.push_back(invalid("spec.source", *source.persistent_volume_name,
                             "must be one of persistentVolumeName and inlineVolumeSpec, not both"));
  return causes;
}

}  // namespace moor::model::storage
