#include "doors/front/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace moor::doors {

void Metrics::count(const Served& served) {
  Series series{served.verb, served.resource, served.code};
  auto found = requests_.find(series);
  if (found == requests_.end()) {
    if (requests_.size() >= kMaxSeries) series = {"other", "", served.code};
    found = requests_.emplace(std::move(series), 0).first;
  }
  ++found->second;
  Histogram& histogram = latency_[std::string(served.verb)];
  const double seconds = std::chrono::duration<double>(served.took).count();
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  ++histogram.buckets[static_cast<std::size_t>(bucket)];
  histogram.sum += seconds;
  ++histogram.count;
}

std::string Metrics::render() const {
  std::string text =
      "# HELP moor_requests_total Requests answered, by verb, resource and status code.\n"
      "# TYPE moor_requests_total counter\n";
  const auto out = std::back_inserter(text);
  for (const auto& [series, count] : requests_)
    fmt::format_to(out, "moor_requests_total{{verb=\"{}\",resource=\"{}\",code=\"{}\"}} {}\n",
                   std::get<0>(series), std::get<1>(series), std::get<2>(series), count);
  text +=
      "# HELP moor_request_duration_seconds Time to the answer, of a watch to its beginning.\n"
      "# TYPE moor_request_duration_seconds histogram\n";
  for (const auto& [verb, histogram] : latency_) {
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < kBounds.size(); ++i) {
      below += histogram.buckets[i];
      fmt::format_to(out, "moor_request_duration_seconds_bucket{{verb=\"{}\",le=\"{}\"}} {}\n", verb,
                     kBounds[i], below);
    }
    fmt::format_to(out, "moor_request_duration_seconds_bucket{{verb=\"{}\",le=\"+Inf\"}} {}\n", verb,
                   histogram.count);
    fmt::format_to(out, "moor_request_duration_seconds_sum{{verb=\"{}\"}} {}\n", verb, histogram.sum);
    fmt::format_to(out, "moor_request_duration_seconds_count{{verb=\"{}\"}} {}\n", verb, histogram.count);
  }
  std::string_view last;
  for (const Figure& figure : figures_) {
    if (figure.name != last)
      fmt::format_to(out, "# HELP {0} {1}\n# TYPE {0} {2}\n", figure.name, figure.help,
                     figure.kind == Kind::gauge ? "gauge" : "counter");
    last = figure.name;
    const std::string labels = figure.labels.empty() ? "" : "{" + figure.labels + "}";
    fmt::format_to(out, "{}{} {}\n", figure.name, labels, figure.read());
  }
  return text;
}

}  // namespace moor::doors
