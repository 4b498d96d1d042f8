#include "base/result.h"

#include <cerrno>
#include <memory>

#include "base/assert.h"

namespace moor {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return make_error(Errc::invalid, "odd");
  return number / 2;
}
Result<int> quarter(int number) {
  TRY(const int first, half(number));
  TRY(auto second, half(first));
  return second;
}
Result<void> check(int number) {
  TRY_VOID(quarter(number));
  return {};
}

TEST(Result, TryPassesValuesOnAndErrorsUp) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_TRUE(quarter(6).is(Errc::invalid));
  EXPECT_TRUE(check(4).ok());
  EXPECT_TRUE(check(3).is(Errc::invalid));
}

TEST(Result, CarriesValuesThatOnlyMove) {
  auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  auto use = [&]() -> Result<int> {
    TRY(auto pointer, make());
    return *pointer;
  };
  EXPECT_EQ(*use(), 7);
}

TEST(Result, ContextReadsFromTheOutsideIn) {
  EXPECT_EQ(make_error(Errc::not_found, "no such key").with_context("open volume v1").message,
            "open volume v1: no such key");
}

TEST(Result, ErrnoBecomesACodeAndASentence) {
  const Error error = errno_error(ENOSPC, "write meta");
  EXPECT_EQ(error.code, Errc::exhausted);
  EXPECT_EQ(error.message, "write meta: No space left on device");
}

TEST(AssertDeathTest, NamesConditionPlaceAndReason) {
  const int epoch = 3;
  EXPECT_DEATH(MOOR_ASSERT(epoch > 4, "epoch {} is old", epoch),
               "epoch > 4 at .*result_test.cc:.*: epoch 3 is old");
}

}  // namespace
}  // namespace moor
