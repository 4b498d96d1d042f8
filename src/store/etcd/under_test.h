// What the tests with a real etcd share: a loop, options, and waiting for tasks and for conditions.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/cancel.h"
#include "base/loop.h"
#include "base/task.h"
#include "store/etcd/etcd_store.h"
#include "store/etcd/testing.h"

namespace moor::store::etcd {

inline Task<Result<bool>> slept(Executor* executor, Duration duration) {
  CO_TRY_VOID(co_await sleep_for(*executor, duration));
  co_return true;
}

// A fixture with one loop; servers and stores are made by the tests.
class WithEtcd : public testing::Test {
 protected:
  void SetUp() override {
    if (!etcd_is_installed()) GTEST_SKIP() << "/usr/bin/etcd is missing: install the package etcd-server";
  }
  template <class T>
  T wait(Task<T> task) {
    return block_on(loop_, std::move(task));
  }
  // Lets the loop run, for things that happen at a time of their own (health, expiry).
  void pass(Duration duration) { ASSERT_TRUE(wait(slept(&loop_, duration)).ok()); }
  template <class Condition>
  bool eventually(Condition condition, Duration within = std::chrono::seconds(20)) {
    const TimePoint deadline = loop_.clock().now() + within;
    while (!condition()) {
      if (loop_.clock().now() > deadline) return false;
      if (!wait(slept(&loop_, std::chrono::milliseconds(20))).ok()) return false;
    }
    return true;
  }
  void start(ServerOptions options = {}) {
    auto server = EtcdServer::start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }
  EtcdOptions options() const {
    EtcdOptions result;
    result.endpoints = server_->endpoints();
    result.root = "/test/";
    return result;
  }
  std::unique_ptr<Store> open(EtcdOptions options) {
    auto store = wait(open_etcd_store(loop_, std::move(options)));
    EXPECT_TRUE(store.ok()) << store.error().message << "\n" << server_->log_of(0);
    return store.ok() ? std::move(*store) : nullptr;
  }
  std::unique_ptr<Store> open() { return open(options()); }

  Loop loop_;
  std::unique_ptr<EtcdServer> server_;
};

}  // namespace moor::store::etcd
