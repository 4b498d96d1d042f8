// Stores with content for the benches: keys and values shaped like the objects that will live there.
#pragma once

#include <cstddef>
#include <string>

#include "base/executor.h"
#include "bench/common/content.h"
#include "store/store.h"

namespace moor::bench {

std::string object_key(std::size_t number);  // longhorn.io/snapshots/longhorn-system/<name>
// Puts objects [0, count) in transactions of 100, many at a time. Asserts on failure: a bench without data is
// none.
void fill(Executor& executor, store::Store& store, std::size_t count, std::size_t value_bytes);

}  // namespace moor::bench
