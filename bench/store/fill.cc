#include "bench/store/fill.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/task_group.h"

namespace moor::bench {
namespace {
Task<Result<void>> fill_some(store::Store* store, std::size_t* next, std::size_t count,
                             std::size_t value_bytes) {
  while (*next < count) {
    store::Transaction transaction;
    const std::size_t end = std::min(*next + store::kMaxWrites, count);
    for (; *next < end; ++*next)
      transaction.writes.push_back(store::Write::put(object_key(*next), object_value(*next, value_bytes)));
    CO_TRY_VOID(co_await store->commit(std::move(transaction)));
  }
  co_return Result<void>();
}
}  // namespace

std::string object_key(std::size_t number) {
  return fmt::format("longhorn.io/snapshots/longhorn-system/pvc-{:04}-snap-{:07}", number % 1000, number);
}

void fill(Executor& executor, store::Store& store, std::size_t count, std::size_t value_bytes) {
  TaskGroup group(executor);
  std::size_t next = 0;
  for (int i = 0; i < 16; ++i) group.spawn(fill_some(&store, &next, count, value_bytes));
  const auto result = block_on(executor, group.join());
  MOOR_ASSERT(result.ok(), "filling failed: {}", result.error().message);
}

}  // namespace moor::bench
