#include "model/cause.h"

#include <fmt/format.h>

namespace moor::model {
namespace {

// Values may be large (a whole spec): the message stays readable.
std::string value_text(const Json& value) {
  constexpr std::size_t kLongestValue = 256;
  std::string text = moor::to_text(value);
  if (text.size() > kLongestValue) text = text.substr(0, kLongestValue) + "…";
  return text;
}

}  // namespace

Cause required(std::string_view field, std::string_view detail) {
  std::string message = "Required value";
  if (!detail.empty()) message += fmt::format(": {}", detail);
  return {"FieldValueRequired", std::move(message), std::string(field)};
}

Cause invalid(std::string_view field, const Json& value, std::string_view detail) {
  return {"FieldValueInvalid", fmt::format("Invalid value: {}: {}", value_text(value), detail),
          std::string(field)};
}

Cause type_invalid(std::string_view field, const Json& value, std::string_view wanted_type) {
  return {"FieldValueTypeInvalid",
          fmt::format("Invalid value: {}: must be of type {}", value_text(value), wanted_type),
          std::string(field)};
}

Cause not_supported(std::string_view field, const Json& value,
                    const std::vector<std::string_view>& supported) {
  std::string list;
  for (const std::string_view one : supported) list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", one);
  return {"FieldValueNotSupported",
          fmt::format("Unsupported value: {}: supported values: {}", value_text(value), list),
          std::string(field)};
}

Cause duplicate(std::string_view field, const Json& value) {
  return {"FieldValueDuplicate", fmt::format("Duplicate value: {}", value_text(value)), std::string(field)};
}

Cause forbidden(std::string_view field, std::string_view detail) {
  return {"FieldValueForbidden", fmt::format("Forbidden: {}", detail), std::string(field)};
}

Cause too_long(std::string_view field, std::size_t limit_bytes) {
  return {"FieldValueTooLong", fmt::format("Too long: may not be more than {} bytes", limit_bytes),
          std::string(field)};
}

Cause too_many(std::string_view field, std::size_t count, std::size_t limit) {
  return {"FieldValueTooMany", fmt::format("Too many: {}: must have at most {} items", count, limit),
          std::string(field)};
}

Cause immutable(std::string_view field, const Json& value) {
  return invalid(field, value, "field is immutable");
}

std::string to_text(const Causes& causes) {
  std::string text;
  for (const Cause& cause : causes)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", cause.field, cause.message);
  return causes.size() > 1 ? fmt::format("[{}]", text) : text;
}

}  // namespace moor::model
