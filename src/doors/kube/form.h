// In which form the client wants its answer: content negotiation as Kubernetes' clients use it. Pure.
#pragma once

#include <string>
#include <string_view>

#include "model/table.h"
#include "registry/registry.h"

namespace moor::doors::kube {

enum class Form {
  object,    // as stored
  table,     // rows and columns, for people
  metadata,  // PartialObjectMetadata, for caches that need no more
};

struct FormWanted {
  Form form = Form::object;
  model::IncludeObject include = model::IncludeObject::metadata;  // tables
};

// The first entry of Accept that we can serve. Entries in other encodings (protobuf, cbor) are passed over.
// Refusal: NotAcceptable when nothing is left, BadRequest for an includeObject that there is none of.
registry::Answer<FormWanted> find_form(std::string_view accept, std::string_view include_object);

// The form of discovery: "v2", "v2beta1", or empty for the plain documents.
registry::Answer<std::string> find_discovery_form(std::string_view accept);

}  // namespace moor::doors::kube
