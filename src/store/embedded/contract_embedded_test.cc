// The contract of all stores, run on the embedded one.
#include <condition_variable>
#include <mutex>

#include "store/contract/contract.h"
#include "store/embedded/embedded_store.h"
#include "store/embedded/testing/temporary_directory.h"

namespace moor::store {
namespace {

// Real threads post here; time moves only when told to, so that leases need no waiting.
class TestExecutor final : public Executor {
 public:
  void post(Work work) override {
    {
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(work));
    }
    wake_.notify_one();
  }
  TimerId start_timer(TimePoint when, Work work) override {
    return timers_.start_timer(when, std::move(work));
  }
  void stop_timer(TimerId timer) override { timers_.stop_timer(timer); }
  const Clock& clock() const override { return timers_.clock(); }
  bool run_one() override {
    Work work;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait_for(lock, std::chrono::seconds(60), [this] { return !ready_.empty(); })) return false;
      work = std::move(ready_.front());
      ready_.pop_front();
    }
    work();
    return true;
  }
  void advance(Duration duration) { timers_.advance(duration); }

 private:
  ManualExecutor timers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> ready_;
};

class EmbeddedUnderTest final : public StoreUnderTest {
 public:
  EmbeddedUnderTest() { open(); }
  Executor& executor() override { return executor_; }
  Store& store() override { return *store_; }
  bool reopen() override {
    store_.reset();
    open();
    return true;
  }
  void pass_time(Duration duration) override {
    executor_.advance(duration);
    // What the timers started is in the journal's queue; an empty compaction stands behind it.
    ASSERT_TRUE(block_on(executor_, store_->compact(0)).ok());
  }

 private:
  void open() {
    auto opened = open_embedded_store(executor_, directory_.path() / "store");
    MOOR_ASSERT(opened.ok(), "{}", opened.error().message);
    store_ = std::move(*opened);
  }
  // In memory where there is such a file system: these suites are about behaviour, others are about the disk.
  embedded::TemporaryDirectory directory_{"/dev/shm"};
  TestExecutor executor_;
  std::unique_ptr<Store> store_;
};

std::unique_ptr<StoreUnderTest> make_under_test() {
  return std::make_unique<EmbeddedUnderTest>();
}

INSTANTIATE_TEST_SUITE_P(Embedded, StoreContract, testing::Values(make_under_test), store_name);
INSTANTIATE_TEST_SUITE_P(Embedded, StoreModel, testing::Values(make_under_test), store_name);

}  // namespace
}  // namespace moor::store
