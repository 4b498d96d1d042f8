// What we say to etcd, in plain structs, and the Link that says it. Only link.cc and watch_call.cc know gRPC:
// its threads turn messages into these structs and hand them to the executor, nothing else.
//
// A Link holds one channel per endpoint and sends each call to the current one. It retries nothing: a call
// that fails says what is known (CallError) and moves the link on to the next endpoint, so that the next try
// goes elsewhere. Channels reconnect by themselves, with back-off. All methods are called on the executor's
// thread; completions arrive there. The destructor cancels what is under way and waits until gRPC has let go
// of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/result.h"
#include "base/task.h"
#include "store/etcd/etcd_store.h"
#include "store/etcd/layout.h"
#include "store/store.h"

namespace moor::store::etcd {

// How far a failed call got decides whether it may be tried again.
struct CallError {
  Error error;
  bool not_applied = false;      // certainly had no effect
  bool retry = false;            // another try, elsewhere or later, may succeed
  bool message_too_big = false;  // the answer passed the receive limit: ask for less
  int status_code = 0;           // gRPC's
};
template <class T>
using CallResult = tl::expected<T, CallError>;

// From a gRPC status code and message, as etcd and gRPC give them. Pure.
CallError classify(int status_code, const std::string& message);

struct Kv {
  std::string key;
  std::string value;
  EtcdRevision create_revision = 0;
  EtcdRevision mod_revision = 0;
  LeaseId lease = 0;
};

struct RangeCall {
  std::string key;
  std::string range_end;  // empty: this key alone
  std::int64_t limit = 0;
  EtcdRevision revision = 0;
  bool keys_only = false;
  bool count_only = false;
};

struct RangeAnswer {
  std::vector<Kv> kvs;
  bool more = false;
  std::int64_t count = 0;
};

struct ReadAnswer {
  EtcdRevision revision = 0;        // of the store when it answered
  std::vector<RangeAnswer> ranges;  // one per RangeCall
};

struct Condition {
  enum class Kind { mod_equals, exists, value_greater, value_less };
  Kind kind = Kind::exists;
  std::string key;
  EtcdRevision revision = 0;
  std::string value;
};

struct Change {
  std::string key;
  std::optional<std::string> value;  // none: delete
  LeaseId lease = 0;
};

// etcd's default --max-txn-ops; transactions inside transactions do not raise it.
inline constexpr std::size_t kMaxOperations = 128;
struct CommitCall {
  std::vector<Condition> conditions;  // at most kMaxOperations
  std::vector<Change> changes;        // at most kMaxOperations
};

struct CommitAnswer {
  bool succeeded = false;
  EtcdRevision revision = 0;  // of the commit, or of the state in which a condition failed
};

struct MemberStatus {
  std::uint64_t bytes = 0;
  std::uint64_t member = 0;
  std::uint64_t leader = 0;  // 0: none known
  std::vector<std::string> alarms;
};

struct RawEvent {
  bool put = true;
  Kv kv;
};

struct WatchMessage {
  std::vector<RawEvent> events;
  bool fragment = false;  // the last revision goes on in the next message
  bool cancelled = false;
  EtcdRevision compacted = 0;  // with cancelled: the start lies before this
  std::string reason;
};

struct WatchHandlers {
  std::function<void(WatchMessage)> on_message;  // then nothing more comes until read_more()
  std::function<void(CallError)> on_end;         // once, last
};

// One watch on one endpoint. Calls only from the executor's thread, none after on_end.
class WatchCall {
 public:
  virtual ~WatchCall() = default;
  virtual void read_more() = 0;
  virtual void cancel() = 0;  // on_end follows
};

class Link {
 public:
  static Result<std::unique_ptr<Link>> make(Executor& executor, const EtcdOptions& options);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Whether the current endpoint has a connection now; starts one if not.
  bool is_connected();
  // Everything under way ends with Errc::cancelled, everything later too. Waits for gRPC's threads.
  void close();

  // All ranges at one state of the store (a read-only transaction, linearizable).
  Task<CallResult<ReadAnswer>> read(std::vector<RangeCall> ranges, Duration timeout);
  Task<CallResult<CommitAnswer>> commit(const CommitCall& call, Duration timeout);
  Task<CallResult<bool>> compact(EtcdRevision revision, Duration timeout);
  Task<CallResult<LeaseId>> grant_lease(std::int64_t seconds, Duration timeout);
  Task<CallResult<bool>> keep_alive(LeaseId lease, Duration timeout);  // false: it has ended
  Task<CallResult<bool>> revoke_lease(LeaseId lease, Duration timeout);
  // The member's own state, then a linearizable read of `key`: whether commits can succeed now.
  void check(std::string key, Duration timeout, std::function<void(CallResult<MemberStatus>)> done);
  // Everything from `start` on in [key, range_end).
  std::shared_ptr<WatchCall> watch(std::string key, std::string range_end, EtcdRevision start,
                                   WatchHandlers handlers);

 private:
  struct Inside;
  explicit Link(std::shared_ptr<Inside> inside);
  std::shared_ptr<Inside> inside_;  // shared with the tasks under way, which may outlive the link by a turn
};

}  // namespace moor::store::etcd
