// The sections of bench/block. Each measures some rows of the goal table (the data-plane design), writes raw
// lines and tables, and says for each goal whether it holds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/block/contenders.h"
#include "bench/block/fio.h"
#include "bench/common/report.h"

namespace moor::bench {

struct BlockBench {
  double seconds = 1.5;  // per measurement
  int rounds = 3;        // interleaved; ratios are taken within a round, then their median
  std::uint64_t size = 256u << 20;
  std::string ram;      // directory of the RAM-backed file system
  std::string disk;     // directory on the real disk
  std::string sockets;  // short
  std::string moorblk;
  int snapshots = 250;
};

struct Sample {
  FioResult fio;
  double cpu_micros = 0;  // per operation, all processes of the contender; 0: not measured
};

class Goals {
 public:
  // `most`: the ratio must not be above the limit; otherwise not below it.
  struct Limit {
    double value;
    bool most;
  };
  static Limit at_least(double value) { return {value, false}; }
  static Limit at_most(double value) { return {value, true}; }
  void add(const std::string& what, double measured, Limit limit, const std::string& note = "");
  void write(Report& report) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// samples[contender][round]
using Samples = std::map<std::string, std::vector<Sample>>;
Sample measure(const Contender& contender, const Load& load, const BlockBench& bench);
// One after the other, round by round; writes the raw lines and the table.
Samples interleave(const std::vector<const Contender*>& contenders, const Load& load, const BlockBench& bench,
                   Report& report);
// The median over the rounds of one's figure divided by the other's in the same round.
double iops_ratio(const Samples& samples, const std::string& one, const std::string& other);
double cpu_ratio(const Samples& samples, const std::string& one, const std::string& other);

// `only`: empty, or the one load to run.
void bench_loads(const BlockBench& bench, const std::string& only, Report& report, Goals& goals);
void bench_flush(const BlockBench& bench, Report& report, Goals& goals);
void bench_snapshots(const BlockBench& bench, Report& report, Goals& goals);
void bench_device(const BlockBench& bench, Report& report, Goals& goals);
const std::vector<Load>& goal_loads();

}  // namespace moor::bench
