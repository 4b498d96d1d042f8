// The watch hub: hands each change to the watchers that it concerns, and touches no other. Watchers are found
// by the prefixes of the changed key (at each '/') and by the terms of the object before and after, so ten
// thousand watchers of other things cost nothing.
//
// A watcher that does not keep up is cut off: past `pending_limit` undelivered changes it gets Errc::expired
// and must list again. What has happened lately is kept in a ring, so that a watch can start a little in the
// past. Belongs to one executor's thread.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"
#include "base/flat_map.h"
#include "base/task.h"
#include "store/cache/object.h"

namespace moor::store {

struct HubOptions {
  std::size_t ring_changes = 20'000;
  std::size_t ring_bytes = 16u << 20;
  std::size_t pending_limit = 2'000;  // per watcher
};

// What a watcher wants: everything below `prefix` ("" or ending in '/'), or exactly one key; with a term,
// only changes of objects that have it before or after.
struct Interest {
  std::string prefix;
  std::optional<Term> term;
};

class Hub;

// Destroying it ends the watch. One next() at a time.
class Subscription {
 public:
  ~Subscription();
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // Waits for changes, in order of revision. Errc::expired: too slow, or the hub was reset: list again.
  // Errc::cancelled: close() was called or the hub is gone. When the token is cancelled only this wait ends,
  // with the token's reason; nothing is lost and the next call goes on.
  Task<Result<std::vector<ChangePtr>>> next(CancelToken token = {});
  void close();
  // Every change that concerns this watcher, up to here, has been handed out by next(): for bookmarks.
  Revision delivered() const;

 private:
  friend class Hub;
  Subscription(Hub& hub, Interest interest) : hub_(&hub), interest_(std::move(interest)) {}
  void offer(const ChangePtr& change, std::size_t limit);
  void fail(Error error);
  void wake();

  Hub* hub_;                  // null: ended
  std::uint64_t number_ = 0;  // in the order of subscribing
  Interest interest_;
  std::deque<ChangePtr> pending_;
  std::optional<Error> failed_;
  std::optional<Completion<bool>> waiting_;
  Revision last_ = 0;  // hub revision when the hub went away
};

class Hub {
 public:
  explicit Hub(Executor& executor, HubOptions options = {});
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // Changes after `after`; Errc::expired when the ring does not reach back that far.
  Result<std::unique_ptr<Subscription>> subscribe(Interest interest, Revision after);
  // Revisions ascend. The change is offered to whom it concerns and kept in the ring.
  void publish(ChangePtr change);
  // Everything up to here is published, though the last writes may concern nobody.
  void advance(Revision revision);
  // There is a gap before `revision`: every watcher is told to list again.
  void reset(Revision revision);

  Revision revision() const { return revision_; }
  std::size_t watchers() const { return watchers_; }

 private:
  friend class Subscription;
  using Watchers =
      std::map<std::uint64_t, Subscription*>;  // by number: addresses must not decide who wakes first
  struct Bucket {
    Watchers all;
    std::map<Term, Watchers> by_term;
  };
  Watchers everybody() const;
  void add(Subscription& subscription);
  void remove(Subscription& subscription);
  void offer_bucket(const Bucket& bucket, const ChangePtr& change);
  static bool concerns(const Interest& interest, const Change& change);

  Executor& executor_;
  HubOptions options_;
  FlatTextMap<Bucket> buckets_;  // by prefix or whole key; looked up, never iterated in order
  std::deque<ChangePtr> ring_;
  std::size_t ring_bytes_ = 0;
  Revision ring_start_ = 0;  // changes after this revision are in the ring
  Revision revision_ = 0;
  std::size_t watchers_ = 0;
  std::uint64_t last_number_ = 0;
};

}  // namespace moor::store
