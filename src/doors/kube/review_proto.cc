// Kubernetes' protobuf for the three reviews: newer kubectls send them so. A reader of the wire format for
// these few messages, instead of the generated code of the whole API; what it does not know it skips.
#include "doors/kube/proto_reader.h"
#include "doors/kube/review.h"

namespace moor::doors::kube {
namespace {

using registry::Answer;

// A message whose fields, from 1 on, are strings of these names.
template <std::size_t N>
Answer<Json> read_strings(std::string_view bytes, const std::string_view (&names)[N]) {
  Json value = Json::object();
  for (ProtoReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return refuse_damaged_proto();
    if (field->number < 1 || field->number > N || field->bytes.empty()) continue;
    if (!http::is_utf8(field->bytes)) return refuse_damaged_proto();
    value.set(names[field->number - 1], field->bytes);
  }
  return value;
}

constexpr std::string_view kResource[] = {"namespace", "verb",        "group", "version",
                                          "resource",  "subresource", "name"};
constexpr std::string_view kPath[] = {"path", "verb"};
constexpr std::string_view kRulesSpec[] = {"namespace"};

Answer<Json> read_access_spec(std::string_view bytes) {
  Json spec = Json::object();
  for (ProtoReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return refuse_damaged_proto();
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
  TRY(const ProtoEnvelope envelope, open_proto(bytes));
  Json review = Json::object({{"apiVersion", envelope.api_version}, {"kind", envelope.kind}});
  const bool rules = envelope.kind == "SelfSubjectRulesReview";
  for (ProtoReader reader(envelope.message); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return refuse_damaged_proto();
    if (field->number != 2) continue;  // 1: metadata, 3: status, both ours to write
    TRY(Json spec, rules ? read_strings(field->bytes, kRulesSpec) : read_access_spec(field->bytes));
    review.set("spec", std::move(spec));
  }
  return review;
}

}  // namespace moor::doors::kube
