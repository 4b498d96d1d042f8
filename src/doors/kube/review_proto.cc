// Kubernetes' protobuf for the three reviews: newer kubectls send them so. A reader of the wire format for
// these few messages, instead of the generated code of the whole API; what it does not know it skips.
#include <cstdint>
#include <optional>

#include "doors/kube/review.h"
#include "registry/refusal.h"

namespace moor::doors::kube {
namespace {

using registry::Answer;

registry::Refusal damaged() {
  return registry::refuse_bad_request("the protobuf body cannot be read");
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  struct Field {
    std::uint64_t number = 0;
    std::string_view bytes;  // of length-delimited fields; empty for the others
  };
  bool at_end() const { return bytes_.empty(); }
  // Absent: the bytes are no message.
  std::optional<Field> next() {
    const auto tag = varint();
    if (!tag) return std::nullopt;
    Field field{*tag >> 3, {}};
    switch (*tag & 7) {
      case 0:
        if (!varint()) return std::nullopt;
        return field;
      case 1: return take(8) ? std::optional(field) : std::nullopt;
      case 2: {
        const auto size = varint();
        if (!size || *size > bytes_.size()) return std::nullopt;
        field.bytes = bytes_.substr(0, *size);
        bytes_.remove_prefix(*size);
        return field;
      }
      case 5: return take(4) ? std::optional(field) : std::nullopt;
      default: return std::nullopt;
    }
  }

 private:
  bool take(std::size_t count) {
    if (bytes_.size() < count) return false;
    bytes_.remove_prefix(count);
    return true;
  }
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80u) == 0) return value;
    }
    return std::nullopt;
  }

  std::string_view bytes_;
};

// A message whose fields, from 1 on, are strings of these names.
template <std::size_t N>
Answer<Json> read_strings(std::string_view bytes, const std::string_view (&names)[N]) {
  Json value = Json::object();
  for (Reader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return damaged();
    if (field->number < 1 || field->number > N || field->bytes.empty()) continue;
    if (!http::is_utf8(field->bytes)) return damaged();
    value.set(names[field->number - 1], field->bytes);
  }
  return value;
}

constexpr std::string_view kTypeMeta[] = {"apiVersion", "kind"};
constexpr std::string_view kResource[] = {"namespace", "verb",        "group", "version",
                                          "resource",  "subresource", "name"};
constexpr std::string_view kPath[] = {"path", "verb"};
constexpr std::string_view kRulesSpec[] = {"namespace"};

Answer<Json> read_access_spec(std::string_view bytes) {
  Json spec = Json::object();
  for (Reader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return damaged();
    if (field->number == 1) {
      TRY(Json attributes, read_strings(field->bytes, kResource));
      spec.set("resourceAttributes", std::move(attributes));
    } else if (field->number == 2) {
      TRY(Json attributes, read_strings(field->bytes, kPath));
      spec.set("nonResourceAttributes", std::move(attributes));
    }
  }
  return spec;
}

}  // namespace

Answer<Json> decode_review(std::string_view bytes) {
  constexpr std::string_view kMagic("k8s\0", 4);
  if (!bytes.starts_with(kMagic)) return damaged();
  Json review = Json::object();
  std::string_view raw;
  for (Reader reader(bytes.substr(kMagic.size())); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return damaged();
    if (field->number == 1) {
      TRY(review, read_strings(field->bytes, kTypeMeta));
    } else if (field->number == 2) {
      raw = field->bytes;
    }
  }
  const bool rules = review.get_string("kind").value_or("") == "SelfSubjectRulesReview";
  for (Reader reader(raw); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return damaged();
    if (field->number != 2) continue;  // 1: metadata, 3: status, both ours to write
    TRY(Json spec, rules ? read_strings(field->bytes, kRulesSpec) : read_access_spec(field->bytes));
    review.set("spec", std::move(spec));
  }
  return review;
}

}  // namespace moor::doors::kube
