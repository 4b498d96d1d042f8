// The suites of every store, on one etcd for the whole program; each test and each sequence has a root of its
// own.
#include "store/contract/contract.h"

#include "base/cancel.h"
#include "base/loop.h"
#include "store/etcd/etcd_store.h"
#include "store/etcd/testing.h"

namespace moor::store {
namespace {

class SharedEtcd final : public testing::Environment {
 public:
  void SetUp() override {
    if (!etcd::etcd_is_installed()) return;
    auto started = etcd::EtcdServer::start();
    ASSERT_TRUE(started.ok()) << started.error().message;
    server = std::move(*started);
  }
  void TearDown() override { server.reset(); }
  std::unique_ptr<etcd::EtcdServer> server;
};
SharedEtcd& shared() {
  static auto* const environment =
      static_cast<SharedEtcd*>(testing::AddGlobalTestEnvironment(new SharedEtcd));
  return *environment;
}
[[maybe_unused]] const SharedEtcd& kRegistered = shared();

Task<Result<bool>> slept(Executor* executor, Duration duration) {
  CO_TRY_VOID(co_await sleep_for(*executor, duration));
  co_return true;
}

class EtcdUnderTest final : public StoreUnderTest {
 public:
  EtcdUnderTest() {
    static int roots = 0;
    options_.endpoints = shared().server->endpoints();
    options_.root = "/contract/" + std::to_string(++roots);
    options_.request_timeout = std::chrono::seconds(20);  // a busy machine is no failure
    reopen();
  }
  ~EtcdUnderTest() override { store_.reset(); }
  Executor& executor() override { return loop_; }
  Store& store() override { return *store_; }
  bool reopen() override {
    store_.reset();
    auto opened = block_on(loop_, open_etcd_store(loop_, options_));
    MOOR_ASSERT(opened.ok(), "{}", opened.error().message);
    store_ = std::move(*opened);
    return true;
  }
  void pass_time(Duration duration) override { EXPECT_TRUE(block_on(loop_, slept(&loop_, duration)).ok()); }

 private:
  Loop loop_;
  EtcdOptions options_;
  std::unique_ptr<Store> store_;
};

std::unique_ptr<StoreUnderTest> make_etcd_under_test() {
  if (!etcd::etcd_is_installed()) return nullptr;
  return std::make_unique<EtcdUnderTest>();
}

// Without etcd the suites are not instantiated at all; this test then says why.
TEST(EtcdContract, NeedsEtcd) {
  if (!etcd::etcd_is_installed()) GTEST_SKIP() << "/usr/bin/etcd is missing: install the package etcd-server";
}

std::vector<StoreFactory> factories() {
  if (!etcd::etcd_is_installed()) return {};
  return {make_etcd_under_test};
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreContract);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreModel);
INSTANTIATE_TEST_SUITE_P(Etcd, StoreContract, testing::ValuesIn(factories()));
INSTANTIATE_TEST_SUITE_P(Etcd, StoreModel, testing::ValuesIn(factories()));

}  // namespace
}  // namespace moor::store
