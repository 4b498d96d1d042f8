// The registry over a store in this process. Reads come from a cache that follows the store; a write is
// conditioned on what was read, durable before it is answered, and visible in the cache before it is
// answered, so that whoever writes reads its own writes.
//
// One executor's thread. run() must be going (in a TaskGroup) for anything to be answered; the store, the
// random source and the admission hooks outlive the registry, and the registry outlives its watchers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/flat_map.h"
#include "base/random.h"
#include "registry/admission.h"
#include "registry/projection.h"
#include "registry/recent_objects.h"
#include "registry/registry.h"
#include "registry/selection.h"
#include "store/cache/cache.h"
#include "store/store.h"

namespace moor::registry {

struct LocalRegistryOptions {
  store::CacheOptions cache = {.hub = {.ring_bytes = 4u << 20}};
  // How long a call waits for the cache to reach a revision that the store already has.
  Duration wait_limit = std::chrono::seconds(10);
};

// One write of a transaction. An update or removal names the version it was decided on: in the object's
// metadata, or in `resource_version` for a removal.
struct Mutation {
  enum class Type { create, update, remove };
  Type type = Type::update;
  ResourceName what = {};  // subresource "status" writes status and nothing else
  Json object = {};        // create and update
  std::string resource_version = {};
  // An update of `spec` and nothing else: `object` names the version and has the spec, in the form in which
  // it is stored. For controllers, which write what they have encoded themselves.
  bool spec_only = false;
};

// What else must still hold for a transaction to happen: that object is at that version, or absent when it is
// empty.
struct Guard {
  ResourceName what = {};
  std::string resource_version = {};
};

class LocalRegistry final : public Registry, public Reader {
 public:
  LocalRegistry(Executor& executor, store::Store& store, Random& random, LocalRegistryOptions options = {});
  ~LocalRegistry() override;

  // Before the first write; called in this order.
  void add_admission(Admission& admission) { admissions_.push_back(&admission); }
  // Keeps the cache current until cancelled.
  Task<Result<void>> run(CancelToken token);
  // Everything the store has by now is in the cache.
  Task<Result<void>> catch_up();

  Task<Answer<Written>> create(ResourceName where, Json object, WriteOptions options) override;
  Task<Answer<Item>> get(ResourceName what, std::string resource_version) override;
  Task<Answer<Listed>> list(ResourceName what, ListOptions options) override;
  Task<Answer<std::unique_ptr<Watcher>>> watch(ResourceName what, WatchOptions options) override;
  Task<Answer<Written>> update(ResourceName what, Json object, WriteOptions options) override;
  Task<Answer<Written>> patch(ResourceName what, PatchType type, Json patch, WriteOptions options) override;
  Task<Answer<Deleted>> remove(ResourceName what, DeleteOptions options) override;
  Task<Answer<Listed>> remove_collection(ResourceName what, ListOptions which,
                                         DeleteOptions options) override;

  // All of it or nothing, in one transaction of the store: every mutation goes the way of a single write
  // (admission, validation, generation, managed fields), and all are conditioned on the versions that they
  // and the guards name. Conflict: something has changed since; look again. No object twice, but for updates
  // of its spec and its status that follow each other: both name the same version, the second is decided on
  // what the first leaves, and the store sees one write. Answers the objects as written, in order; a removed
  // one as it was.
  Task<Answer<std::vector<Json>>> transact(std::vector<Mutation> mutations, std::vector<Guard> guards,
                                           WriteOptions options);

  JsonPtr find(const model::KindInfo& kind, std::string_view space, std::string_view name) const override;
  void for_each(const model::KindInfo& kind, std::string_view space,
                const std::function<bool(const JsonPtr&)>& visit) const override;

  // For the registry's own tasks (garbage collection, expiry) and for controllers' caches.
  store::Cache& cache() { return cache_; }
  const store::Cache& cache() const { return cache_; }
  Result<std::unique_ptr<store::Subscription>> subscribe(store::Interest interest, store::Revision after) {
    return cache_.subscribe(std::move(interest), after);
  }
  Executor& executor() { return executor_; }
  std::string now() const;  // RFC 3339, whole seconds

