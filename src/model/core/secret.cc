#include "model/core/secret.h"

#include <algorithm>

#include "model/make_kind.h"

namespace moor::model::core {

MOOR_DESCRIBE(Secret, "Secret data, such as a password, a token or a key.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "Secret");
  f.add("metadata", &Secret::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("immutable", &Secret::immutable, "Whether the data can never change.");
  f.add("data", &Secret::data, "The values in base64, by key.");
  f.add("stringData", &Secret::string_data, "Values in plain text, for writing only; they become data.");
  f.add("type", &Secret::type, "What the secret is for.").default_to("Opaque");
}

namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void fold_string_data(Json& object) {
  const Json* plain = object.find("stringData");
  if (plain == nullptr || !plain->is_object()) return;
  const Json copy = *plain;
  object.erase("stringData");
  Json& data = object["data"];
  if (!data.is_object()) data = Json::object();
  for (std::size_t i = 0; i < copy.size(); ++i)
    data.set(copy.key_at(i),
             copy.value_at(i).is_string() ? Json(to_base64(copy.value_at(i).as_string())) : copy.value_at(i));
}

Json data_cell(const Json& object, Time) {
  const Json* data = object.find("data");
  return static_cast<std::int64_t>(data == nullptr ? 0 : data->size());
}

bool is_secret_key(std::string_view key) {
  return !key.empty() && key.size() <= 253 && key != "." && key != ".." &&
         std::all_of(key.begin(), key.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

MOOR_KIND(Secret, .version = kVersion, .kind = "Secret", .plural = "secrets", .singular = "secret",
          .has_status = false,
          .columns = {{.name = "Type", .path = ".type", .description = "What the secret is for."},
                      {.name = "Data",
                       .type = "integer",
                       .description = "How many values it has.",
                       .cell = data_cell},
                      age_column()},
          .selectable_fields = {"type"}, .strategic_patch = true,
          .check = typed_check<Secret, validate_secret>,
          .check_update = typed_check_update<Secret, validate_secret_update>, .fill = fold_string_data)

Causes validate_secret(const Secret& secret) {
  Causes causes;
  constexpr std::size_t kMaxBytes = 1 << 20;
  std::size_t bytes = 0;
  for (const auto& [key, value] : secret.data) {
    bytes += value.size();
    if (!is_secret_key(key))
      causes.push_back(
          invalid("data[" + key + "]", key, "a key has up to 253 letters, digits, '-', '_' or '.'"));
    if (!from_base64(value)) causes.push_back(invalid("data[" + key + "]", "<hidden>", "must be base64"));
  }
  if (bytes > kMaxBytes) causes.push_back(too_long("data", kMaxBytes));
  return causes;
}

Causes validate_secret_update(const Secret& before, const Secret& after) {
  Causes causes;
  if (before.type != after.type) causes.push_back(model::immutable("type", after.type));
  if (!before.immutable.value_or(false)) return causes;
  if (before.data != after.data)
    causes.push_back(forbidden("data", "field is immutable when `immutable` is set"));
  if (!after.immutable.value_or(false))
    causes.push_back(forbidden("immutable", "field is immutable when `immutable` is set"));
  return causes;
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    unsigned group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i)
      text.push_back(i <= count ? kAlphabet[group >> (18 - 6 * i) & 63] : '=');
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    unsigned group = 0;
    std::size_t padding = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const char c = text[at + i];
      const std::size_t digit = kAlphabet.find(c);
      const bool may_pad = at + 4 == text.size() && i >= 2;
      if (c == '=' && may_pad) {
        ++padding;
        group <<= 6;
        continue;
      }
      if (digit == std::string_view::npos || padding > 0) return std::nullopt;
      group = group << 6 | static_cast<unsigned>(digit);
    }
    for (std::size_t i = 0; i < 3 - padding; ++i)
      bytes.push_back(static_cast<char>(group >> (16 - 8 * i) & 255));
  }
  return bytes;
}

}  // namespace moor::model::core
