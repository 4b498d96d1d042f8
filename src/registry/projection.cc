#include "registry/projection.h"

#include <algorithm>
#include <charconv>

#include "base/json_share.h"
#include "base/log.h"
#include "registry/keys.h"

namespace moor::registry {
namespace {

std::string assignment(std::string_view name, std::string_view value) {
  std::string text;
  text.reserve(name.size() + 1 + value.size());
  return text.append(name).append("=").append(value);
}

void add_label_terms(const Json& metadata, std::vector<store::Term>& terms) {
  const Json* labels = metadata.find("labels");
  for (std::size_t i = 0; labels != nullptr && labels->is_object() && i < labels->size(); ++i) {
    if (labels->value_at(i).is_string())
      terms.push_back(label_term(labels->key_at(i), labels->value_at(i).as_string()));
  }
}

void add_owner_terms(const Json& metadata, std::vector<store::Term>& terms) {
  const Json* owners = metadata.find("ownerReferences");
  for (std::size_t i = 0; owners != nullptr && owners->is_array() && i < owners->size(); ++i) {
    if (const auto uid = owners->at(i).get_string("uid")) terms.push_back(owner_term(*uid));
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the value
void add_to_digest(std::uint64_t& digest, const Json& value) {
  const auto add = [&digest](std::uint64_t part) { digest = (digest ^ part) * 1099511628211u + 1; };
  if (value.is_string()) return add(std::hash<std::string_view>()(value.as_string()));
  if (value.is_bool()) return add(value.as_bool() ? 3 : 2);
  if (!value.is_array() && !value.is_object()) return add(1);
  add(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value.is_object()) add(std::hash<std::string_view>()(value.key_at(i)));
    add_to_digest(digest, value.is_object() ? value.value_at(i) : value.at(i));
  }
}

// Of all that decides when an object goes and what goes with it.
std::uint64_t digest_of_life(const Json& metadata) {
  std::uint64_t digest = 1;
  for (const std::string_view field : {"ownerReferences", "finalizers", "deletionTimestamp", "uid"}) {
    const Json* value = metadata.find(field);
    if (value != nullptr) add_to_digest(digest, *value);
    digest = digest * 31 + 7;
  }
  return digest | 1;
}

constexpr std::string_view kVersionField = R"("resourceVersion":")";
constexpr std::string_view kMetadata = R"("metadata":{")";

// Where a string literal that begins at `at` ends: the place after its closing quote.
std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

// The place right after `"metadata":{` of the object itself, in valid JSON; 0 when the text is not as
// encode_stored() writes it (spaces, no metadata, a resourceVersion in it): then it must be decoded. `ours`:
// it was written by encode_stored() in this process.
std::uint32_t find_mark(std::string_view text, bool ours) {
  int depth = 0;
  std::uint32_t mark = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      const bool metadata = depth == 1 && text.substr(at, kMetadata.size()) == kMetadata;
      // Twice the same key, the last one counts: not a text of ours.
      if (metadata && mark != 0) return 0;
      if (metadata) mark = static_cast<std::uint32_t>(at + kMetadata.size() - 1);
      if (metadata && ours) return mark;
      if (mark != 0 && depth == 2 &&
          text.substr(at, kVersionField.size() - 1).starts_with(R"("resourceVersion")"))
        return 0;
      at = skip_string(text, at);
      continue;
    }
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') return 0;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
  }
  return mark;
}

}  // namespace

store::Term label_term(std::string_view key, std::string_view value) {
  return {kLabelTerm, assignment(key, value)};
}

store::Term owner_term(std::string_view uid) {
  return {kOwnerTerm, std::string(uid)};
}

store::Term field_term(std::string_view field, std::string_view value) {
  return {kFieldTerm, assignment(field, value)};
}

bool is_indexed(const model::KindInfo& kind, std::string_view field) {
  if (kind.group.empty() && kind.kind == "Event")
    return field == "involvedObject.uid" || field == "involvedObject.name";
  return field != "metadata.name" && field != "metadata.namespace";  // the key has them
}

