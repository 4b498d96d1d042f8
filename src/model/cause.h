// Why an object is refused, field by field, in the form that Status.details.causes carries: a machine's
// reason, a sentence for people and the path of the field.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace moor::model {

struct Cause {
  std::string reason;  // FieldValueRequired, FieldValueInvalid, …
  std::string message;
  std::string field;  // spec.disks[disk-1].path
  bool operator==(const Cause&) const = default;
};

using Causes = std::vector<Cause>;
// One answer lists at most this many; the sender mends those and sees the rest next time.
inline constexpr std::size_t kMaxCauses = 100;

Cause required(std::string_view field, std::string_view detail = {});
Cause invalid(std::string_view field, const Json& value, std::string_view detail);
Cause type_invalid(std::string_view field, const Json& value, std::string_view wanted_type);
Cause not_supported(std::string_view field, const Json& value,
                    const std::vector<std::string_view>& supported);
Cause duplicate(std::string_view field, const Json& value);
Cause forbidden(std::string_view field, std::string_view detail);
Cause too_long(std::string_view field, std::size_t limit_bytes);
Cause too_many(std::string_view field, std::size_t count, std::size_t limit);
Cause immutable(std::string_view field, const Json& value);

// "spec.size: Invalid value: …", several as "[a, b]".
std::string to_text(const Causes& causes);

}  // namespace moor::model
