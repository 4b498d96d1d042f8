// What several checkers need: a change of the store in its own type, lookups in reality, and the certainty
// that something has been so for a while (a decision is made on what was read a moment ago; only what has
// been the case for long can be held against it).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "model/longhorn/engine.h"
#include "model/longhorn/node.h"
#include "model/longhorn/replica.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "model/mooring/grant.h"
#include "model/mooring/ledger.h"
#include "sim/checker.h"

namespace moor::sim::check {

namespace lh = model::longhorn;
namespace mr = model::mooring;

template <class T>
struct Changed {
  std::shared_ptr<const T> before;  // null: new
  std::shared_ptr<const T> after;   // null: gone
  const T& any() const { return after ? *after : *before; }
};

template <class T>
std::optional<Changed<T>> changed(const Change& change) {
  if (change.kind != &control::kind_of<T>()) return std::nullopt;
  const Changed<T> found{decode_with<T>(change.decoder, change.before),
                         decode_with<T>(change.decoder, change.after)};
  if (!found.before && !found.after) return std::nullopt;
  return found;
}

const EngineSight* find_engine(const std::vector<EngineSight>& engines, std::string_view volume,
                               std::uint64_t epoch);
const ReplicaSight* find_replica(const std::vector<ReplicaSight>& replicas, std::string_view name);
bool is_ready(const lh::Node& node);
std::string describe(const mr::GrantHolder& holder);
std::string in_brackets(std::string_view space, std::string_view name);
// Whole volumes: as quick as memory is.
bool are_equal(const std::vector<std::byte>& one, const std::vector<std::byte>& other);
std::int64_t count_rw(const mr::GrantSpec& grant);
// The setting's value in the store, or its default.
std::int64_t setting(const Reality& reality, std::string_view name);

// Since when each node has been Ready, or has not been.
class Readiness {
 public:
  void note(const Commit& commit);
  bool has_long_been(const std::string& node, bool ready, TimePoint now) const;

 private:
  struct State {
    bool ready = false;
    TimePoint since;
  };
  std::map<std::string, State> nodes_;
};

}  // namespace moor::sim::check
