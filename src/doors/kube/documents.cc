#include "doors/kube/documents.h"

#include <fmt/format.h>

#include "doors/kube/form.h"
#include "doors/kube/review.h"
#include "doors/kube/status.h"
#include "model/openapi.h"

namespace moor::doors::kube {
namespace {

constexpr std::string_view kJson = "application/json";
// The Kubernetes whose habits we follow; clients compare it with their own version.
constexpr std::string_view kMajor = "1";
constexpr std::string_view kMinor = "31";

Json version_document() {
  return Json::object({{"major", kMajor},
                       {"minor", kMinor},
                       {"gitVersion", fmt::format("v{}.{}.0+mooring", kMajor, kMinor)},
                       {"gitCommit", ""},
                       {"gitTreeState", "clean"},
                       {"buildDate", "1970-01-01T00:00:00Z"},
                       {"goVersion", "none (C++20)"},
                       {"compiler", "gcc"},
                       {"platform", "linux/amd64"}});
}

Json root_document() {
  Json paths = Json::array({"/api", "/api/v1", "/apis"});
  for (const model::GroupVersion& version : model::all_group_versions())
    if (!version.group.empty()) paths.push_back(fmt::format("/apis/{}/{}", version.group, version.version));
  for (const char* path : {"/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"})
    paths.push_back(path);
  return Json::object({{"paths", std::move(paths)}});
}

// kubectl still reads v2 for files that hold a List, to check their items itself, and knows it only as
// protobuf. Ours names no definitions: kubectl then leaves the check to the server, which does it anyway.
// Document{swagger, info{title, version}, paths{}} in the wire format of gnostic's OpenAPIv2.proto.
http::Response openapi_v2(std::string_view accept) {
  constexpr std::string_view kType =
      "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";  // Go reads no @
  constexpr std::string_view kDocument(
      "\x0a\x03"
      "2.0"
      "\x12\x0d"
      "\x0a\x07"
      "Mooring"
      "\x12\x02"
      "v1"
      "\x42\x00",
      22);
  if (accept.find("proto-openapi.spec.v2") != std::string_view::npos)
    return http::Response::text(200, std::string(kDocument), kType);
  const Json info = Json::object({{"title", "Mooring"}, {"version", "v1"}});
  return json_response(
      200, to_text(Json::object({{"swagger", "2.0"}, {"info", info}, {"paths", Json::object()}})));
}

std::string key_of(const Route& route, const std::string& form) {
  return fmt::format("{} {} {} {}", static_cast<int>(route.to), route.group, route.version, form);
}

}  // namespace

Documents::Documents(std::string server_address)
    : discovery_(std::move(server_address), review_resources()) {}

const Documents::Document& Documents::keep(const std::string& key, const Json& value,
                                           std::string content_type) {
  std::string text = to_text(value);
  std::string tag = model::openapi_hash(text);
  Document document{std::make_shared<const std::string>(std::move(text)), std::move(tag),
                    std::move(content_type)};
  return documents_.insert_or_assign(key, std::move(document)).first->second;
}

http::Response Documents::serve(const http::Request& request, const Document& document) {
  http::Response response;
  const std::string tag = fmt::format("\"{}\"", document.tag);
  const auto known = request.headers.get("if-none-match");
  if (known && *known == tag) {
    response.status = 304;
  } else {
    response.shared_body = document.text;
    response.headers.set("Content-Type", document.content_type);
  }
  response.headers.set("ETag", tag);
  response.headers.set("Vary", "Accept");
  return response;
}

http::Response Documents::discovery(const http::Request& request, const Route& route) {
  const bool core = route.to == Route::To::core_versions;
  std::string form;
  if (core || route.to == Route::To::groups) {
    auto wanted = find_discovery_form(request.headers.get("accept").value_or(""));
    if (!wanted) return refuse(wanted.error());
    form = std::move(*wanted);
  }
  const std::string key = key_of(route, form);
  if (const auto found = documents_.find(key); found != documents_.end())
    return serve(request, found->second);
  if (!form.empty())
    return serve(
        request,
        keep(key, discovery_.aggregated(core, form),
             fmt::format("application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList", form)));
  Json value;
  if (core)
    value = discovery_.api_versions();
  else if (route.to == Route::To::groups)
    value = discovery_.api_group_list();
  else if (route.to == Route::To::group)
    value = discovery_.api_group(route.group);
  else
    value = discovery_.api_resource_list({route.group, route.version});
  if (value.is_null()) return refuse(not_found_path());
  return serve(request, keep(key, value, std::string(kJson)));
}

void Documents::render_openapi() {
  std::map<std::string, std::string> hashes;
  for (const model::GroupVersion& version : model::all_group_versions()) {
    const std::string path = model::openapi_path(version);
    hashes[path] = keep("openapi " + path, model::openapi_document(version), std::string(kJson)).tag;
  }
  keep("openapi", model::openapi_index(hashes), std::string(kJson));
  has_openapi_ = true;
}

http::Response Documents::openapi(const http::Request& request, const Route& route) {
  if (!has_openapi_) render_openapi();
  const bool index = route.to == Route::To::openapi_index;
  const auto found = documents_.find(index ? "openapi" : "openapi " + route.document);
  if (found == documents_.end()) return refuse(not_found_path());
  http::Response response = serve(request, found->second);
  const auto hash = request.target.query.get("hash");
  // The hash in the URL names this very text: whoever has it may keep it.
  if (hash && *hash == found->second.tag)
    response.headers.set("Cache-Control", "public, immutable, max-age=31536000");
  return response;
}

std::optional<http::Response> Documents::answer(const http::Request& request, const Route& route) {
  using To = Route::To;
  switch (route.to) {
    case To::nowhere:
    case To::review:
    case To::objects: return std::nullopt;
    default: break;
  }
  if (request.method != http::Method::get && request.method != http::Method::head)
    return refuse(method_not_allowed());
  switch (route.to) {
    case To::version: return json_response(200, to_text(version_document()));
    case To::root: return json_response(200, to_text(root_document()));
    case To::openapi_v2: return openapi_v2(request.headers.get("accept").value_or(""));
    case To::openapi_index:
    case To::openapi_document: return openapi(request, route);
    default: return discovery(request, route);
  }
}

}  // namespace moor::doors::kube
