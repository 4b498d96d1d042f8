// The peer: plain puts to an etcd of our own on this machine, through the same gRPC library that our store
// uses.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/common/process.h"

namespace moor::bench {

// Debian's etcd with its data below a directory, on free loopback ports; killed when this goes away. Asserts
// when it does not come up.
class EtcdServer {
 public:
  explicit EtcdServer(const std::string& directory);
  const std::string& endpoint() const { return endpoint_; }  // host:port

 private:
  std::string endpoint_;
  Process process_;
};

// How the writers reach etcd: all over one connection, as a server of ours would, or each over its own, as
// the clients of a server do.
enum class EtcdLinks { shared, own };

// `writers` clients put one after the other for so long; answers every latency.
std::vector<Duration> run_etcd_puts(const std::string& endpoint, std::size_t writers, double seconds,
                                    std::size_t value_bytes, EtcdLinks links = EtcdLinks::shared);

}  // namespace moor::bench
