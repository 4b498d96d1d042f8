#include "block/core/engine_stats.h"

namespace moor::block::engine {

std::chrono::nanoseconds Histogram::quantile(double share) const {
  if (count_ == 0) return std::chrono::nanoseconds(0);
  const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(count_));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen > wanted || seen == count_) return std::chrono::nanoseconds(std::uint64_t{2} << i);
  }
  return std::chrono::nanoseconds(std::uint64_t{2} << (kBuckets - 1));
}

}  // namespace moor::block::engine
