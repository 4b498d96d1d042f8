// A Kubernetes quantity: "10Gi", "500m", "1.5e3". The text is kept as it was written, so that reading and
// writing an object changes nothing; bytes() is the number that placement and provisioning need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moor::model {

struct Quantity {
  std::string text;

  // The value rounded up to a whole number; absent when the text is no quantity or the value does not fit.
  std::optional<std::int64_t> value() const;
  bool operator==(const Quantity&) const = default;
};

bool is_quantity(std::string_view text);
// Plain bytes in the largest binary unit that divides them: 1073741824 -> "1Gi".
Quantity quantity_of_bytes(std::int64_t bytes);

}  // namespace moor::model
