// What a process held is let go when it dies, but not at once: after kill -9 the kernel tears its io_uring
// down in the background, and until then a listening socket still accepts and a lock still holds. Whoever
// takes such a thing over looks again for a bounded time before it says "in use". There is no event to wait
// for.
#pragma once

#include <poll.h>

namespace moor::block::io {

inline constexpr int kAfterKillTries = 150;
inline constexpr int kAfterKillPauseMs = 20;

// Answers whether `is_free()` came true within three seconds.
template <class IsFree>
bool free_after_kill(IsFree is_free) {
  for (int attempt = 0; attempt < kAfterKillTries; ++attempt) {
    if (is_free()) return true;
    ::poll(nullptr, 0, kAfterKillPauseMs);
  }
  return is_free();
}

}  // namespace moor::block::io
