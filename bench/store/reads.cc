// Reads and lists, from the store and from the cache in front of it.
#include <fmt/format.h>

#include "base/assert.h"
#include "base/loop.h"
#include "base/task_group.h"
#include "bench/store/fill.h"
#include "bench/store/sections.h"
#include "store/cache/cache.h"
#include "store/embedded/embedded_store.h"

namespace moor::bench {
namespace {

template <class Function>
double per_second(double wanted_seconds, Function function) {
  const RealClock clock;
  const TimePoint start = clock.now();
  std::size_t count = 0;
  while (seconds(clock.now() - start) < wanted_seconds) {
    for (int i = 0; i < 100; ++i) function(count++);
  }
  return static_cast<double>(count) / seconds(clock.now() - start);
}

double list_millis(Executor& executor, store::Store& store, std::size_t expected) {
  const TimePoint start = executor.clock().now();
  const auto page = block_on(executor, store.list({.prefix = "longhorn.io/snapshots/"}));
  MOOR_ASSERT(page.ok() && page->entries.size() == expected);
  return micros(executor.clock().now() - start) / 1000;
}

double visit_millis(const Executor& executor, const store::Cache& cache, std::size_t expected) {
  const TimePoint start = executor.clock().now();
  std::size_t bytes = 0;
  std::size_t count = 0;
  cache.for_each("longhorn.io/snapshots/", [&](const store::ObjectPtr& object) {
    bytes += object->entry.value->size();
    ++count;
    return true;
  });
  MOOR_ASSERT(count == expected && bytes > 0);
  return micros(executor.clock().now() - start) / 1000;
}

}  // namespace

void bench_reads(const StoreBench& bench, Report& report) {
  report.heading("Reads");
  std::vector<std::vector<std::string>> table;
  for (const std::size_t objects : {std::size_t{10'000}, std::size_t{100'000}}) {
    const Scratch scratch(bench.scratch);
    Loop loop;
    auto opened = store::open_embedded_store(loop, scratch.path());
    MOOR_ASSERT(opened.ok(), "{}", opened.error().message);
    store::Store& store = **opened;
    fill(loop, store, objects, bench.value_bytes);
    store::Cache cache(loop, store, nullptr);
    TaskGroup group(loop);
    group.spawn(cache.run(group.token()));
    MOOR_ASSERT(block_on(loop, cache.wait_for(0, {})).ok());
    const double gets = per_second(bench.seconds / 4, [&](std::size_t i) {
      MOOR_ASSERT(block_on(loop, store.get(object_key(i * 7919 % objects)))->entry.has_value());
    });
    const double cached = per_second(bench.seconds / 4, [&](std::size_t i) {
      MOOR_ASSERT(cache.get(object_key(i * 7919 % objects)) != nullptr);
    });
    std::vector<double> lists, visits;
    for (int i = 0; i < 9; ++i) {
      lists.push_back(list_millis(loop, store, objects));
      visits.push_back(visit_millis(loop, cache, objects));
    }
    report.raw(Json::object({{"section", "reads"},
                             {"objects", objects},
                             {"gets_per_second", gets},
                             {"cache_gets_per_second", cached},
                             {"list_ms", median(lists)},
                             {"cache_list_ms", median(visits)}}));
    table.push_back({std::to_string(objects), fmt::format("{:.0f}", gets), fmt::format("{:.0f}", cached),
                     fmt::format("{:.1f}", median(lists)), fmt::format("{:.1f}", median(visits))});
    group.cancel();
    MOOR_ASSERT(block_on(loop, group.join()).ok());
  }
  report.table({"objects", "gets/s", "cache gets/s", "list all, ms", "walk the cache, ms"}, table);
}

}  // namespace moor::bench
