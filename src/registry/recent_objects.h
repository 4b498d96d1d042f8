// The objects that were decoded last, held for a moment: a write is looked at by the cache, the garbage
// collector and watches within microseconds, and each would decode it again. Bounded by count and by the size
// of their texts; one thread.
#pragma once

#include <deque>
#include <memory>

#include "base/json.h"

namespace moor::registry {

class RecentObjects {
 public:
  static constexpr std::size_t kMaxObjects = 256;
  static constexpr std::size_t kMaxTextBytes = 4u << 20;

  void keep(std::shared_ptr<const Json> object, std::size_t text_bytes) {
    if (object == nullptr || text_bytes > kMaxTextBytes) return;
    bytes_ += text_bytes;
    held_.push_back({std::move(object), text_bytes});
    while (held_.size() > kMaxObjects || bytes_ > kMaxTextBytes) {
      bytes_ -= held_.front().text_bytes;
      held_.pop_front();
    }
  }

 private:
  struct Held {
    std::shared_ptr<const Json> object;
    std::size_t text_bytes;
  };
  std::deque<Held> held_;
  std::size_t bytes_ = 0;
};

}  // namespace moor::registry
