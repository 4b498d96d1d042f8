#include "base/pool.h"

namespace moor {

Pool::Pool(Executor& executor, std::size_t threads) : executor_(executor) {
  MOOR_ASSERT(threads > 0);
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Pool::enqueue(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void Pool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;  // stopping, and everything started is done
    auto next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next();
    next = nullptr;  // destroy captures outside the lock
    lock.lock();
  }
}

}  // namespace moor
