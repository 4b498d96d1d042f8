#include <sys/random.h>

#include "base/assert.h"
#include "base/random.h"

namespace moor {

std::uint64_t RealRandom::next() {
  std::uint64_t value = 0;
  // Up to 256 bytes getrandom() is never short and, once the kernel is seeded, never fails.
  const ssize_t got = getrandom(&value, sizeof value, 0);
  MOOR_ASSERT(got == static_cast<ssize_t>(sizeof value), "getrandom gave {} bytes", got);
  return value;
}

}  // namespace moor
