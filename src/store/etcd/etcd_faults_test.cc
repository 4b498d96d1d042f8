// etcd that dies, hangs, is full, is not there or is not who it says.
#include <gmock/gmock.h>

#include <filesystem>

#include "store/etcd/etcd_store.h"
#include "store/etcd/under_test.h"

namespace moor::store::etcd {
namespace {
using namespace std::chrono_literals;
using testing::HasSubstr;

struct Faults : WithEtcd {
  EtcdOptions impatient() const {
    EtcdOptions result = options();
    result.request_timeout = 1s;
    result.health_interval = 200ms;
    return result;
  }
  bool can_write(Store& store, const std::string& key) {
    return eventually([&] { return wait(store.put(key, "x")).ok(); });
  }
};

TEST_F(Faults, AServerThatIsKilledAndComesBackLosesNothing) {
  start();
  const auto store = open(impatient());
  const auto first = wait(store->put("a", "1"));
  ASSERT_TRUE(first.ok());
  auto stream = wait(store->watch("", *first));
  ASSERT_TRUE(wait(store->put("b", "1")).ok());
  ASSERT_EQ(wait((*stream)->next())->events.size(), 1u);
  server_->kill(0);
  const auto refused = wait(store->put("c", "1"));
  EXPECT_TRUE(refused.is(Errc::unavailable) || refused.is(Errc::timed_out));
  // Once the loss is known, the answer is certain.
  EXPECT_TRUE(wait(store->put("c", "1")).is(Errc::unavailable));
  EXPECT_FALSE(wait(store->get("a")).ok());
  EXPECT_TRUE(eventually([&] { return store->ready().is(Errc::unavailable); }));
  ASSERT_TRUE(server_->restart(0).ok());
  EXPECT_TRUE(eventually([&] { return store->ready().ok(); }));
  ASSERT_TRUE(can_write(*store, "d"));
  const auto batch = wait((*stream)->next());
  ASSERT_TRUE(batch.ok()) << batch.error().message;
  EXPECT_EQ(batch->events.front().entry.key, "d");
  EXPECT_EQ(*wait(store->get("a"))->entry->value, "1");
  EXPECT_EQ(*wait(store->get("b"))->entry->value, "1");
}

TEST_F(Faults, AServerThatHangsIsATimeOutWithinTheDeadline) {
  start();
  const auto store = open(impatient());
  const auto first = wait(store->put("a", "1"));
  ASSERT_TRUE(first.ok());
  auto stream = wait(store->watch("", *first));
  server_->freeze(0);
  TimePoint before = loop_.clock().now();
  const auto written = wait(store->put("b", "1"));
  EXPECT_TRUE(written.is(Errc::timed_out)) << written.error().message;
  EXPECT_LT(loop_.clock().now() - before, 3s);
  before = loop_.clock().now();
  const auto read = wait(store->get("a"));
  EXPECT_TRUE(read.is(Errc::timed_out)) << read.error().message;
  EXPECT_LT(loop_.clock().now() - before, 3s);
  EXPECT_TRUE(eventually([&] { return !store->ready().ok(); }));
  server_->thaw(0);
  EXPECT_TRUE(eventually([&] { return store->ready().ok(); }));
  ASSERT_TRUE(can_write(*store, "c"));
  // The write of unknown outcome may be there or not; never twice, and never after c.
  std::vector<std::string> keys;
  while (keys.empty() || keys.back() != "c") {
    const auto batch = wait((*stream)->next());
    ASSERT_TRUE(batch.ok()) << batch.error().message;
    for (const Event& event : batch->events) keys.push_back(event.entry.key);
  }
  EXPECT_LE(keys.size(), 2u);
}

TEST_F(Faults, AFullEtcdRefusesWritesAndServesReads) {
  ServerOptions server;
  server.flags = {"--quota-backend-bytes=16777216"};
  start(server);
  const auto store = open(impatient());
  ASSERT_TRUE(wait(store->put("kept", "1")).ok());
  const std::string large(1'000'000, 'x');
  Result<Revision> written = Revision{0};
  for (int i = 0; i < 40 && written.ok(); ++i) written = wait(store->put("k" + std::to_string(i), large));
  ASSERT_TRUE(written.is(Errc::exhausted)) << written.error().message;
  EXPECT_TRUE(eventually([&] { return store->ready().is(Errc::exhausted); }));
  EXPECT_EQ(*wait(store->get("kept"))->entry->value, "1");
}

TEST_F(Faults, WithoutAnyServerOpeningSaysSo) {
  start();
  EtcdOptions gone = impatient();
  gone.open_timeout = 1s;
  server_->kill(0);
  const auto store = wait(open_etcd_store(loop_, gone));
  ASSERT_TRUE(store.is(Errc::unavailable)) << store.error().message;
  EXPECT_THAT(store.error().message, HasSubstr("/test/"));
  gone.endpoints.clear();
  EXPECT_TRUE(wait(open_etcd_store(loop_, gone)).is(Errc::invalid));
}

TEST_F(Faults, OneDeadEndpointAmongSeveralDoesNotMatter) {
  start();
  EtcdOptions several = impatient();
  several.endpoints.insert(several.endpoints.begin(), "127.0.0.1:1");
  const auto store = open(several);
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(wait(store->put("a", "1")).ok());
}

struct Tls : Faults {
  void SetUp() override {
    Faults::SetUp();
    if (IsSkipped()) return;
    std::string pattern = testing::TempDir() + "moor-tls-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    auto good = make_test_certificates(directory_ + "/good");
    auto other = make_test_certificates(directory_ + "/other");
    ASSERT_TRUE(good.ok() && other.ok());
    good_ = *good;
    other_ = *other;
    ServerOptions server;
    server.tls = {good_.file("ca.crt"), good_.file("server.crt"), good_.file("server.key")};
    start(server);
    options_ = options();
    options_.tls_ca = good_.text("ca.crt");
    options_.tls_certificate = good_.text("client.crt");
    options_.tls_key = good_.text("client.key");
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }
  Result<std::unique_ptr<Store>> try_open(EtcdOptions options) {
    options.open_timeout = 1s;
    return wait(open_etcd_store(loop_, std::move(options)));
  }
  std::string directory_;
  TestCertificates good_;
  TestCertificates other_;
  EtcdOptions options_;
};

TEST_F(Tls, BothSidesProveWhoTheyAre) {
  const auto store = open(options_);
  ASSERT_NE(store, nullptr);
  const auto revision = wait(store->put("a", "1"));
  ASSERT_TRUE(revision.ok());
  auto stream = wait(store->watch("", *revision - 1));
  EXPECT_EQ(wait((*stream)->next())->events.size(), 1u);

  EtcdOptions wrong_ca = options_;
  wrong_ca.tls_ca = other_.text("ca.crt");
  EXPECT_TRUE(try_open(wrong_ca).is(Errc::unavailable));
  EtcdOptions wrong_client = options_;
  wrong_client.tls_certificate = other_.text("client.crt");
  wrong_client.tls_key = other_.text("client.key");
  EXPECT_TRUE(try_open(wrong_client).is(Errc::unavailable));
  EtcdOptions anonymous = options_;
  anonymous.tls_certificate.clear();
  anonymous.tls_key.clear();
  EXPECT_TRUE(try_open(anonymous).is(Errc::unavailable));
  EtcdOptions wrong_name = options_;
  wrong_name.tls_server_name = "elsewhere.example";
  EXPECT_TRUE(try_open(wrong_name).is(Errc::unavailable));
  EtcdOptions half = options_;
  half.tls_key.clear();
  EXPECT_TRUE(try_open(half).is(Errc::invalid));
}

}  // namespace
}  // namespace moor::store::etcd
