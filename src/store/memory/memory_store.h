// A store that forgets everything when the process ends: for tests, the simulator and `--store memory`.
#pragma once

#include <memory>

#include "base/executor.h"
#include "store/journaled_store.h"

namespace moor::store {

std::unique_ptr<Store> make_memory_store(Executor& executor, JournaledOptions options = {});

}  // namespace moor::store
