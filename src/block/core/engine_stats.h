// Counters of an engine: latency histograms with a bucket per power of two, per kind of operation and per
// member. Plain values, written by the engine's thread, copied by whoever reports them.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>

namespace moor::block::engine {

// Bucket i counts latencies in [2^i, 2^(i+1)) nanoseconds; bucket 0 takes 0 as well, the last everything
// above.
class Histogram {
 public:
  static constexpr std::size_t kBuckets = 40;  // up to 18 minutes

  void add(std::chrono::nanoseconds latency) {
    const auto value = latency.count() > 0 ? static_cast<std::uint64_t>(latency.count()) : 1;
    const auto bucket = static_cast<std::size_t>(std::bit_width(value) - 1);
    ++buckets_[bucket < kBuckets ? bucket : kBuckets - 1];
    ++count_;
    sum_ns_ += value;
  }
  std::uint64_t count() const { return count_; }
  std::uint64_t sum_ns() const { return sum_ns_; }
  const std::array<std::uint64_t, kBuckets>& buckets() const { return buckets_; }
  // Upper edge of the bucket that holds the given share (0 to 1) of all values; 0 when empty.
  std::chrono::nanoseconds quantile(double share) const;

 private:
  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ns_ = 0;
};

struct OpStats {
  Histogram latency;
  std::uint64_t bytes = 0;
  std::uint64_t errors = 0;
};

struct MemberStats {
  Histogram read;
  Histogram write;  // TRIM and WRITE_ZEROES too
  Histogram flush;
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t errors = 0;
  std::uint64_t sessions = 0;
};

struct EngineStats {
  std::array<OpStats, 6> ops;  // by ClientOp
  std::uint64_t waits_for_overlap = 0;
  std::uint64_t stalls = 0;  // times that acknowledgements stopped for the Grant
  Histogram stall;           // how long each lasted
  std::uint64_t regions_cleared = 0;
  std::uint64_t resync_compared_bytes = 0;
  std::uint64_t resync_written_bytes = 0;
};

}  // namespace moor::block::engine
