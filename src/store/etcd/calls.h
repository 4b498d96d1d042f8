// Shared by link.cc and streams.cc, the two files that know gRPC; nobody else includes it.
//
// Calls counts what gRPC still has in its hands, so that a link can be torn down without a callback touching
// an executor that is gone. It is the only thing here that several threads share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/completion.h"
#include "store/etcd/wire.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace moor::store::etcd {

class Calls {
 public:
  // `cancel` keeps what it needs alive; it is called at most once, at once when all is closed.
  void add(const void* call, std::function<void()> cancel);
  void remove(const void* call);  // the last thing that a call does
  void close();
  void wait_until_empty();
  bool is_closed() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  std::map<const void*, std::function<void()>> running_;
  bool closed_ = false;
};

struct CallEnv {
  Executor& executor;
  std::shared_ptr<Calls> calls;
  std::shared_ptr<grpc::Channel> channel;
};

// gRPC wants its deadlines on the wall's clock.
inline std::chrono::system_clock::time_point deadline_after(const Executor& executor, Duration timeout) {
  const auto until = executor.clock().wall().since_epoch + timeout;
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(until));
}

// streams.cc. The calls delete themselves when gRPC is done with them.
std::shared_ptr<WatchCall> start_watch(const CallEnv& env, std::string key, std::string range_end,
                                       EtcdRevision start, WatchHandlers handlers);
// Answers the lease's remaining time in seconds; 0: it has ended.
void start_keep_alive(const CallEnv& env, LeaseId lease, Duration timeout,
                      Completion<CallResult<std::int64_t>> done);

}  // namespace moor::store::etcd
