// What the embedded store costs on this disk: durable commits per second and their latency with 1, 16 and 64
// writers on one loop, beside bare fdatasync in the same directory; the time to open 100,000 objects of 1
// KiB.
//
//   store_measure DIRECTORY [SECONDS] [OBJECTS]
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/task_group.h"
#include "store/embedded/embedded_store.h"

namespace moor::store {
namespace {
using Steady = std::chrono::steady_clock;

double microseconds(Steady::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

struct Latencies {
  std::vector<double> values;
  double at(double share) {
    if (values.empty()) return 0;
    const auto position = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), values.begin() + position, values.end());
    return values[static_cast<std::size_t>(position)];
  }
  void print(const std::string& name, double seconds) {
    fmt::print("{:<28} {:>9.0f}/s  p50 {:>7.0f}  p99 {:>7.0f}  p99.9 {:>7.0f}  max {:>7.0f} us\n", name,
               static_cast<double>(values.size()) / seconds, at(0.5), at(0.99), at(0.999), at(1));
    std::fflush(stdout);
  }
};

void measure_fdatasync(const std::string& directory, double seconds, std::size_t bytes) {
  const std::string path = directory + "/fdatasync";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string block(bytes, 'x');
  // Over existing blocks, as a log that is used again: no metadata to write.
  for (int i = 0; i < 1000; ++i)
    (void)!pwrite(file, block.data(), block.size(), static_cast<off_t>(i * bytes));
  fsync(file);
  Latencies latencies;
  const auto begin = Steady::now();
  for (int i = 0; microseconds(Steady::now() - begin) < seconds * 1e6; ++i) {
    const auto start = Steady::now();
    (void)!pwrite(file, block.data(), block.size(), static_cast<off_t>(i % 1000 * bytes));
    fdatasync(file);
    latencies.values.push_back(microseconds(Steady::now() - start));
  }
  close(file);
  unlink(path.c_str());
  latencies.print(fmt::format("fdatasync of {} KiB", bytes / 1024), seconds);
}

Task<Result<void>> write_for(Store* store, int writer, Steady::time_point until, Latencies* latencies) {
  const std::string value(1024, 'v');
  for (int i = 0; Steady::now() < until; ++i) {
    const auto start = Steady::now();
    CO_TRY_VOID(co_await store->put(fmt::format("/registry/writer-{}/object-{}", writer, i % 1000), value));
    latencies->values.push_back(microseconds(Steady::now() - start));
  }
  co_return Result<void>();
}

Result<void> measure_commits(const std::string& directory, double seconds, int writers) {
  Loop loop;
  TRY(auto store, open_embedded_store(loop, directory + "/commits"));
  Latencies latencies;
  TaskGroup group(loop);
  const auto until = Steady::now() + std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
  for (int i = 0; i < writers; ++i) group.spawn(write_for(store.get(), i, until, &latencies));
  TRY_VOID(block_on(loop, group.join()));
  latencies.print(fmt::format("commits, {} writers", writers), seconds);
  const auto log = std::filesystem::file_size(directory + "/commits/store.db-wal");
  fmt::print("{:<28} {:.1f} MiB\n", "  log file", static_cast<double>(log) / (1u << 20));
  store.reset();
  std::filesystem::remove_all(directory + "/commits");
  return {};
}

Task<Result<void>> fill(Store* store, int first, int count) {
  for (int i = first; i < first + count; i += 50) {
    Transaction transaction;
    for (int j = i; j < std::min(i + 50, first + count); ++j)
      transaction.writes.push_back(
          Write::put(fmt::format("/registry/objects/{:08}", j), std::string(1024, 'v')));
    CO_TRY_VOID(co_await store->commit(std::move(transaction)));
  }
  co_return Result<void>();
}

Result<void> measure_open(const std::string& directory, int objects) {
  Loop loop;
  const std::string path = directory + "/open";
  {
    TRY(auto store, open_embedded_store(loop, path));
    TaskGroup group(loop);
    for (int i = 0; i < 20; ++i) group.spawn(fill(store.get(), i * (objects / 20), objects / 20));
    TRY_VOID(block_on(loop, group.join()));
  }
  for (int round = 0; round < 3; ++round) {
    const auto start = Steady::now();
    TRY(auto store, open_embedded_store(loop, path));
    fmt::print("open {} objects of 1 KiB: {:.0f} ms\n", objects, microseconds(Steady::now() - start) / 1e3);
  }
  std::filesystem::remove_all(path);
  return {};
}

Result<void> run(const std::string& directory, double seconds, int objects) {
  measure_fdatasync(directory, seconds, 4096);
  measure_fdatasync(directory, seconds, 65536);
  for (const int writers : {1, 16, 64}) TRY_VOID(measure_commits(directory, seconds, writers));
  measure_fdatasync(directory, seconds, 65536);
  return measure_open(directory, objects);
}

}  // namespace
}  // namespace moor::store

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "usage: store_measure DIRECTORY [SECONDS] [OBJECTS]\n");
    return 2;
  }
  const double seconds = count > 2 ? std::stod(arguments[2]) : 5;
  const int objects = count > 3 ? std::stoi(arguments[3]) : 100'000;
  if (auto done = moor::store::run(arguments[1], seconds, objects); !done) {
    fmt::print(stderr, "{}\n", done.error().message);
    return 1;
  }
  return 0;
}
