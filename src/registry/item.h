// An object as reads and watches hand it out. What comes from the cache is the text that the store keeps: who
// passes it on (a list, a watch) sends that text, and only who looks inside pays for decoding. What comes
// from elsewhere is a Json already. A cheap value; belongs to the registry's thread.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "store/cache/object.h"

namespace moor::registry {

using JsonPtr = std::shared_ptr<const Json>;

class Item {
 public:
  Item() = default;
  Item(JsonPtr object) : object_(std::move(object)) {}  // NOLINT(google-explicit-constructor)
  // A readable object of the cache, shown with this resourceVersion.
  Item(store::ObjectPtr cached, store::Revision revision) : cached_(std::move(cached)), revision_(revision) {}
  explicit Item(store::ObjectPtr cached) : cached_(std::move(cached)), revision_(cached_->entry.revision) {}

  // Decoded once per item, and kept with it.
  const JsonPtr& json() const;
  const Json* get() const { return json().get(); }
  const Json& operator*() const { return *json(); }
  const Json* operator->() const { return json().get(); }
  operator const JsonPtr&() const { return json(); }  // NOLINT(google-explicit-constructor)
  operator Json() const { return *json(); }           // NOLINT(google-explicit-constructor)
  bool operator==(std::nullptr_t) const { return object_ == nullptr && cached_ == nullptr; }
  // Equal as JSON.
  bool operator==(const Item& other) const {
    return *this == nullptr || other == nullptr ? *this == nullptr && other == nullptr : **this == *other;
  }

  void append_text(std::string& out) const;
  // The same for as long as the item lives, and for all items of the same object at the same revision.
  const void* identity() const {
    return cached_ != nullptr ? static_cast<const void*>(cached_->entry.value.get()) : object_.get();
  }
  store::Revision revision() const { return revision_; }  // 0: not from the cache

 private:
  store::ObjectPtr cached_;
  store::Revision revision_ = 0;
  mutable JsonPtr object_;
};

}  // namespace moor::registry
