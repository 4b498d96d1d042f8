#include "model/longhorn/setting.h"

#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(SettingStatus, "What became of the setting.") {
  f.add("applied", &SettingStatus::applied, "Whether the value is in force.").required();
}

MOOR_DESCRIBE(Setting, "One setting of the system.") {
  f.type_meta(kApiVersion, "Setting");
  f.add("metadata", &Setting::metadata, "Name of the setting and the rest of the metadata.");
  f.add("value", &Setting::value, "The value, as text.").required();
  f.add("status", &Setting::status, "What became of the setting.");
}

MOOR_KIND(Setting, .group = kGroup, .version = kVersion, .kind = "Setting", .plural = "settings",
          .singular = "setting", .short_names = {"lhs"}, .categories = {"longhorn"}, .custom = true,
          .columns = {{.name = "Value", .path = ".value", .description = "The value."},
                      {.name = "Applied",
                       .type = "boolean",
                       .path = ".status.applied",
                       .description = "Whether it is in force."},
                      age_column()})

}  // namespace moor::model::longhorn
