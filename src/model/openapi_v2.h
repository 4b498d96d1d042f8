// The OpenAPI v2 document in the protobuf form that kubectl before 1.29 reads at start of create and explain,
// even though it goes on with v3: without an answer at /openapi/v2 those commands stop. It carries the
// schemas, not the paths.
#pragma once

#include <string>
#include <string_view>

namespace moor::model {

// Content type of the answer. Clients ask with "@v1.0" in its place, which Go's own parser of content types
// refuses.
inline constexpr std::string_view kOpenApiV2ContentType =
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

// All kinds, as an openapi.v2.Document message.
std::string openapi_v2_protobuf();

}  // namespace moor::model
