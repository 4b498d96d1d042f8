// A load generator with raw sockets: it must not cost more than what it measures. One thread, epoll, one
// request under way per connection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moor::bench {

struct LoadResult {
  std::uint64_t requests = 0;
  double seconds = 0;
  std::vector<double> latencies_us;  // sorted
};

int connect_loopback(std::uint16_t port);
// Sends `request` over each connection again and again until `total` answers of exactly the size of the first
// one have come. Aborts with a message on any surprise: a benchmark of errors says nothing.
LoadResult run_load(std::uint16_t port, const std::string& request, int connections, std::uint64_t total);

}  // namespace moor::bench
