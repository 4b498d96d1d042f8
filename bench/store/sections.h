// The sections of bench/store. Each measures one thing, writes raw lines and one table.
#pragma once

#include <string>

#include "bench/common/report.h"

namespace moor::bench {

struct StoreBench {
  std::string scratch;  // directory on the disk to measure; every section cleans up after itself
  double seconds = 4;   // per measurement
  int rounds = 3;
  std::size_t value_bytes = 1024;
  bool with_etcd = true;
  std::size_t largest_open = 1'000'000;
};

void bench_writes(const StoreBench& bench, Report& report);
void bench_reads(const StoreBench& bench, Report& report);
void bench_open(const StoreBench& bench, Report& report);
void bench_watch(const StoreBench& bench, Report& report);

}  // namespace moor::bench
