// One setting of the system. The value is a string; which settings exist and what their values mean is said
// by the rooms that read them.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/meta/object_meta.h"

namespace moor::model::longhorn {

struct SettingStatus {
  bool applied = false;
};
MOOR_DESCRIBED(SettingStatus);

struct Setting {
  ObjectMeta metadata = {};
  std::string value = {};
  SettingStatus status = {};
};
MOOR_DESCRIBED_KIND(Setting);

}  // namespace moor::model::longhorn
