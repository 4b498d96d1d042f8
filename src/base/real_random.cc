#include <sys/random.h>

#include <iterator>
#include <utility>

#include "base/assert.h"
#include "base/random.h"

namespace moor {

std::uint64_t RealRandom::next() {
  if (left_ == 0) {
    // Up to 256 bytes getrandom() is never short and, once the kernel is seeded, never fails.
    const ssize_t got = getrandom(drawn_, sizeof drawn_, 0);
    MOOR_ASSERT(got == static_cast<ssize_t>(sizeof drawn_), "getrandom gave {} bytes", got);
    left_ = std::size(drawn_);
  }
  return std::exchange(drawn_[--left_], 0);
}

}  // namespace moor
