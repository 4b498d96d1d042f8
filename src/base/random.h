// Randomness comes in through here. SeededRandom is the same on every machine and compiler, so that a seed
// replays a run; RealRandom asks the kernel and is fit for tokens and keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moor {

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;

  // Uniform in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [low, high], both ends included.
  std::int64_t between(std::int64_t low, std::int64_t high);
  // True with probability numerator / denominator.
  bool chance(std::uint64_t numerator, std::uint64_t denominator) { return below(denominator) < numerator; }
  void fill(std::span<std::byte> bytes);
};

// xoshiro256** by Blackman and Vigna, seeded through splitmix64.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed);
  std::uint64_t next() override;

 private:
  std::uint64_t state_[4];
};

// Asks for some numbers at once and forgets each as it gives it out. One thread.
class RealRandom final : public Random {
 public:
  std::uint64_t next() override;

 private:
  std::uint64_t drawn_[32] = {};
  std::size_t left_ = 0;
};

}  // namespace moor