Result<Json> decode_stored(std::string_view bytes, store::Revision revision) {
  TRY(Json object, parse_json(bytes));
  Json* metadata = object.find("metadata");
  if (metadata == nullptr || !metadata->is_object())
    return make_error(Errc::corrupt, "a stored object has no metadata");
  metadata->set("resourceVersion", std::to_string(revision));
  settle(object);
  return object;
}

std::string encode_stored(Json& object) {
  if (Json* metadata = object.find("metadata")) metadata->erase("resourceVersion");
  settle(object);
  return to_text(object);
}

namespace {

Result<Json> decode_or_take(const store::CachedObject& cached, Json written) {
  if (!written.is_object()) return decode_stored(*cached.entry.value, cached.entry.revision);
  written["metadata"].set("resourceVersion", std::to_string(cached.entry.revision));
  settle(written);
  return written;
}

}  // namespace

JsonPtr project(store::CachedObject& cached, Json written) {
  const model::KindInfo* kind = split_key(cached.entry.key).kind;
  if (kind == nullptr) return nullptr;
  const bool ours = written.is_object();
  auto decoded = decode_or_take(cached, std::move(written));
  if (!decoded) {
    log_error("a stored object cannot be read", {{"key", cached.entry.key}, {"reason", decoded.error()}});
    return nullptr;
  }
  auto object = std::make_shared<const Json>(std::move(*decoded));
  const Json& metadata = *object->find("metadata");
  add_label_terms(metadata, cached.terms);
  add_owner_terms(metadata, cached.terms);
  for (const std::string_view field : kind->selectable_fields) {
    if (!is_indexed(*kind, field)) continue;
    const std::string value = kind->field_value(*object, field);
    if (!value.empty()) cached.terms.push_back(field_term(field, value));
  }
  cached.digest = digest_of_life(metadata);
  cached.readable = true;
  cached.mark = find_mark(*cached.entry.value, ours);
  cached.decoded = object;
  return object;
}

JsonPtr object_of(const store::CachedObject& cached) {
  if (!cached.readable) return nullptr;
  if (auto held = cached.decoded.lock()) return std::static_pointer_cast<const Json>(held);
  auto decoded = decode_stored(*cached.entry.value, cached.entry.revision);
  if (!decoded) return nullptr;
  auto object = std::make_shared<const Json>(std::move(*decoded));
  cached.decoded = object;
  return object;
}

void append_stored_text(std::string& out, const store::CachedObject& cached, store::Revision revision) {
  const std::string_view text = *cached.entry.value;
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, revision);
  // A list asks for the room of all its items before; one item grows here once instead of four times.
  if (out.empty()) out.reserve(text.size() + kVersionField.size() + sizeof digits + 2);
  out.append(text.substr(0, cached.mark));
  out.append(kVersionField);
  out.append(digits, end.ptr);
  out.append("\",");
  out.append(text.substr(cached.mark));
}

bool lives_alike(const store::CachedObject& a, const store::CachedObject& b) {
  return a.readable && b.readable && a.digest == b.digest;
}

bool has_owner(const store::CachedObject& cached) {
  return std::any_of(cached.terms.begin(), cached.terms.end(),
                     [](const store::Term& term) { return term.index == kOwnerTerm; });
}

std::optional<std::string_view> label_of(const store::CachedObject& cached, std::string_view key) {
  // A key has no '=' in it, so the first term from "key=" on is this label's or another's.
  const store::Term first = label_term(key, "");
  const auto found = std::lower_bound(cached.terms.begin(), cached.terms.end(), first);
  if (found == cached.terms.end() || found->index != kLabelTerm || !found->value.starts_with(first.value))
    return std::nullopt;
  return std::string_view(found->value).substr(first.value.size());
}

}  // namespace moor::registry
