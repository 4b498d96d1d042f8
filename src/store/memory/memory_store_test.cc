#include "store/memory/memory_store.h"

#include "store/contract/contract.h"

namespace moor::store {
namespace {
using namespace std::chrono_literals;

class MemoryUnderTest final : public StoreUnderTest {
 public:
  Executor& executor() override { return executor_; }
  Store& store() override { return *store_; }
  bool reopen() override { return false; }
  void pass_time(Duration duration) override { executor_.advance(duration); }

 private:
  ManualExecutor executor_;
  std::unique_ptr<Store> store_ = make_memory_store(executor_);
};

std::unique_ptr<StoreUnderTest> make_under_test() {
  return std::make_unique<MemoryUnderTest>();
}

INSTANTIATE_TEST_SUITE_P(Memory, StoreContract, testing::Values(make_under_test), store_name);
INSTANTIATE_TEST_SUITE_P(Memory, StoreModel, testing::Values(make_under_test), store_name);

}  // namespace
}  // namespace moor::store
