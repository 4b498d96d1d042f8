#include "bench/block/fio.h"

#include <fmt/format.h>

#include <vector>

#include "base/assert.h"
#include "bench/common/process.h"

namespace moor::bench {
namespace {

std::vector<std::string> command_for(const std::string& target, const Load& load, std::uint64_t size) {
  std::vector<std::string> command{"fio",
                                   "--name=bench",
                                   "--output-format=json",
                                   "--eta=never",
                                   "--randrepeat=0",
                                   "--norandommap",
                                   "--refill_buffers=0",
                                   "--thread",
                                   "--rw=" + load.pattern,
                                   fmt::format("--bs={}", load.block_bytes),
                                   fmt::format("--iodepth={}", load.depth),
                                   fmt::format("--size={}", size)};
  if (target.starts_with("nbd")) {
    command.insert(command.end(), {"--ioengine=nbd", "--uri=" + target});
  } else {
    command.insert(command.end(), {"--ioengine=io_uring", "--direct=1", "--filename=" + target});
  }
  if (load.flush) command.emplace_back("--fsync=1");
  return command;
}

double number_at(const Json& object, std::initializer_list<std::string_view> path) {
  const Json* found = object.find_path(path);
  return found != nullptr && found->is_number() ? found->as_double() : 0;
}

Json run_command(const std::vector<std::string>& command) {
  const std::string output = run_or_die(command);
  // fio's nbd engine greets on the standard output before the JSON begins.
  const auto start = output.find("\n{");
  const auto begin = output.starts_with("{") ? 0 : start + 1;
  auto parsed = parse_json(std::string_view(output).substr(begin));
  MOOR_ASSERT(parsed.ok(), "fio said what is no JSON: {}", output.substr(0, 400));
  Json job = parsed->find("jobs")->at(0);
  MOOR_ASSERT(job.get_int64("error") == 0, "fio failed: {}", output.substr(0, 400));
  return job;
}

}  // namespace

FioResult run_fio(const std::string& target, const Load& load, std::uint64_t size, double seconds) {
  auto command = command_for(target, load, size);
  command.emplace_back("--time_based");
  command.emplace_back(fmt::format("--runtime={}ms", static_cast<int>(seconds * 1000)));
  const Json job = run_command(command);
  const Json& part = *job.find(load.pattern.ends_with("read") ? "read" : "write");
  FioResult result;
  result.iops = number_at(part, {"iops"});
  result.p50_micros = number_at(part, {"clat_ns", "percentile", "50.000000"}) / 1e3;
  result.p99_micros = number_at(part, {"clat_ns", "percentile", "99.000000"}) / 1e3;
  result.operations = part.get_uint64("total_ios").value_or(0);
  MOOR_ASSERT(result.operations > 0, "fio did nothing on {}", target);
  return result;
}

void fill_target(const std::string& target, std::uint64_t size) {
  Load load;
  load.pattern = "write";
  load.block_bytes = 1u << 20;
  load.depth = 4;
  auto command = command_for(target, load, size);
  command.emplace_back("--end_fsync=1");
  run_command(command);
}

}  // namespace moor::bench
