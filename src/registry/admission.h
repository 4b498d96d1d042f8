// Admission: what later floors have to say about a write before it happens. A floor implements the interface
// for its kinds in a file of its own and adds it to the registry's list at start-up; the kinds' own rules
// (model/) are applied by the registry itself.
//
// Hooks are called on the registry's thread, in the order in which they were added, possibly several times
// for one write (a conflict makes the registry decide again) and also for dry runs: they must have no
// effects. They see the cache, which may be a moment old.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "registry/registry.h"

namespace moor::registry {

// Reads without waiting. The objects never change; hold them as long as you like.
class Reader {
 public:
  virtual ~Reader() = default;
  // Null: not there. `space` empty for cluster-scoped kinds.
  virtual std::shared_ptr<const Json> find(const model::KindInfo& kind, std::string_view space,
                                           std::string_view name) const = 0;
  // `space` empty: all namespaces. The visitor returns false to stop and must not write.
  virtual void for_each(const model::KindInfo& kind, std::string_view space,
                        const std::function<bool(const std::shared_ptr<const Json>&)>& visit) const = 0;
};

struct AdmissionRequest {
  enum class Operation { create, update, remove };
  Operation operation = Operation::create;
  const model::KindInfo* kind = nullptr;
  std::string_view space;
  std::string_view name;
  std::string_view subresource;
  const Json* before = nullptr;  // null when the object is new
  const Identity* identity = nullptr;
  const Reader* reader = nullptr;
  bool dry_run = false;
};

class Admission {
 public:
  virtual ~Admission() = default;
  virtual bool handles(const model::KindInfo& kind) const = 0;
  // May fill in and change; the kind's validation comes after it.
  virtual Answer<void> mutate(const AdmissionRequest&, Json& /*object*/) { return {}; }
  // Sees what will be stored.
  virtual Answer<void> validate(const AdmissionRequest&, const Json& /*object*/) { return {}; }
  // `before` is what is to go. Called at each request to delete, not when finalizers are done.
  virtual Answer<void> before_delete(const AdmissionRequest&) { return {}; }
};

}  // namespace moor::registry
