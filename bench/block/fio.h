// fio as the one client of all contenders: its nbd engine against a server, io_uring against a plain file.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace moor::bench {

struct Load {
  std::string name;     // of the row, in the results
  std::string pattern;  // fio's --rw
  std::uint64_t block_bytes = 4096;
  int depth = 1;
  bool flush = false;  // after every write
};

struct FioResult {
  double iops = 0;
  double p50_micros = 0;
  double p99_micros = 0;
  std::uint64_t operations = 0;
};

// `target`: an nbd+unix URI, or the path of a file or block device, which is opened O_DIRECT. Asserts on any
// error that fio reports.
FioResult run_fio(const std::string& target, const Load& load, std::uint64_t size, double seconds);
// Writes the whole range once, so that nothing is measured on holes.
void fill_target(const std::string& target, std::uint64_t size);

}  // namespace moor::bench
