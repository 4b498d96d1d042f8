// A copy of the objects that a list would give, kept current by a watch, over any Registry. When the watch
// breaks it is taken up where it ended, with a pause that grows; when that is no longer possible (410), the
// objects are listed again and the differences given out as events. So whoever listens never misses a change
// of state, though several changes may come as one.
//
// One executor's thread. Listeners are called from run(), must not wait, and may read the informer. The
// registry outlives it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/completion.h"
#include "base/executor.h"
#include "registry/registry.h"

namespace moor::registry {

struct InformerOptions {
  LabelSelector labels;
  FieldSelector fields;
  std::size_t page_size = 500;
  Duration shortest_pause = std::chrono::milliseconds(100);
  Duration longest_pause = std::chrono::seconds(30);
};

class Informer {
 public:
  using Object = std::shared_ptr<const Json>;
  struct Event {
    Object before;  // null: it is new
    Object after;   // null: it is gone
  };
  using Listener = std::function<void(const Event&)>;

  Informer(Executor& executor, Registry& registry, ResourceName what, InformerOptions options = {});
  ~Informer();
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  // Before run().
  void listen(Listener listener) { listeners_.push_back(std::move(listener)); }
  // Until cancelled, once, in a TaskGroup.
  Task<Result<void>> run(CancelToken token);
  // The first list is in.
  Task<Result<void>> wait_synced(CancelToken token);
  bool is_synced() const { return synced_; }

  Object find(std::string_view space, std::string_view name) const;
  void for_each(const std::function<bool(const Object&)>& visit) const;  // by namespace and name
  std::size_t size() const { return objects_.size(); }
  const std::string& resource_version() const { return version_; }
  std::uint64_t relists() const { return relists_; }

 private:
  using Key = std::pair<std::string, std::string>;
  Task<Answer<void>> relist();
  Task<Answer<void>> follow(CancelToken token);
  void replace(std::vector<Object> objects);
  void put(Key key, Object object);
  void drop(const Key& key);
  void tell(Event event);
  static Key key_of(const Json& object);

  Executor& executor_;
  Registry& registry_;
  ResourceName what_;
  InformerOptions options_;
  std::vector<Listener> listeners_;
  std::map<Key, Object> objects_;
  std::string version_;
  bool synced_ = false;
  std::uint64_t relists_ = 0;
  std::vector<Completion<bool>> waiting_;
};

}  // namespace moor::registry
