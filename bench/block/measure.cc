#include <fmt/format.h>

#include "base/assert.h"
#include "bench/block/sections.h"

namespace moor::bench {
namespace {

std::vector<double> of(const std::vector<Sample>& samples, double (*figure)(const Sample&)) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(figure(sample));
  return values;
}

double ratio(const Samples& samples, const std::string& one, const std::string& other,
             double (*figure)(const Sample&)) {
  const auto above = of(samples.at(one), figure);
  const auto below = of(samples.at(other), figure);
  MOOR_ASSERT(above.size() == below.size());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < above.size(); ++i) ratios.push_back(below[i] > 0 ? above[i] / below[i] : 0);
  return median(ratios);
}

double iops_of(const Sample& sample) {
  return sample.fio.iops;
}
double cpu_of(const Sample& sample) {
  return sample.cpu_micros;
}

}  // namespace

void Goals::add(const std::string& what, double measured, Limit limit, const std::string& note) {
  const bool holds = limit.most ? measured <= limit.value : measured >= limit.value;
  rows_.push_back({what, fmt::format("{:.2f}", measured),
                   fmt::format("{} {}", limit.most ? "≤" : "≥", limit.value), holds ? "holds" : "**missed**",
                   note});
}

void Goals::write(Report& report) const {
  if (rows_.empty()) return;
  report.heading("Goals");
  report.table({"what", "measured", "goal", "verdict", ""}, rows_);
}

double iops_ratio(const Samples& samples, const std::string& one, const std::string& other) {
  return ratio(samples, one, other, iops_of);
}

double cpu_ratio(const Samples& samples, const std::string& one, const std::string& other) {
  return ratio(samples, one, other, cpu_of);
}

Sample measure(const Contender& contender, const Load& load, const BlockBench& bench) {
  Sample sample;
  const Duration before = contender.cpu();
  sample.fio = run_fio(contender.target, load, bench.size, bench.seconds);
  const Duration used = contender.cpu() - before;
  sample.cpu_micros = micros(used) / static_cast<double>(sample.fio.operations);
  return sample;
}

Samples interleave(const std::vector<const Contender*>& contenders, const Load& load, const BlockBench& bench,
                   Report& report) {
  Samples samples;
  for (int round = 0; round < bench.rounds; ++round) {
    for (const Contender* contender : contenders) {
      const Sample sample = measure(*contender, load, bench);
      samples[contender->name].push_back(sample);
      report.raw(Json::object({{"row", load.name},
                               {"who", contender->name},
                               {"round", round},
                               {"iops", sample.fio.iops},
                               {"p50_us", sample.fio.p50_micros},
                               {"p99_us", sample.fio.p99_micros},
                               {"cpu_us_per_op", sample.cpu_micros},
                               {"operations", sample.fio.operations}}));
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const Contender* contender : contenders) {
    const auto& mine = samples.at(contender->name);
    const auto middle = [&](double (*figure)(const Sample&)) { return median(of(mine, figure)); };
    rows.push_back({contender->name, fmt::format("{:.0f}", middle(iops_of)),
                    fmt::format("{:.0f}", middle([](const Sample& sample) { return sample.fio.p50_micros; })),
                    fmt::format("{:.0f}", middle([](const Sample& sample) { return sample.fio.p99_micros; })),
                    contender->processes.empty() ? "-" : fmt::format("{:.1f}", middle(cpu_of))});
  }
  report.heading(load.name);
  report.table({"who", "IOPS", "p50 µs", "p99 µs", "CPU µs per op"}, rows);
  return samples;
}

}  // namespace moor::bench
