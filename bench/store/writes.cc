// Durable writes per second and their latency, beside bare etcd puts and the disk's own fdatasync.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <map>

#include "base/assert.h"
#include "base/loop.h"
#include "base/task_group.h"
#include "bench/common/etcd_peer.h"
#include "bench/store/fill.h"
#include "bench/store/sections.h"
#include "store/embedded/embedded_store.h"

namespace moor::bench {
namespace {

struct Sample {
  double per_second = 0;
  Latencies latencies;
};

// Made before the time is taken: all writers share one thread, and what one does before its write would count
// as the wait of the others.
constexpr std::size_t kValues = 1024;

std::vector<std::string> make_values(std::size_t bytes) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i < kValues; ++i) values.push_back(object_value(i, bytes));
  return values;
}

Task<Result<void>> write_until(store::Store* store, const Executor* executor, TimePoint end,
                               std::size_t writer, const std::vector<std::string>* values,
                               Latencies* latencies) {
  for (std::size_t i = 0; executor->clock().now() < end; ++i) {
    std::string key = fmt::format("bench/w{}/{:08}", writer, i);
    std::string value = (*values)[(i * 64 + writer) % kValues];
    const TimePoint start = executor->clock().now();
    CO_TRY_VOID(co_await store->create(std::move(key), std::move(value)));
    latencies->add(executor->clock().now() - start);
  }
  co_return Result<void>();
}

// As a server runs its loop: until it is told to stop.
Task<Result<void>> stop_after(TaskGroup* group, Loop* loop) {
  const auto result = co_await group->join();
  MOOR_ASSERT(result.ok(), "{}", result.error().message);
  loop->stop();
  co_return result;
}

Sample write_embedded(const StoreBench& bench, std::size_t writers) {
  const Scratch scratch(bench.scratch);
  Loop loop;
  auto store = store::open_embedded_store(loop, scratch.path());
  MOOR_ASSERT(store.ok(), "{}", store.error().message);
  Sample sample;
  const std::vector<std::string> values = make_values(bench.value_bytes);
  TaskGroup group(loop);
  const TimePoint start = loop.clock().now();
  const TimePoint end = start + std::chrono::nanoseconds(static_cast<std::int64_t>(bench.seconds * 1e9));
  for (std::size_t i = 0; i < writers; ++i)
    group.spawn(write_until(store->get(), &loop, end, i, &values, &sample.latencies));
  TaskGroup end_of_run(loop);
  end_of_run.spawn(stop_after(&group, &loop));
  loop.run();
  sample.per_second = static_cast<double>(sample.latencies.count()) / seconds(loop.clock().now() - start);
  return sample;
}

Sample write_etcd(const StoreBench& bench, std::size_t writers) {
  const Scratch scratch(bench.scratch);
  EtcdServer server(scratch.path());
  const RealClock clock;
  const TimePoint start = clock.now();
  Sample sample;
  sample.latencies.add_all(run_etcd_puts(server.endpoint(), writers, bench.seconds, bench.value_bytes));
  sample.per_second = static_cast<double>(sample.latencies.count()) / seconds(clock.now() - start);
  return sample;
}

// What the disk itself can do: append the same bytes, sync, again.
Sample sync_disk(const StoreBench& bench) {
  const Scratch scratch(bench.scratch);
  const int file = open((scratch.path() + "/file").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  MOOR_ASSERT(file >= 0, "cannot write below {}", scratch.path());
  const RealClock clock;
  const std::string bytes = object_value(1, 4096 + bench.value_bytes);
  Sample sample;
  const TimePoint start = clock.now();
  while (seconds(clock.now() - start) < bench.seconds) {
    const TimePoint before = clock.now();
    MOOR_ASSERT(write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    MOOR_ASSERT(fdatasync(file) == 0);
    sample.latencies.add(clock.now() - before);
  }
  sample.per_second = static_cast<double>(sample.latencies.count()) / seconds(clock.now() - start);
  close(file);
  return sample;
}

struct Row {
  std::vector<double> per_second;
  std::vector<double> p50, p99, p999;
};

}  // namespace

void bench_writes(const StoreBench& bench, Report& report) {
  report.heading(fmt::format("Durable writes of {} bytes", bench.value_bytes));
  std::map<std::pair<std::size_t, std::string>, Row> rows;
  const auto note = [&](int round, std::size_t writers, const std::string& who, Sample sample) {
    Row& row = rows[{writers, who}];
    row.per_second.push_back(sample.per_second);
    row.p50.push_back(micros(sample.latencies.quantile(0.5)));
    row.p99.push_back(micros(sample.latencies.quantile(0.99)));
    row.p999.push_back(micros(sample.latencies.quantile(0.999)));
    report.raw(Json::object({{"section", "writes"},
                             {"round", round},
                             {"writers", writers},
                             {"who", who},
                             {"per_second", sample.per_second},
                             {"p50_us", row.p50.back()},
                             {"p99_us", row.p99.back()},
                             {"p999_us", row.p999.back()},
                             {"count", sample.latencies.count()}}));
  };
  for (int round = 0; round < bench.rounds; ++round) {
    for (const std::size_t writers : {1, 16, 64}) {
      note(round, writers, "fdatasync", sync_disk(bench));
      note(round, writers, "embedded", write_embedded(bench, writers));
      if (bench.with_etcd) note(round, writers, "etcd", write_etcd(bench, writers));
    }
  }
  std::vector<std::vector<std::string>> table;
  for (const std::size_t writers : {1, 16, 64}) {
    for (const char* who : {"embedded", "etcd", "fdatasync"}) {
      if (!rows.contains({writers, who})) continue;
      const Row& row = rows[{writers, who}];
      const Row& etcd = rows[{writers, "etcd"}];
      const Row& disk = rows[{writers, "fdatasync"}];
      table.push_back(
          {std::to_string(writers), who, fmt::format("{:.0f}", median(row.per_second)),
           bench.with_etcd ? fmt::format("{:.2f}", median(row.per_second) / median(etcd.per_second)) : "-",
           fmt::format("{:.0f}", median(row.p50)), fmt::format("{:.0f}", median(row.p99)),
           fmt::format("{:.0f}", median(row.p999)),
           fmt::format("{:.2f}", median(row.p99) / median(disk.p99))});
    }
  }
  report.table(
      {"writers", "who", "writes/s", "÷ etcd", "p50 µs", "p99 µs", "p99.9 µs", "p99 ÷ fdatasync p99"}, table);
}

}  // namespace moor::bench
