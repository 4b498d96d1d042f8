// What a controller has written itself and need not be told of. A plan that says it is settled has nothing to
// add to its own outcome, so the changes that come of it wake every other reader and not the key that made
// them.
//
// A write is known by what it replaces: two writes cannot follow the same version of an object, so a change
// from that version is this write, or this write has failed and its key is looked at again anyway.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "control/runtime/view.h"
#include "store/cache/object.h"

namespace moor::control {

class OwnWrites {
 public:
  // Before the write. `base`: the version of the object that it replaces.
  void expect(const std::string& object, store::Revision base, const Key& whose) {
    expected_.insert_or_assign({object, base}, whose);
  }
  // It has not happened, or changes nothing.
  void withdraw(const std::string& object, store::Revision base) { expected_.erase({object, base}); }
  // Whose write the change is; absent: somebody else's. Answers once.
  std::optional<Key> take(const store::Change& change) {
    if (expected_.empty() || change.before == nullptr) return std::nullopt;
    const auto found = expected_.find({change.key(), change.before->entry.revision});
    if (found == expected_.end()) return std::nullopt;
    Key whose = std::move(found->second);
    expected_.erase(found);
    return whose;
  }
  // Changes may have been missed: nothing is waited for any more.
  void clear() { expected_.clear(); }
  std::size_t size() const { return expected_.size(); }

 private:
  std::map<std::pair<std::string, store::Revision>, Key> expected_;
};

}  // namespace moor::control
