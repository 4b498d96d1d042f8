#include "registry/item.h"

#include "base/assert.h"
#include "registry/projection.h"

namespace moor::registry {

const JsonPtr& Item::json() const {
  if (object_ != nullptr || cached_ == nullptr) return object_;
  if (revision_ == cached_->entry.revision) {
    object_ = object_of(*cached_);
  } else {
    auto decoded = decode_stored(*cached_->entry.value, revision_);
    if (decoded) object_ = std::make_shared<const Json>(std::move(*decoded));
  }
  // It was read when it came into the cache, and its text does not change.
  MOOR_ASSERT(object_ != nullptr, "'{}' cannot be read any more", cached_->entry.key);
  return object_;
}

void Item::append_text(std::string& out) const {
  if (cached_ != nullptr && cached_->mark != 0) {
    append_stored_text(out, *cached_, revision_);
  } else {
    moor::append_text(out, *json());
  }
}

}  // namespace moor::registry
