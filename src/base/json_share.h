// What copies of one Json share, for those who pass whole objects around: a copy costs nothing as long as
// neither side is changed.
#pragma once

#include "base/json.h"

namespace moor {

// Nobody holds a reference for writing into the value any more, so copies of it share all of it again. To be
// called once an object is finished; a reference that is written through later would change the copies too.
void settle(Json& json);

// Both are one and the same array or object: a copy and what it was copied from, neither written to since.
// False says nothing.
bool is_shared(const Json& a, const Json& b);

// Whether its text reads back as the same value. A double may come back as an integer.
bool reads_back_alike(const Json& json);

}  // namespace moor
