#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "support.h"

namespace moor::http::test {
namespace {

[[maybe_unused]] std::size_t resident_kib() {
  std::ifstream status("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  status >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
}

bool allow_descriptors(rlim_t count) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::max(files.rlim_cur, std::min(count, files.rlim_max));
  ::setrlimit(RLIMIT_NOFILE, &files);
  return files.rlim_cur >= count;
}

TEST(Flood, ThousandsOfHalfOpenConnectionsCostLittleAndStopNobody) {
  constexpr int kConnections = 2000;
  if (!allow_descriptors(2 * kConnections + 200)) GTEST_SKIP() << "too few descriptors allowed";
  TestServer server;
  EXPECT_EQ(RawClient(server.port()).ask(get("/echo")).status, 200);
  [[maybe_unused]] const std::size_t before = resident_kib();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kConnections; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    // Nothing, half a head, half a body: whatever a slow or hostile client leaves open.
    if (i % 3 == 1) clients.back()->send("GET /echo HTTP/1.1\r\nHost: h\r\nX: ");
    if (i % 3 == 2)
      clients.back()->send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\nabc");
  }
  ASSERT_TRUE(server.wait_stats([](const ServerStats& stats) {
    return stats.connections >= kConnections && stats.body_bytes == 3 * (kConnections / 3);
  }));
  EXPECT_EQ(RawClient(server.port()).ask(get("/echo")).status, 200);
  // The test's own side of the connections is in this figure too. A sanitizer's is not worth looking at.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT((resident_kib() - before) / kConnections, 16U) << "KiB per connection";
#endif
  server.stop(std::chrono::milliseconds(10));
}

TEST(Flood, SurvivesRunningOutOfDescriptors) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  TestServer server;
  RawClient first(server.port());
  EXPECT_EQ(first.ask(get("/echo")).status, 200);
  // Just enough for the client's side of three more connections, not for the server's.
  const int highest = ::dup(0);
  ::close(highest);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(highest) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  auto second = std::make_unique<RawClient>(server.port());
  second->send(get("/echo"));
  EXPECT_EQ(first.ask(get("/echo")).status, 200);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(second->read_response().status, 200);
}

}  // namespace
}  // namespace moor::http::test
