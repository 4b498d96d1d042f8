#include "bench/store/fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

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

std::string object_value(std::size_t number, std::size_t bytes) {
  std::string text = fmt::format(R"({{"kind":"Snapshot","metadata":{{"name":"snap-{:07}"}},"pad":")", number);
  // Not one repeated byte: nothing below may win by compressing it.
  std::uint64_t state = number * 0x9e3779b97f4a7c15u + 1;
  while (text.size() + 2 < bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    text.push_back(static_cast<char>('a' + state % 26));
  }
  return text + "\"}";
}

void fill(Executor& executor, store::Store& store, std::size_t count, std::size_t value_bytes) {
  TaskGroup group(executor);
  std::size_t next = 0;
  for (int i = 0; i < 16; ++i) group.spawn(fill_some(&store, &next, count, value_bytes));
  const auto result = block_on(executor, group.join());
  MOOR_ASSERT(result.ok(), "filling failed: {}", result.error().message);
}

Scratch::Scratch(const std::string& parent) {
  std::filesystem::create_directories(parent);
  path_ = parent + "/bench-XXXXXX";
  MOOR_ASSERT(mkdtemp(path_.data()) != nullptr, "cannot make a directory below {}", parent);
}

Scratch::~Scratch() {
  std::error_code ignored;  // a left-over scratch directory is no reason to fail a finished run
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace moor::bench