 private:
  struct Change;  // what an update or patch wants
  struct Next;    // what comes of it
  // A write that is decided and not yet committed.
  template <class T>
  struct Staged {
    T result;                      // its object is what is stored, without a resourceVersion of its own
    store::Transaction part = {};  // no writes: nothing changes
  };
  // Absent: what it was decided on has changed, decide again.
  template <class T>
  using Attempt = Answer<std::optional<T>>;

  // reading (local_read.cc)
  Task<Answer<void>> reach(std::string resource_version);
  Task<Answer<Listed>> list_at(Selection selection, std::size_t limit, store::Revision revision,
                               std::string after, std::optional<std::int64_t> remaining);
  Listed list_cached(const Selection& selection, std::size_t limit, std::string_view after,
                     std::optional<std::int64_t> remaining) const;
  void visit_selected(const Selection& selection,
                      const std::function<bool(const store::ObjectPtr&)>& visit) const;
  store::Interest interest_of(const Selection& selection) const;

  // writing (local_write.cc)
  Task<Answer<Written>> create_named(ResourceName where, Json object, WriteOptions options, bool applied);
  Answer<Staged<Written>> stage_create(const ResourceName& where, Json object, const WriteOptions& options,
                                       bool applied) const;
  Task<Attempt<Written>> try_create(ResourceName where, Json object, WriteOptions options, bool applied);
  Task<Answer<Written>> change(ResourceName what, Change wanted, WriteOptions options);
  // What comes of the object: everything that is decided about a change, before it is put into words.
  Answer<Written> carry_out(const ResourceName& what, const Json& before, Next next,
                            const WriteOptions& options) const;
  Answer<Staged<Written>> stage_change(const ResourceName& what, const store::ObjectPtr& live, Next next,
                                       const WriteOptions& options) const;
  static Staged<Written> in_words(const model::KindInfo& kind, const store::ObjectPtr& live, Written written,
                                  const WriteOptions& options);
  Task<Attempt<Written>> try_change(ResourceName what, store::ObjectPtr live, Next next,
                                    WriteOptions options);
  Answer<Next> decide(const ResourceName& what, const Change& wanted, const Json& live,
                      const WriteOptions& options) const;
  Answer<Next> decide_apply(const ResourceName& what, const Json& config, const Json* live,
                            const WriteOptions& options) const;
  Answer<void> admit(const AdmissionRequest& request, Json& object) const;
  Answer<void> admit_removal(const AdmissionRequest& request) const;
  Answer<store::ObjectPtr> open_namespace(const ResourceName& where, std::string_view name) const;
  AdmissionRequest admission(AdmissionRequest::Operation operation, const ResourceName& what,
                             std::string_view name, const Identity& identity, bool dry_run) const;
  // `objects`: what each write was made from, or null.
  Task<Result<store::Committed>> commit(store::Transaction transaction, std::vector<Json> objects);
  // The same for a single write; `written` becomes what is stored. It outlives the task.
  Task<Result<store::Committed>> commit_one(store::Transaction transaction, Written* written);
  // What a write has become, for its caller, who let go of the object (but for a removal's); null: the cache
  // does not show it.
  store::ObjectPtr take_back(const store::Write& write, store::Revision revision, Json& object) const;

  // several at once (local_transact.cc)
  // Parts of one object, one after the other; more than one only of updates.
  Answer<Staged<Json>> stage(std::span<Mutation> parts, const WriteOptions& options) const;
  Answer<Staged<Json>> stage_updates(std::span<Mutation> parts, const store::ObjectPtr& live,
                                     const WriteOptions& options) const;

  // deleting (local_delete.cc)
  Answer<Staged<Deleted>> stage_remove(const ResourceName& what, const store::ObjectPtr& live,
                                       const DeleteOptions& options) const;
  Task<Attempt<Deleted>> try_remove(ResourceName what, store::ObjectPtr live, DeleteOptions options);

  Executor& executor_;
  store::Store& store_;
  Random& random_;
  LocalRegistryOptions options_;
  mutable RecentObjects recent_;  // before the cache, which fills it
  // Objects that are being written, by the text that is being stored: the cache takes them over as they are
  // instead of reading its text. Each is here for as long as its commit, which holds the text.
  FlatMap<const std::string*, Json> written_;
  mutable std::string wanted_;  // find()'s key
  store::Cache cache_;
  std::vector<Admission*> admissions_;
};

}  // namespace moor::registry
