// Request bodies: JSON in, refused with the reason otherwise. Pure.
#pragma once

#include <string>
#include <vector>

#include "http/message.h"
#include "registry/registry.h"

namespace moor::doors::kube {

struct Body {
  Json value;
  std::vector<std::string> duplicates;  // paths of keys that stood twice
};

inline constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";

// The media type without parameters, in lower case; empty when there is none.
std::string media_type(const http::Request& request);
// For POST and PUT: 415 unless JSON (or protobuf of a kind that object_proto.h knows), 400 unless one object.
registry::Answer<Body> read_object(const http::Request& request);
// For DELETE: null when there is no body.
registry::Answer<Body> read_delete_options(const http::Request& request);

struct PatchBody {
  registry::PatchType type = registry::PatchType::merge;
  Body body;
};
registry::Answer<PatchBody> read_patch(const http::Request& request);

}  // namespace moor::doors::kube
