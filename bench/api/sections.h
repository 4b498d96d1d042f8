// The sections of bench/api. Each measures one thing, writes raw lines and one table, and adds what the goals
// ask for to the score.
#pragma once

#include <string>
#include <vector>

#include "bench/common/report.h"

namespace moor::bench {

struct Goal {
  std::string what;
  std::string wanted;
  std::string measured;
  bool holds = false;
};

struct ApiBench {
  std::string moord;     // the program
  std::string scratch;   // directory on the disk to measure; every section cleans up after itself
  double seconds = 1.5;  // per measurement
  int rounds = 7;
  bool with_etcd = true;
  std::vector<std::size_t> connections{1, 16, 64};  // of the operations
  std::size_t largest_list = 100'000;
  std::vector<Goal> goals;
};

void bench_operations(ApiBench& bench, Report& report);
void bench_lists(ApiBench& bench, Report& report);
void bench_watch(ApiBench& bench, Report& report);
void bench_memory(ApiBench& bench, Report& report);

Goal at_most(std::string what, double limit, double measured, std::string_view unit);
Goal at_least(std::string what, double limit, double measured, std::string_view unit);

}  // namespace moor::bench
