// Creates, gets, status patches and deletes at 1, 16 and 64 connections, beside bare etcd puts of the same
// size, round by round.
#include <fmt/format.h>

#include <map>

#include "bench/api/sections.h"
#include "bench/api/traffic.h"
#include "bench/common/etcd_peer.h"

namespace moor::bench {
namespace {

// The peer as clients would use it, each with its connection as ours have, and over one connection for all,
// which is the best that can be had of it.
constexpr const char* kPut = "etcd put";
constexpr const char* kSharedPut = "etcd put, one connection";
// etcd's puts go without TLS: like with like. What people run has it, and is judged beside that.
constexpr const char* kPlainCreate = "create, without TLS";

struct Row {
  std::vector<double> per_second, p50, p99, cpu;
};
using Rows = std::map<std::pair<std::size_t, std::string>, Row>;

struct Place {
  int round;
  std::size_t connections;
};

void note(Rows& rows, Report& report, Place place, const std::string& what, Sample sample) {
  Row& row = rows[{place.connections, what}];
  row.per_second.push_back(sample.per_second);
  row.p50.push_back(micros(sample.latencies.quantile(0.5)));
  row.p99.push_back(micros(sample.latencies.quantile(0.99)));
  row.cpu.push_back(sample.cpu_micros);
  report.raw(Json::object({{"section", "operations"},
                           {"round", place.round},
                           {"connections", place.connections},
                           {"what", what},
                           {"per_second", sample.per_second},
                           {"p50_us", row.p50.back()},
                           {"p99_us", row.p99.back()},
                           {"server_cpu_us", sample.cpu_micros},
                           {"answer_bytes", sample.answer_bytes},
                           {"count", sample.latencies.count()},
                           {"load", load_average()}}));
}

std::string name_of(std::size_t connection, std::size_t turn) {
  return fmt::format("snap-{}-{:06}", connection, turn);
}

Sample put_etcd(const ApiBench& bench, std::size_t writers, EtcdLinks links) {
  const Scratch scratch(bench.scratch);
  EtcdServer server(scratch.path());
  Sample sample;
  sample.latencies.add_all(run_etcd_puts(server.endpoint(), writers, bench.seconds, kBodyBytes, links));
  // From connected to the end of the time; what was under way then is counted in etcd's favour.
  sample.per_second = static_cast<double>(sample.latencies.count()) / bench.seconds;
  return sample;
}

// One server: the objects that the creates made are what the others use; the deletes take half the time, so
// that they do not run out of objects.
void run_round(const ApiBench& bench, Report& report, Rows& rows, Place place) {
  const ServerProcess server(bench.moord, bench.scratch);
  Traffic traffic(server, place.connections);
  std::vector<std::size_t> made(place.connections);
  const auto some = [&made](std::size_t connection, std::size_t turn) {
    return name_of(connection, (turn * 7919) % made[connection]);
  };
  note(rows, report, place, "create", traffic.run(bench.seconds, 201, [&](std::size_t c, std::size_t turn) {
    made[c] = turn + 1;
    return create_request(name_of(c, turn), c * 100'000 + turn);
  }));
  note(rows, report, place, "get", traffic.run(bench.seconds, 200, [&](std::size_t c, std::size_t turn) {
    return http::Request::to(http::Method::get, snapshot_path(some(c, turn)));
  }));
  note(rows, report, place, "status patch",
       traffic.run(bench.seconds, 200,
                   [&](std::size_t c, std::size_t turn) { return status_request(some(c, turn), turn); }));
  note(rows, report, place, "delete",
       traffic.run(bench.seconds / 2, 200,
                   [&](std::size_t c, std::size_t turn) -> std::optional<http::Request> {
                     if (turn >= made[c]) return std::nullopt;
                     return http::Request::to(http::Method::delete_, snapshot_path(name_of(c, turn)));
                   }));
}

void create_plainly(const ApiBench& bench, Report& report, Rows& rows, Place place) {
  const ServerProcess server(bench.moord, bench.scratch, Wire::plain);
  Traffic traffic(server, place.connections);
  note(rows, report, place, kPlainCreate,
       traffic.run(bench.seconds, 201, [&](std::size_t c, std::size_t turn) {
         return create_request(name_of(c, turn), c * 100'000 + turn);
       }));
}

void set_goals(ApiBench& bench, Rows& rows) {
  for (const std::size_t connections : bench.connections) {
    if (!bench.with_etcd || connections == 1) continue;
    for (const auto& [what, how] :
         {std::pair(kPlainCreate, "neither with TLS"), {"create", "ours with TLS"}}) {
      const double ratio =
          median(rows[{connections, what}].per_second) / median(rows[{connections, kPut}].per_second);
      bench.goals.push_back(
          at_least(fmt::format("durable creates ÷ bare etcd puts, {} connections, {}", connections, how), 2,
                   ratio, "×"));
    }
  }
  for (const auto& [what, limit] : {std::pair("create", 300.), {"get", 100.}, {"status patch", 300.}}) {
    double worst = 0;
    for (const std::size_t connections : bench.connections)
      worst = std::max(worst, median(rows[{connections, what}].cpu));
    bench.goals.push_back(
        at_most(fmt::format("server CPU per {} (worst of {})", what, fmt::join(bench.connections, ", ")),
                limit, worst, "µs"));
  }
}

}  // namespace

void bench_operations(ApiBench& bench, Report& report) {
  report.heading("Operations");
  Rows rows;
  for (int round = 0; round < bench.rounds; ++round) {
    for (const std::size_t connections : bench.connections) {
      if (bench.with_etcd) {
        note(rows, report, {round, connections}, kPut, put_etcd(bench, connections, EtcdLinks::own));
        note(rows, report, {round, connections}, kSharedPut, put_etcd(bench, connections, EtcdLinks::shared));
      }
      run_round(bench, report, rows, {round, connections});
      create_plainly(bench, report, rows, {round, connections});
    }
  }
  std::vector<std::vector<std::string>> table;
  for (const std::size_t connections : bench.connections) {
    for (const char* what : {kPut, kSharedPut, "create", kPlainCreate, "get", "status patch", "delete"}) {
      if (!rows.contains({connections, what})) continue;
      const Row& row = rows[{connections, what}];
      const bool ours = what != kPut && what != kSharedPut;
      const bool writes = what != std::string_view("get");
      const auto over = [&](const char* peer) {
        return writes && bench.with_etcd
                   ? fmt::format("{:.2f}",
                                 median(row.per_second) / median(rows[{connections, peer}].per_second))
                   : "-";
      };
      table.push_back({std::to_string(connections), what, fmt::format("{:.0f}", median(row.per_second)),
                       over(kPut), over(kSharedPut), fmt::format("{:.0f}", median(row.p50)),
                       fmt::format("{:.0f}", median(row.p99)),
                       ours ? fmt::format("{:.0f}", median(row.cpu)) : "-"});
    }
  }
  report.table({"connections", "what", "per second", "÷ etcd put", "÷ one connection", "p50 µs", "p99 µs",
                "server CPU µs each"},
               table);
  set_goals(bench, rows);
}

}  // namespace moor::bench
