// moor nodes | replicas | engines: what there is, in tables. Reading only.
#pragma once

#include <string>

#include "cli/context.h"
#include "cli/outcome.h"

namespace moor::cli {

Task<Outcome<void>> list_nodes(Context& context);
Task<Outcome<void>> list_replicas(Context& context, std::string volume);  // "": of all volumes
Task<Outcome<void>> list_engines(Context& context, std::string volume);

}  // namespace moor::cli
