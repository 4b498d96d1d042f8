// How long it takes from opening the directory to a synced cache, and what an object costs in memory. Each
// size is measured in a child process: memory that an earlier measurement freed would flatter a later one.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/loop.h"
#include "base/task_group.h"
#include "bench/store/fill.h"
#include "bench/store/sections.h"
#include "store/cache/cache.h"
#include "store/embedded/embedded_store.h"

namespace moor::bench {
namespace {

struct Opened {
  double open_seconds = 0;   // the store answers
  double ready_seconds = 0;  // the cache is synced too
  double bytes_per_object = 0;
};

// As an API server would: one term per label-like field.
void project(store::CachedObject& object) {
  object.terms.push_back({1, object.entry.key.substr(0, 22)});
  object.terms.push_back({2, object.entry.key.substr(object.entry.key.size() - 20, 8)});
}

Opened open_once(const std::string& directory, std::size_t objects) {
  malloc_trim(0);
  const std::uint64_t before = resident_bytes();
  Loop loop;
  Opened result;
  const TimePoint start = loop.clock().now();
  auto store = store::open_embedded_store(loop, directory);
  MOOR_ASSERT(store.ok(), "{}", store.error().message);
  result.open_seconds = seconds(loop.clock().now() - start);
  store::Cache cache(loop, **store, project);
  TaskGroup group(loop);
  group.spawn(cache.run(group.token()));
  MOOR_ASSERT(block_on(loop, cache.wait_for(0, {})).ok());
  MOOR_ASSERT(cache.size() == objects, "{} objects", cache.size());
  result.ready_seconds = seconds(loop.clock().now() - start);
  malloc_trim(0);
  result.bytes_per_object = static_cast<double>(resident_bytes() - before) / static_cast<double>(objects);
  group.cancel();
  MOOR_ASSERT(block_on(loop, group.join()).ok());
  return result;
}

Opened open_in_child(const std::string& directory, std::size_t objects) {
  int ends[2];
  MOOR_ASSERT(pipe(ends) == 0);
  const pid_t child = fork();
  MOOR_ASSERT(child >= 0);
  if (child == 0) {
    const Opened result = open_once(directory, objects);
    const bool told = write(ends[1], &result, sizeof result) == sizeof result;
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  Opened result;
  const ssize_t got = read(ends[0], &result, sizeof result);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  MOOR_ASSERT(got == sizeof result && status == 0, "the child that opened {} objects failed", objects);
  return result;
}

}  // namespace

void bench_open(const StoreBench& bench, Report& report) {
  report.heading("Opening and memory");
  std::vector<std::vector<std::string>> table;
  for (const std::size_t objects : {std::size_t{10'000}, std::size_t{100'000}, std::size_t{1'000'000}}) {
    if (objects > bench.largest_open) continue;
    const Scratch scratch(bench.scratch);
    {
      Loop loop;
      auto store = store::open_embedded_store(loop, scratch.path());
      MOOR_ASSERT(store.ok(), "{}", store.error().message);
      fill(loop, **store, objects, bench.value_bytes);
    }
    std::vector<double> open, ready, memory;
    for (int i = 0; i < bench.rounds; ++i) {
      const Opened opened = open_in_child(scratch.path(), objects);
      open.push_back(opened.open_seconds);
      ready.push_back(opened.ready_seconds);
      memory.push_back(opened.bytes_per_object);
      report.raw(Json::object({{"section", "open"},
                               {"objects", objects},
                               {"round", i},
                               {"open_s", opened.open_seconds},
                               {"ready_s", opened.ready_seconds},
                               {"bytes_per_object", opened.bytes_per_object}}));
    }
    const double overhead = median(memory) - static_cast<double>(bench.value_bytes);
    table.push_back({std::to_string(objects), fmt::format("{:.2f}", median(open)),
                     fmt::format("{:.2f}", median(ready)), fmt::format("{:.0f}", median(memory)),
                     fmt::format("{:.0f}", overhead)});
  }
  report.table({"objects", "store open, s", "cache synced, s", "bytes per object", "of these overhead"},
               table);
}

}  // namespace moor::bench
