#include "doors/kube/body.h"

#include <fmt/format.h>

#include <algorithm>

#include "doors/kube/object_proto.h"
#include "registry/refusal.h"

namespace moor::doors::kube {
namespace {

using registry::Answer;
using registry::PatchType;

struct PatchMedia {
  std::string_view type;
  PatchType patch;
};
constexpr PatchMedia kPatches[] = {
    {"application/json-patch+json", PatchType::json},
    {"application/merge-patch+json", PatchType::merge},
    {"application/strategic-merge-patch+json", PatchType::strategic},
    {"application/apply-patch+yaml", PatchType::apply},
    {"application/apply-patch+json", PatchType::apply},
};

Answer<Body> parse_body(const std::string& text, std::string_view what) {
  Body body;
  JsonParseOptions options;
  options.duplicates = &body.duplicates;
  auto value = parse_json(text, options);
  if (!value)
    return registry::refuse_bad_request(
        fmt::format("the {} cannot be read: {}", what, value.error().message));
  body.value = std::move(*value);
  return body;
}

registry::Refusal refuse_type(std::string_view type) {
  return registry::refuse_media_type(
      fmt::format("the body of the request was in an unknown format - accepted media types include: "
                  "application/json (given: {})",
                  type));
}

}  // namespace

std::string media_type(const http::Request& request) {
  std::string type(request.headers.get("content-type").value_or(""));
  type.resize(std::min(type.find(';'), type.size()));
  while (type.ends_with(' ')) type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return type;
}

Answer<Body> read_object(const http::Request& request) {
  const std::string type = media_type(request);
  if (type == kProtobuf) {
    TRY(Json object, decode_object(request.body));
    return Body{std::move(object), {}};
  }
  if (!type.empty() && type != "application/json") return refuse_type(type);
  TRY(Body body, parse_body(request.body, "object"));
  if (!body.value.is_object()) return registry::refuse_bad_request("the body must be a JSON object");
  return body;
}

Answer<Body> read_delete_options(const http::Request& request) {
  if (request.body.empty()) return Body{};
  return read_object(request);
}

Answer<PatchBody> read_patch(const http::Request& request) {
  const std::string type = media_type(request);
  const auto* found = std::find_if(std::begin(kPatches), std::end(kPatches),
                                   [&](const PatchMedia& media) { return media.type == type; });
  if (found == std::end(kPatches)) {
    return registry::refuse_media_type(
        fmt::format("the body of the request was in an unknown format - accepted media types include: "
                    "application/json-patch+json, application/merge-patch+json, "
                    "application/strategic-merge-patch+json, application/apply-patch+yaml (given: {})",
                    type));
  }
  PatchBody patch;
  patch.type = found->patch;
  TRY(patch.body,
      parse_body(request.body,
                 patch.type == PatchType::apply ? "configuration (YAML that is also JSON)" : "patch"));
  const bool fits =
      patch.type == PatchType::json ? patch.body.value.is_array() : patch.body.value.is_object();
  if (!fits) return registry::refuse_bad_request("the patch has the wrong form for its content type");
  return patch;
}

}  // namespace moor::doors::kube
