// Watch fan-out: what a change costs when it concerns many watchers, one, or none.
#include <fmt/format.h>

#include "base/assert.h"
#include "base/loop.h"
#include "base/task_group.h"
#include "bench/store/fill.h"
#include "bench/store/sections.h"
#include "store/cache/cache.h"
#include "store/memory/memory_store.h"

namespace moor::bench {
namespace {

constexpr std::uint32_t kNode = 1;

void project_node(store::CachedObject& object) {
  object.terms.push_back({kNode, *object.entry.value});
}

Task<Result<void>> drain(store::Subscription* subscription, std::size_t expected, std::size_t* delivered) {
  std::size_t seen = 0;
  while (seen < expected) {
    CO_TRY(const auto changes, co_await subscription->next());
    seen += changes.size();
    *delivered += changes.size();
  }
  co_return Result<void>();
}

struct Fanout {
  double write_micros = 0;    // one write, until it is acknowledged
  double deliver_micros = 0;  // one delivery, CPU of the whole process
};

// `watchers` of which all or none are concerned by the writes.
Fanout measure(std::size_t watchers, bool concerned, std::size_t writes) {
  Loop loop;
  auto store = store::make_memory_store(loop);
  store::Cache cache(loop, *store, project_node);
  TaskGroup group(loop);
  group.spawn(cache.run(group.token()));
  MOOR_ASSERT(block_on(loop, cache.wait_for(0, {})).ok());
  std::vector<std::unique_ptr<store::Subscription>> subscriptions;
  TaskGroup readers(loop);
  std::size_t delivered = 0;
  for (std::size_t i = 0; i < watchers; ++i) {
    store::Interest interest{.prefix = "replicas/"};
    if (!concerned) interest.term = store::Term{kNode, fmt::format("node-{}", i)};
    subscriptions.push_back(std::move(*cache.subscribe(interest, cache.revision())));
    if (concerned) readers.spawn(drain(subscriptions.back().get(), writes, &delivered));
  }
  const TimePoint start = loop.clock().now();
  const Duration cpu = cpu_time();
  for (std::size_t i = 0; i < writes; ++i) {
    const auto revision = block_on(loop, store->put("replicas/r1", "elsewhere"));
    MOOR_ASSERT(revision.ok() && block_on(loop, cache.wait_for(*revision, {})).ok());
  }
  Fanout result;
  result.write_micros = micros(loop.clock().now() - start) / static_cast<double>(writes);
  MOOR_ASSERT(block_on(loop, readers.join()).ok());
  if (delivered > 0) result.deliver_micros = micros(cpu_time() - cpu) / static_cast<double>(delivered);
  subscriptions.clear();
  group.cancel();
  MOOR_ASSERT(block_on(loop, group.join()).ok());
  return result;
}

}  // namespace

void bench_watch(const StoreBench& bench, Report& report) {
  report.heading("Watch fan-out");
  std::vector<std::vector<std::string>> table;
  for (const std::size_t watchers : {1, 10, 100, 1'000, 10'000}) {
    std::vector<double> idle, busy, delivery;
    for (int round = 0; round < bench.rounds; ++round) {
      idle.push_back(measure(watchers, false, 2'000).write_micros);
      const Fanout all = measure(watchers, true, std::max<std::size_t>(20, 100'000 / watchers));
      busy.push_back(all.write_micros);
      delivery.push_back(all.deliver_micros);
    }
    report.raw(Json::object({{"section", "watch"},
                             {"watchers", watchers},
                             {"unconcerned_write_us", median(idle)},
                             {"concerned_write_us", median(busy)},
                             {"cpu_us_per_delivery", median(delivery)}}));
    table.push_back({std::to_string(watchers), fmt::format("{:.1f}", median(idle)),
                     fmt::format("{:.1f}", median(busy)), fmt::format("{:.2f}", median(delivery))});
  }
  report.table(
      {"watchers", "write when none is concerned, µs", "write when all are, µs", "CPU per delivery, µs"},
      table);
}

}  // namespace moor::bench
