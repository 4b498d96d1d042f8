// Watches: how long after a create was sent its event arrives (one watcher, many writers), and what a change
// costs when many watch (one writer, many watchers).
#include <fmt/format.h>

#include <unordered_map>

#include "base/assert.h"
#include "base/task_group.h"
#include "bench/api/sections.h"
#include "bench/api/traffic.h"

namespace moor::bench {
namespace {

struct Seen {
  std::unordered_map<std::string, TimePoint> sent;
  std::size_t received = 0;
  Latencies latencies;
};

std::string name_in(const std::string& line) {
  const auto start = line.find("\"watched-");
  MOOR_ASSERT(line.starts_with(R"({"type":"ADDED")") && start != std::string::npos, "event: {}", line);
  return line.substr(start + 1, line.find('"', start + 1) - start - 1);
}

Task<Result<void>> follow(http::Client* client, const Executor* executor, std::string from, CancelToken token,
                          std::size_t* open, Seen* seen) {
  auto request = http::Request::to(http::Method::get,
                                   fmt::format("{}?watch=1&resourceVersion={}", snapshots_path(), from));
  CO_TRY(const auto stream, co_await client->open(std::move(request), {}, TimePoint::never()));
  MOOR_ASSERT(stream->status() == 200, "watch answered {}", stream->status());
  ++*open;
  while (true) {
    auto line = co_await stream->next_line(token);
    if (token.is_cancelled()) co_return Result<void>();
    CO_TRY_VOID(std::move(line));
    MOOR_ASSERT(line->has_value(), "the watch ended");
    seen->latencies.add(executor->clock().now() - seen->sent.at(name_in(**line)));
    ++seen->received;
  }
}

Task<Result<std::string>> newest_version(http::Client* client) {
  auto request = http::Request::to(http::Method::get, snapshots_path() + "?limit=1");
  CO_TRY(const http::Response answer, co_await client->send(std::move(request), {}, TimePoint::never()));
  CO_TRY(const Json list, parse_json(answer.body));
  co_return std::string(list.find("metadata")->get_string("resourceVersion").value_or("0"));
}

struct FanOut {
  Sample creates;
  Latencies events;
  double cpu_per_create = 0;
  double events_per_second = 0;
};

FanOut measure(const ApiBench& bench, std::size_t writers, std::size_t watchers) {
  const ServerProcess server(bench.moord, bench.scratch);
  Traffic traffic(server, writers + watchers);
  Loop& loop = traffic.loop();
  const auto from = block_on(loop, newest_version(&traffic.client(0)));
  MOOR_ASSERT(from.ok(), "{}", from.error().message);
  Seen seen;
  std::size_t open = 0;
  TaskGroup group(loop);
  for (std::size_t i = 0; i < watchers; ++i)
    group.spawn(follow(&traffic.client(writers + i), &loop, *from, group.token(), &open, &seen));
  while (open < watchers) loop.run_one();
  FanOut outcome;
  const Duration cpu = cpu_time(server.process());
  const TimePoint start = loop.clock().now();
  outcome.creates =
      traffic.run(bench.seconds, 201, [&](std::size_t c, std::size_t turn) -> std::optional<http::Request> {
        if (c >= writers) return std::nullopt;
        const std::string name = fmt::format("watched-{}-{:06}", c, turn);
        auto request = create_request(name, turn);
        seen.sent[name] = loop.clock().now();
        return request;
      });
  while (seen.received < outcome.creates.latencies.count() * watchers) loop.run_one();
  outcome.events_per_second = static_cast<double>(seen.received) / seconds(loop.clock().now() - start);
  outcome.cpu_per_create =
      micros(cpu_time(server.process()) - cpu) / static_cast<double>(outcome.creates.latencies.count());
  group.cancel();
  MOOR_ASSERT(block_on(loop, group.join()).ok());
  outcome.events = std::move(seen.latencies);
  return outcome;
}

}  // namespace

void bench_watch(ApiBench& bench, Report& report) {
  report.heading("Watches");
  std::vector<std::vector<std::string>> table;
  const std::pair<std::size_t, std::size_t> scenes[] = {{1, 1}, {16, 1}, {64, 1}, {1, 16}, {1, 64}};
  for (const auto& [writers, watchers] : scenes) {
    std::vector<double> create_p50, p50, p99, ratio, cpu, events;
    for (int round = 0; round < bench.rounds; ++round) {
      FanOut outcome = measure(bench, writers, watchers);
      create_p50.push_back(micros(outcome.creates.latencies.quantile(0.5)));
      p50.push_back(micros(outcome.events.quantile(0.5)));
      p99.push_back(micros(outcome.events.quantile(0.99)));
      ratio.push_back(p50.back() / create_p50.back());
      cpu.push_back(outcome.cpu_per_create);
      events.push_back(outcome.events_per_second);
      report.raw(Json::object({{"section", "watch"},
                               {"round", round},
                               {"writers", writers},
                               {"watchers", watchers},
                               {"create_p50_us", create_p50.back()},
                               {"event_p50_us", p50.back()},
                               {"event_p99_us", p99.back()},
                               {"events_per_second", events.back()},
                               {"server_cpu_us_per_create", cpu.back()},
                               {"load", load_average()}}));
    }
    table.push_back({std::to_string(writers), std::to_string(watchers),
                     fmt::format("{:.0f}", median(create_p50)), fmt::format("{:.0f}", median(p50)),
                     fmt::format("{:.0f}", median(p99)), fmt::format("{:.2f}", median(ratio)),
                     fmt::format("{:.0f}", median(events)), fmt::format("{:.0f}", median(cpu))});
    bench.goals.push_back(
        at_most(fmt::format("watch p50 ÷ create p50, {} writers, {} watchers", writers, watchers), 2,
                median(ratio), "×"));
  }
  report.table({"writers", "watchers", "create p50 µs", "event p50 µs", "event p99 µs", "event ÷ create p50",
                "events/s", "server CPU µs per create and its events"},
               table);
}

}  // namespace moor::bench
