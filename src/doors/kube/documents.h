// The documents that describe the API: discovery in three forms, OpenAPI v3, the version. They follow from
// the list of kinds, so each is rendered once, when it is first asked for. One thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "doors/kube/route.h"
#include "http/message.h"
#include "model/discovery.h"

namespace moor::doors::kube {

class Documents {
 public:
  explicit Documents(std::string server_address);

  // Absent: the route leads elsewhere.
  std::optional<http::Response> answer(const http::Request& request, const Route& route);

 private:
  struct Document {
    http::SharedText text;
    std::string tag;
    std::string content_type;
  };
  const Document& keep(const std::string& key, const Json& value, std::string content_type);
  http::Response discovery(const http::Request& request, const Route& route);
  http::Response openapi(const http::Request& request, const Route& route);
  void render_openapi();
  static http::Response serve(const http::Request& request, const Document& document);

  model::Discovery discovery_;
  std::map<std::string, Document> documents_;  // bounded by the number of groups
  bool has_openapi_ = false;
};

}  // namespace moor::doors::kube
