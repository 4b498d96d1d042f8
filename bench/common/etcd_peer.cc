#include "bench/common/etcd_peer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/assert.h"
#include "bench/common/content.h"
#include "store/etcd/etcd.grpc.pb.h"

namespace moor::bench {
namespace {

int free_port() {
  const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  MOOR_ASSERT(bind(handle, reinterpret_cast<sockaddr*>(&address), length) == 0);
  MOOR_ASSERT(getsockname(handle, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  close(handle);
  return ntohs(address.sin_port);
}

std::vector<std::string> etcd_command(const std::string& directory, int client_port, int peer_port) {
  const std::string client = fmt::format("http://127.0.0.1:{}", client_port);
  const std::string peer = fmt::format("http://127.0.0.1:{}", peer_port);
  return {"etcd",
          "--data-dir",
          directory + "/etcd",
          "--listen-client-urls",
          client,
          "--advertise-client-urls",
          client,
          "--listen-peer-urls",
          peer,
          "--initial-advertise-peer-urls",
          peer,
          "--initial-cluster",
          "default=" + peer};
}

// Connected, on a connection of its own: channels to one address share theirs otherwise.
std::shared_ptr<grpc::Channel> connect(const std::string& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto channel = grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(), arguments);
  MOOR_ASSERT(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(15)),
              "etcd did not come up: is etcd-server installed (tools/packages test)?");
  return channel;
}

}  // namespace

EtcdServer::EtcdServer(const std::string& directory) {
  const int port = free_port();
  endpoint_ = fmt::format("127.0.0.1:{}", port);
  process_ = Process(etcd_command(directory, port, free_port()));
  // It listens before it has a leader; the first put waits for one.
  const auto first = run_etcd_puts(endpoint_, 1, 0.01, 16);
  MOOR_ASSERT(!first.empty());
}

std::vector<Duration> run_etcd_puts(const std::string& endpoint, std::size_t writers, double seconds,
                                    std::size_t value_bytes, EtcdLinks links) {
  // Each writer is a thread with a synchronous stub.
  const auto shared = connect(endpoint);
  std::vector<std::shared_ptr<grpc::Channel>> channels(writers, shared);
  if (links == EtcdLinks::own)
    for (auto& channel : channels) channel = connect(endpoint);
  const RealClock clock;
  const TimePoint end = clock.now() + std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  std::vector<std::vector<Duration>> latencies(writers);
  std::vector<std::thread> threads;
  for (std::size_t writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      const auto stub = etcdserverpb::KV::NewStub(channels[writer]);
      for (std::size_t i = 0; clock.now() < end; ++i) {
        etcdserverpb::PutRequest request;
        request.set_key(fmt::format("bench/w{}/{:08}", writer, i));
        request.set_value(object_value(i, value_bytes));
        etcdserverpb::PutResponse response;
        grpc::ClientContext context;
        const TimePoint start = clock.now();
        const auto status = stub->Put(&context, request, &response);
        MOOR_ASSERT(status.ok(), "etcd put failed: {}", status.error_message());
        latencies[writer].push_back(clock.now() - start);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Duration> all;
  for (const auto& some : latencies) all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace moor::bench
