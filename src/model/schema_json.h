// A Schema as OpenAPI text. Nested types are either references to components (the API document) or written
// out where they stand (CustomResourceDefinitions, which allow no references).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/schema.h"

namespace moor::model {

// A list of texts.
Json strings(const std::vector<std::string_view>& values);

enum class Nesting { reference, inlined };

// One struct with its properties.
Json struct_json(const StructSchema& schema, Nesting nesting);
// "#/components/schemas/io.longhorn.v1beta2.VolumeSpec"
std::string reference_to(const StructSchema& schema);
// Adds the struct and all it refers to, by component name: the same order in every run.
void collect_structs(const StructSchema& schema, std::map<std::string, const StructSchema*>& found);

}  // namespace moor::model
