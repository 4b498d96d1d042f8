#include "model/longhorn/backing_image.h"

#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(BackingImageDiskFileSpec, "A copy of the image on one disk, as it is wanted.") {
  f.add("evictionRequested", &BackingImageDiskFileSpec::eviction_requested,
        "Whether the copy is to leave the disk.");
  f.add("dataEngine", &BackingImageDiskFileSpec::data_engine, "What uses the copy.");
}

MOOR_DESCRIBE(BackingImageDiskFileStatus, "A copy of the image on one disk, as it is.") {
  f.add("dataEngine", &BackingImageDiskFileStatus::data_engine, "What uses the copy.");
  f.add("state", &BackingImageDiskFileStatus::state, "State of the copy.");
  f.add("progress", &BackingImageDiskFileStatus::progress, "Percent done.");
  f.add("message", &BackingImageDiskFileStatus::message, "What went wrong.");
  f.add("lastStateTransitionTime", &BackingImageDiskFileStatus::last_state_transition_time,
        "When the state last changed.");
}

MOOR_DESCRIBE(BackingImageSpec, "Where the image comes from and where copies are kept.") {
  f.add("diskFileSpecMap", &BackingImageSpec::disk_file_spec_map, "Copies that are wanted, by disk UUID.");
  f.add("checksum", &BackingImageSpec::checksum, "SHA-512 that the image must have; empty: not checked.")
      .immutable();
  f.add("sourceType", &BackingImageSpec::source_type, "Where the image comes from.").immutable();
  f.add("sourceParameters", &BackingImageSpec::source_parameters,
        "More about the source, such as url or volume-name.")
      .immutable();
  f.add("minNumberOfCopies", &BackingImageSpec::min_number_of_copies, "How many copies are kept at least.")
      .default_to(1)
      .at_least(1);
  f.add("diskSelector", &BackingImageSpec::disk_selector, "Tags that a disk must have to hold a copy.");
  f.add("nodeSelector", &BackingImageSpec::node_selector, "Tags that a node must have to hold a copy.");
  f.add("secret", &BackingImageSpec::secret, "Secret for an encrypted image.");
  f.add("secretNamespace", &BackingImageSpec::secret_namespace, "Namespace of that secret.");
  f.add("dataEngine", &BackingImageSpec::data_engine, "What uses the image.").default_to("v1").immutable();
}

MOOR_DESCRIBE(BackingImageStatus, "What is known of the image.") {
  f.add("ownerID", &BackingImageStatus::owner_id, "Node or server that looks after the object.");
  f.add("uuid", &BackingImageStatus::uuid, "Identity of the content.");
  f.add("size", &BackingImageStatus::size, "Size of the file in bytes.");
  f.add("virtualSize", &BackingImageStatus::virtual_size,
        "Size that a volume made from it must have at least; 0 until known.");
  f.add("realSize", &BackingImageStatus::real_size, "Bytes that the file uses on disk; 0 until known.");
  f.add("checksum", &BackingImageStatus::checksum, "SHA-512 of the image.");
  f.add("diskFileStatusMap", &BackingImageStatus::disk_file_status_map, "The copies, by disk UUID.");
  f.add("diskLastRefAtMap", &BackingImageStatus::disk_last_ref_at_map, "When each copy was last in use.");
}

MOOR_DESCRIBE(BackingImage, "An image that volumes are made from.") {
  f.type_meta(kApiVersion, "BackingImage");
  f.add("metadata", &BackingImage::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &BackingImage::spec, "Where the image comes from and where copies are kept.");
  f.add("status", &BackingImage::status, "What is known of the image.");
}

MOOR_KIND(
    BackingImage, .group = kGroup, .version = kVersion, .kind = "BackingImage", .plural = "backingimages",
    .singular = "backingimage", .short_names = {"lhbi"}, .categories = {"longhorn"}, .custom = true,
    .columns = {{.name = "UUID", .path = ".status.uuid", .description = "Identity of the content."},
                {.name = "SourceType", .path = ".spec.sourceType", .description = "Where it comes from."},
                {.name = "Size", .path = ".status.size", .description = "Size of the file in bytes."},
                {.name = "VirtualSize",
                 .path = ".status.virtualSize",
                 .description = "Size of a volume made from it."},
                age_column()},
    .check = typed_check<BackingImage, validate_backing_image>)

Causes validate_backing_image(const BackingImage& image) {
  Causes causes;
  const auto needs = [&](BackingImageSource source, const char* parameter) {
    const auto found = image.spec.source_parameters.find(parameter);
    if (image.spec.source_type == source &&
        (found == image.spec.source_parameters.end() || found->second.empty()))
      causes.push_back(required(std::string("spec.sourceParameters[") + parameter + "]"));
  };
  needs(BackingImageSource::download, "url");
  needs(BackingImageSource::export_from_volume, "volume-name");
  needs(BackingImageSource::restore, "backup-url");
  needs(BackingImageSource::clone, "backing-image");
  return causes;
}

}  // namespace moor::model::longhorn
