// Resident memory of the server: empty, with 10,000 objects, after each of them was changed several times.
#include <fmt/format.h>

#include "bench/api/sections.h"
#include "bench/api/traffic.h"

namespace moor::bench {
namespace {
constexpr std::size_t kObjects = 10'000;
constexpr std::size_t kUpdates = 5;
}  // namespace

void bench_memory(ApiBench& bench, Report& report) {
  report.heading("Memory");
  const ServerProcess server(bench.moord, bench.scratch);
  std::vector<std::vector<std::string>> table;
  const auto note = [&](const std::string& when) {
    const auto now = static_cast<double>(resident_bytes(server.process())) / (1 << 20);
    const auto peak = static_cast<double>(peak_resident_bytes(server.process())) / (1 << 20);
    table.push_back({when, fmt::format("{:.1f}", now), fmt::format("{:.1f}", peak)});
    report.raw(Json::object({{"section", "memory"}, {"when", when}, {"rss_mib", now}, {"peak_mib", peak}}));
    return now;
  };
  note("started");
  create_objects(server, 0, kObjects);
  note(fmt::format("{} objects created", kObjects));
  Traffic traffic(server, 16);
  for (std::size_t turn = 0; turn < kUpdates; ++turn) {
    traffic.run_all(kObjects, 200,
                    [turn](std::size_t number) { return status_request(object_name(number), turn); });
    traffic.run_all(kObjects, 200,
                    [turn](std::size_t number) { return annotate_request(object_name(number), turn); });
  }
  const double changed = note(fmt::format("each changed {} times", 2 * kUpdates));
  traffic.run(bench.seconds / 2, 200, [](std::size_t, std::size_t) {
    return http::Request::to(http::Method::get, snapshots_path());
  });
  note("after whole lists over 16 connections");
  report.table({"when", "resident MiB", "highest so far MiB"}, table);
  bench.goals.push_back(
      at_most("resident memory with 10,000 objects, created and changed", 100, changed, "MiB"));
}

}  // namespace moor::bench
