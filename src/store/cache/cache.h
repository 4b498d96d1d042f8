// The cache in front of a store: all objects below a prefix, decoded once, found by key and by index, kept
// current by one watch. Everything that reads (doors, controllers) reads here; everything that watches
// subscribes to its hub.
//
// The cache shows states of the store in order, each transaction whole. It may lag; wait_for() waits until a
// revision that the caller knows of is in. After a gap in the store's history it lists again and resets the
// hub. Belongs to one executor's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"
#include "base/flat_map.h"
#include "base/task.h"
#include "store/cache/hub.h"
#include "store/cache/object.h"
#include "store/late_map.h"
#include "store/store.h"

namespace moor::store {

struct CacheOptions {
  std::string prefix;  // of the store; "" for everything
  std::size_t page_size = 1000;
  HubOptions hub;
  Duration shortest_retry = std::chrono::milliseconds(50);
  Duration longest_retry = std::chrono::seconds(5);
};

class Cache {
 public:
  Cache(Executor& executor, Store& store, Projector projector, CacheOptions options = {});
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // Lists, then follows the store until cancelled. Run it in a TaskGroup, once.
  Task<Result<void>> run(CancelToken token);
  // Waits until everything up to `revision` is in (0: until the first list is in). Errc::timed_out at the
  // token's deadline.
  Task<Result<void>> wait_for(Revision revision, CancelToken token);
  bool is_synced() const { return synced_; }

  Revision revision() const { return hub_.revision(); }
  ObjectPtr get(std::string_view key) const;  // null: not there
  // Objects below a prefix in order of keys; the callback returns false to stop. It must not change the
  // cache.
  void for_each(std::string_view prefix, const std::function<bool(const ObjectPtr&)>& visit) const;
  void for_each(std::string_view prefix, const Term& term,
                const std::function<bool(const ObjectPtr&)>& visit) const;
  // The same from the first key after `after` on, for pages.
  void for_each_after(std::string_view prefix, std::string_view after,
                      const std::function<bool(const ObjectPtr&)>& visit) const;
  // How many objects have the term, whatever their prefix: which of several terms to look up.
  std::size_t count(const Term& term) const;
  std::size_t size() const { return objects_.size(); }

  Result<std::unique_ptr<Subscription>> subscribe(Interest interest, Revision after) {
    return hub_.subscribe(std::move(interest), after);
  }
  std::size_t watchers() const { return hub_.watchers(); }

 private:
  // An object's newest version stands in one place for as long as the key is there: what finds it otherwise
  // points to that place, and a new version costs no look-up in order.
  using Objects = LateMap<ObjectPtr>;
  using Places = std::map<std::string_view, const ObjectPtr*>;  // both in the places of objects_
  struct TermHash {
    std::size_t operator()(const Term& term) const {
      return std::hash<std::string>()(term.value) * 31 + term.index;
    }
  };
  Task<Result<void>> load(CancelToken token);
  Task<Result<void>> follow(CancelToken token);
  ObjectPtr project(Entry entry) const;
  void replace_all(std::vector<ObjectPtr> objects, Revision revision);
  void apply(const WatchBatch& batch);
  ObjectPtr put(ObjectPtr object);  // answers what was there
  ObjectPtr erase(std::string_view key);
  void index(const Term& term, const Objects::value_type& place);
  void unindex(const Term& term, std::string_view key);
  void reindex(const CachedObject& before, const Objects::value_type& place);
  void wake_waiters();

  Executor& executor_;
  Store& store_;
  Projector projector_;
  CacheOptions options_;
  Hub hub_;
  Objects objects_;
  FlatMap<TextKey, Objects::iterator, TextKey::Hash> by_key_;  // to be found without their order
  std::unordered_map<Term, Places, TermHash> indexes_;
  std::multimap<Revision, Completion<bool>> waiters_;
  bool synced_ = false;
};

}  // namespace moor::store
