// Secret data: keys of volumes, credentials of backup targets. Values are base64 in `data`; `stringData` is
// only for writing and is folded into `data` by defaulting, so that it is never stored.
#pragma once

#include <map>

#include "model/core/group.h"
#include "model/kind.h"
#include "model/meta/object_meta.h"

namespace moor::model::core {

struct Secret {
  ObjectMeta metadata = {};
  std::optional<bool> immutable = {};
  std::map<std::string, std::string> data = {};  // base64
  std::map<std::string, std::string> string_data = {};
  std::string type = {};
};
MOOR_DESCRIBED_KIND(Secret);

Causes validate_secret(const Secret& secret);
Causes validate_secret_update(const Secret& before, const Secret& after);

std::string to_base64(std::string_view bytes);
// Absent when the text is not base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace moor::model::core
