// An object with every field of its kind set to something that is not zero. For tests only.
#pragma once

#include "model/kind.h"

namespace moor::model {

Json sample_object(const KindInfo& kind);

}  // namespace moor::model
