// What the cache holds: an entry with what its projector made of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/store.h"

namespace moor::store {

// One value in one index: "label app" = "db". Indexes are numbered by whoever writes the projector.
struct Term {
  std::uint32_t index = 0;
  std::string value;
  auto operator<=>(const Term&) const = default;
};

struct CachedObject {
  Entry entry;
  std::vector<Term> terms;  // sorted, without repeats
  // For the projector and those who know it: whether it could read the value, a place in the value that it
  // wants to find again, a digest of the part that most changes leave as it was, and the decoded form for as
  // long as somebody holds it. A decoded tree is several times as large as its text: the cache keeps the text
  // only.
  bool readable = false;
  std::uint32_t mark = 0;
  std::uint64_t digest = 0;
  mutable std::weak_ptr<const void> decoded;
  bool has(const Term& term) const;
};
using ObjectPtr = std::shared_ptr<const CachedObject>;

// Fills all but the entry from the entry. Pure: the same entry gives the same result. Called once per write.
using Projector = std::function<void(CachedObject& object)>;

// One write as the cache saw it. Both sides are there, so that a watcher with a selector knows whether an
// object has come into its view or left it.
struct Change {
  Revision revision = 0;
  ObjectPtr before;  // null: it was not there
  ObjectPtr after;   // null: it is gone
  const std::string& key() const { return after != nullptr ? after->entry.key : before->entry.key; }
};
using ChangePtr = std::shared_ptr<const Change>;

}  // namespace moor::store
