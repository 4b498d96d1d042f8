// Cells that the tables of several core kinds share.
#pragma once

#include <string_view>

#include "base/json.h"
#include "model/time.h"

namespace moor::model::core {

// ["ReadWriteOnce", "ReadOnlyMany"] -> "RWO,ROX"
std::string short_access_modes(const Json* modes);
// The age of the first of these members that holds a time; "<unknown>" when none does.
std::string age_of(const Json& object, std::initializer_list<std::string_view> members, Time now);

}  // namespace moor::model::core
