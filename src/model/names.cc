#include "model/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace moor::model {
namespace {

constexpr std::string_view kLabelRule =
    "a lowercase RFC 1123 label is needed: up to 63 lower-case letters, digits or '-', beginning and ending "
    "with a "
    "letter or digit (such as 'my-name')";
constexpr std::string_view kSubdomainRule =
    "a lowercase RFC 1123 subdomain is needed: up to 253 lower-case letters, digits, '-' or '.', each part "
    "beginning "
    "and ending with a letter or digit (such as 'example.com')";
constexpr std::string_view kKeyRule =
    "a qualified name is needed: up to 63 letters, digits, '-', '_' or '.', beginning and ending with a "
    "letter or "
    "digit, optionally after a DNS subdomain and '/' (such as 'example.com/my-name')";
constexpr std::string_view kValueRule =
    "a label value is needed: empty, or up to 63 letters, digits, '-', '_' or '.', beginning and ending with "
    "a letter "
    "or digit";

bool is_lower_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_alnum(char c) {
  return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

// Letters, digits, '-', '_', '.', with a letter or digit at both ends.
bool is_name_part(std::string_view text) {
  if (text.empty() || text.size() > 63 || !is_alnum(text.front()) || !is_alnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_dns_label_of_any_length(std::string_view text) {
  if (text.empty() || !is_lower_alnum(text.front()) || !is_lower_alnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return is_lower_alnum(c) || c == '-'; });
}

void check_name(const KindInfo& kind, const Json& metadata, Causes& causes) {
  const auto name = metadata.get_string("name").value_or("");
  const auto prefix = metadata.get_string("generateName").value_or("");
  const bool label = kind.name_rule == NameRule::label;
  if (name.empty()) {
    causes.push_back(required("metadata.name", "name or generateName is required"));
  } else if (label ? !is_dns1123_label(name) : !is_dns1123_subdomain(name)) {
    causes.push_back(invalid("metadata.name", name, label ? kLabelRule : kSubdomainRule));
  }
  // The random suffix ends with a letter or digit, so the prefix itself may end with '-' or '.'.
  const std::string generated = fmt::format("{}0", prefix);
  if (!prefix.empty() && (label ? !is_dns1123_label(generated) : !is_dns1123_subdomain(generated)))
    causes.push_back(invalid("metadata.generateName", prefix, label ? kLabelRule : kSubdomainRule));
}

void check_labels(const Json& metadata, Causes& causes) {
  const Json* labels = metadata.find("labels");
  if (labels == nullptr || !labels->is_object()) return;
  for (std::size_t i = 0; i < labels->size(); ++i) {
    const std::string_view key = labels->key_at(i);
    const Json& value = labels->value_at(i);
    if (!is_qualified_name(key)) causes.push_back(invalid("metadata.labels", key, kKeyRule));
    if (value.is_string() && !is_label_value(value.as_string()))
      causes.push_back(invalid("metadata.labels", value, kValueRule));
  }
}

void check_annotations(const Json& metadata, Causes& causes) {
  const Json* annotations = metadata.find("annotations");
  if (annotations == nullptr || !annotations->is_object()) return;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < annotations->size(); ++i) {
    std::string key(annotations->key_at(i));
    const Json& value = annotations->value_at(i);
    bytes += key.size() + (value.is_string() ? value.as_string().size() : 0);
    std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return std::tolower(c); });
    if (!is_qualified_name(key))
      causes.push_back(invalid("metadata.annotations", annotations->key_at(i), kKeyRule));
  }
  if (bytes > kMaxAnnotationBytes) causes.push_back(too_long("metadata.annotations", kMaxAnnotationBytes));
}

void check_finalizers(const Json& metadata, Causes& causes) {
  const Json* finalizers = metadata.find("finalizers");
  if (finalizers == nullptr || !finalizers->is_array()) return;
  for (std::size_t i = 0; i < finalizers->size(); ++i) {
    const Json& finalizer = finalizers->at(i);
    if (finalizer.is_string() && !is_qualified_name(finalizer.as_string()))
      causes.push_back(invalid(fmt::format("metadata.finalizers[{}]", i), finalizer, kKeyRule));
  }
}

void check_owners(const Json& metadata, Causes& causes) {
  const Json* owners = metadata.find("ownerReferences");
  if (owners == nullptr || !owners->is_array()) return;
  int controllers = 0;
  for (std::size_t i = 0; i < owners->size(); ++i) {
    const Json& owner = owners->at(i);
    // The schema has said that they are required; here they must also say something.
    for (const std::string_view field : {"apiVersion", "kind", "name", "uid"})
      if (owner.get_string(field) == "")
        causes.push_back(
            invalid(fmt::format("metadata.ownerReferences[{}].{}", i, field), "", "must not be empty"));
    if (owner.get_bool("controller") == true && ++controllers == 2)
      causes.push_back(invalid("metadata.ownerReferences", *owners, "only one owner can be the controller"));
  }
}

}  // namespace

bool is_dns1123_label(std::string_view text) {
  return text.size() <= 63 && is_dns_label_of_any_length(text);
}

bool is_dns1123_subdomain(std::string_view text) {
  if (text.size() > kMaxNameLength) return false;
  while (true) {
    const std::size_t dot = text.find('.');
    if (!is_dns_label_of_any_length(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool is_qualified_name(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return is_name_part(text);
  return is_dns1123_subdomain(text.substr(0, slash)) && is_name_part(text.substr(slash + 1));
}

bool is_label_value(std::string_view text) {
  return text.empty() || is_name_part(text);
}

void check_metadata(const KindInfo& kind, const Json& metadata, Causes& causes) {
  check_name(kind, metadata, causes);
  const auto space = metadata.get_string("namespace").value_or("");
  if (!space.empty() && !is_dns1123_label(space))
    causes.push_back(invalid("metadata.namespace", space, kLabelRule));
  check_labels(metadata, causes);
  check_annotations(metadata, causes);
  check_finalizers(metadata, causes);
  check_owners(metadata, causes);
}

void check_metadata_update(const Json& before, const Json& after, Causes& causes) {
  for (const std::string_view field : {"name", "namespace", "uid"}) {
    const auto was = before.get_string(field).value_or("");
    const auto is = after.get_string(field).value_or("");
    // An absent uid in the request means "whichever it is".
    if (was != is && !(field == "uid" && is.empty()))
      causes.push_back(immutable(fmt::format("metadata.{}", field), is));
  }
  if (!before.contains("deletionTimestamp")) return;
  // A finalizer added to an object that is being deleted could hold it for ever against the will of its
  // owners.
  const Json* was = before.find("finalizers");
  const Json* is = after.find("finalizers");
  if (is == nullptr || !is->is_array()) return;
  for (std::size_t i = 0; i < is->size(); ++i) {
    bool known = false;
    for (std::size_t j = 0; was != nullptr && was->is_array() && j < was->size(); ++j)
      known = known || was->at(j) == is->at(i);
    if (!known)
      causes.push_back(
          forbidden("metadata.finalizers",
                    fmt::format("no new finalizer may be added once an object is being deleted: {}",
                                moor::to_text(is->at(i)))));
  }
}

}  // namespace moor::model
