// Checks a Json value against its schema: types, required fields, enumerations, bounds, formats, unique list
// keys. Unknown fields are no concern here (see KindInfo::unknown_fields).
#pragma once

#include <string>

#include "model/cause.h"
#include "model/schema.h"

namespace moor::model {

// Parts that `before` (may be null), which fitted, shares with the object are passed over.
void check_struct(const StructSchema& schema, const Json& object, const Json* before, Causes& causes);
// Fields marked immutable that differ; both objects fit the schema.
void check_immutable(const StructSchema& schema, const Json& before, const Json& after,
                     const std::string& path, Causes& causes);

}  // namespace moor::model
