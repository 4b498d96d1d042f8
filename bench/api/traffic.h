// Clients of one server: so many kept TLS connections, one request under way on each, all on one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "bench/api/server_process.h"
#include "bench/common/report.h"
#include "http/client.h"

namespace moor::bench {

inline constexpr std::size_t kBodyBytes = 1024;

std::string snapshots_path();  // of the collection
std::string snapshot_path(std::string_view name);
// Creates a Snapshot of longhorn.io with a body of kBodyBytes.
http::Request create_request(std::string_view name, std::size_t number);
http::Request status_request(std::string_view name, std::size_t turn);
http::Request annotate_request(std::string_view name, std::size_t turn);

struct Sample {
  double per_second = 0;
  double cpu_micros = 0;           // of the server's process, per operation
  std::uint64_t answer_bytes = 0;  // of the last answer
  Latencies latencies;
};

// The request of a connection's turn; none: this connection is done.
using NextRequest = std::function<std::optional<http::Request>(std::size_t connection, std::size_t turn)>;

class Traffic {
 public:
  // Connected, with the handshakes done.
  Traffic(const ServerProcess& server, std::size_t connections);

  std::size_t connections() const { return clients_.size(); }
  // Every connection takes its turns until its time is over or NextRequest ends it. Asserts that each answer
  // has the status.
  Sample run(double seconds, int status, const NextRequest& next);
  // Names [0, count): each connection takes its share.
  Sample run_all(std::size_t count, int status, const std::function<http::Request(std::size_t)>& make);

  Loop& loop() { return loop_; }
  http::Client& client(std::size_t connection) { return *clients_[connection]; }

 private:
  Task<Result<void>> take_turns(std::size_t connection, TimePoint end, int status, const NextRequest* next,
                                Sample* sample);
  const ServerProcess& server_;
  Loop loop_;
  std::vector<std::unique_ptr<http::Client>> clients_;
};

std::string object_name(std::size_t number);
// `count` objects with the names object_name(from...), by 32 connections.
void create_objects(const ServerProcess& server, std::size_t from, std::size_t count);

}  // namespace moor::bench
