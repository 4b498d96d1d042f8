// One suite for every store: each implementation makes a StoreUnderTest and instantiates both suites.
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreContract, testing::Values(make_memory_under_test), store_name);
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreModel, testing::Values(make_memory_under_test), store_name);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "base/executor.h"
#include "base/task.h"
#include "store/store.h"

namespace moor::store {

class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;
  virtual Executor& executor() = 0;
  virtual Store& store() = 0;  // empty at first
  // Closes and opens again, as a restart of the process would; false when the store keeps nothing.
  virtual bool reopen() = 0;
  // Lets a lease of this length run out (advances a manual clock, or waits).
  virtual void pass_time(Duration duration) = 0;
};

using StoreFactory = std::function<std::unique_ptr<StoreUnderTest>()>;

// A function prints as its address: without a name of its own a test would be called differently in every
// run.
inline std::string store_name(const testing::TestParamInfo<StoreFactory>& info) {
  return std::to_string(info.index);
}

class StoreContract : public testing::TestWithParam<StoreFactory> {
 protected:
  void SetUp() override { under_test_ = GetParam()(); }

  Store& store() { return under_test_->store(); }
  template <class T>
  T wait(Task<T> task) {
    return block_on(under_test_->executor(), std::move(task));
  }
  Revision created(std::string key, std::string bytes = "x");
  // All events after a revision until `last` has been seen.
  std::vector<Event> events_between(Revision after, Revision last, std::string prefix = "");
  std::string value_of(std::string key);  // "<absent>" when it is not there

  std::unique_ptr<StoreUnderTest> under_test_;
};

class StoreModel : public StoreContract {};

}  // namespace moor::store
