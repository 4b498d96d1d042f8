// Whole lists of 1,500, 10,000 and 100,000 objects, and the same in pages of 500, as kubectl asks for them.
#include <fmt/format.h>

#include "base/assert.h"
#include "bench/api/sections.h"
#include "bench/api/traffic.h"

namespace moor::bench {
namespace {

constexpr std::size_t kPage = 500;
constexpr std::size_t kGoalObjects = 1'500;

Sample list_whole(const ServerProcess& server, std::size_t connections, double duration) {
  Traffic traffic(server, connections);
  return traffic.run(duration, 200, [](std::size_t, std::size_t) {
    return http::Request::to(http::Method::get, snapshots_path());
  });
}

std::string continue_of(std::string_view body) {
  constexpr std::string_view kField = R"("continue":")";
  const auto start = body.substr(0, 4096).find(kField);  // the list's metadata stands before its items
  if (start == std::string_view::npos) return {};
  body.remove_prefix(start + kField.size());
  return http::percent_encode(body.substr(0, body.find('"')));
}

Task<Result<std::size_t>> walk_pages(http::Client* client) {
  std::size_t pages = 0;
  std::string token;
  do {
    std::string path = fmt::format("{}?limit={}", snapshots_path(), kPage);
    if (!token.empty()) path += "&continue=" + token;
    auto request = http::Request::to(http::Method::get, path);
    CO_TRY(const http::Response answer, co_await client->send(std::move(request), {}, TimePoint::never()));
    MOOR_ASSERT(answer.status == 200, "answered {}: {}", answer.status, answer.body);
    ++pages;
    token = continue_of(answer.body);
  } while (!token.empty());
  co_return pages;
}

// One walk over all pages is one operation.
Sample list_pages(const ServerProcess& server, std::size_t objects) {
  Traffic traffic(server, 1);
  Sample sample;
  const Duration cpu = cpu_time(server.process());
  const TimePoint start = traffic.loop().clock().now();
  const auto pages = block_on(traffic.loop(), walk_pages(&traffic.client(0)));
  MOOR_ASSERT(pages.ok() && *pages == objects / kPage, "{} pages", *pages);
  sample.latencies.add(traffic.loop().clock().now() - start);
  sample.per_second = 1 / seconds(sample.latencies.quantile(0.5));
  sample.cpu_micros = micros(cpu_time(server.process()) - cpu);
  return sample;
}

struct Measured {
  std::size_t objects;
  std::size_t connections;
  std::string how;
};

}  // namespace

void bench_lists(ApiBench& bench, Report& report) {
  report.heading("Lists");
  const ServerProcess server(bench.moord, bench.scratch);
  std::vector<std::vector<std::string>> table;
  std::size_t there = 0;
  const auto measure = [&](const Measured& what, const std::function<Sample()>& run) {
    std::vector<double> per_second, p50, p99, cpu;
    std::uint64_t bytes = 0;
    for (int round = 0; round < bench.rounds; ++round) {
      Sample sample = run();
      per_second.push_back(sample.per_second);
      p50.push_back(micros(sample.latencies.quantile(0.5)) / 1e3);
      p99.push_back(micros(sample.latencies.quantile(0.99)) / 1e3);
      cpu.push_back(sample.cpu_micros / 1e3);
      bytes = sample.answer_bytes;
      report.raw(Json::object({{"section", "lists"},
                               {"round", round},
                               {"objects", what.objects},
                               {"connections", what.connections},
                               {"how", what.how},
                               {"per_second", sample.per_second},
                               {"p50_ms", p50.back()},
                               {"p99_ms", p99.back()},
                               {"server_cpu_ms", cpu.back()},
                               {"answer_bytes", bytes},
                               {"load", load_average()}}));
    }
    table.push_back({std::to_string(what.objects), std::to_string(what.connections), what.how,
                     fmt::format("{:.1f}", median(per_second)), fmt::format("{:.1f}", median(p50)),
                     fmt::format("{:.1f}", median(p99)), fmt::format("{:.1f}", median(cpu)),
                     bytes == 0 ? "-" : fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20))});
    return median(cpu);
  };
  for (const std::size_t objects : {kGoalObjects, std::size_t{10'000}, std::size_t{100'000}}) {
    if (objects > bench.largest_list) break;
    create_objects(server, there, objects - there);
    there = objects;
    double worst = 0;
    for (const std::size_t connections : {1, 16, 64}) {
      if (objects > 10'000 && connections > 1) break;  // 16 such answers at once are 2 GiB
      worst = std::max(worst, measure({objects, connections, "whole"},
                                      [&] { return list_whole(server, connections, bench.seconds / 2); }));
    }
    measure({objects, 1, "pages of 500"}, [&] { return list_pages(server, objects); });
    if (objects == kGoalObjects)
      bench.goals.push_back(
          at_most("server CPU per list of 1,500 objects (worst of 1, 16, 64)", 10, worst, "ms"));
  }
  report.table(
      {"objects", "connections", "how", "per second", "p50 ms", "p99 ms", "server CPU ms each", "answer MiB"},
      table);
}

}  // namespace moor::bench
