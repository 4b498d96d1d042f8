// A task of the registry itself that looks at objects when they change: the garbage collector and the keeper
// of namespaces. It hears of every change, decides which keys are worth a look, and works on them by key.
// After a gap in what it heard it looks at everything again, so it never depends on having heard something.
#pragma once

#include "base/task_group.h"
#include "registry/local_registry.h"
#include "registry/work_queue.h"

namespace moor::registry {

class Housekeeper {
 public:
  explicit Housekeeper(LocalRegistry& registry) : registry_(registry), queue_(registry.executor()) {}
  virtual ~Housekeeper() = default;
  Housekeeper(const Housekeeper&) = delete;
  Housekeeper& operator=(const Housekeeper&) = delete;

  // Until cancelled. Run it in a TaskGroup, once.
  Task<Result<void>> run(CancelToken token);

 protected:
  // Adds keys to the queue; called for every change, and for every object after a gap (as if it were new).
  virtual void notice(const store::Change& change) = 0;
  // Errors bring the key back after a pause.
  virtual Task<Answer<void>> look_at(std::string key) = 0;
  virtual std::string_view name() const = 0;

  LocalRegistry& registry_;
  WorkQueue queue_;

 private:
  Task<Result<void>> listen(CancelToken token);
  Task<Result<void>> work(CancelToken token);
};

}  // namespace moor::registry
