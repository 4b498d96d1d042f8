// Figures about the server in Prometheus' text form. Counters and histograms are kept here; what others know
// (watchers, the store's revision) is asked for when somebody looks.
//
// The number of series is bounded: labels come from fixed lists (verbs, kinds, status codes), and beyond
// kMaxSeries a request is counted as "other". One thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/clock.h"

namespace moor::doors {

class Metrics {
 public:
  static constexpr std::size_t kMaxSeries = 4096;

  struct Served {
    std::string_view verb;
    std::string_view resource;  // volumes.longhorn.io; empty for what is no resource
    int code = 0;
    Duration took{0};  // of a stream: until it began
  };
  void count(const Served& served);

  enum class Kind { gauge, counter };
  struct Figure {
    std::string name;
    std::string help;
    Kind kind = Kind::gauge;
    std::string labels = {};  // lane="read"
    std::function<double()> read;
  };
  // Figures of one name stand together: add them one after the other.
  void add(Figure figure) { figures_.push_back(std::move(figure)); }

  std::string render() const;

 private:
  static constexpr std::array<double, 12> kBounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                     0.05,   0.1,   0.25,   1,     5,    30};
  struct Histogram {
    std::array<std::uint64_t, kBounds.size() + 1> buckets{};
    double sum = 0;
    std::uint64_t count = 0;
  };
  using Series = std::tuple<std::string, std::string, int>;
  std::map<Series, std::uint64_t> requests_;
  std::map<std::string, Histogram, std::less<>> latency_;  // by verb
  std::vector<Figure> figures_;
};

}  // namespace moor::doors
