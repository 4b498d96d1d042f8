// The objects of one volume, as they are and as a plan leaves them: read once, edited in place, and what was
// edited becomes the plan's writes. For the volume controller's files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/controllers/placement.h"
#include "control/runtime/plan.h"
#include "model/core/secret.h"
#include "model/longhorn/engine.h"
#include "model/longhorn/node.h"
#include "model/longhorn/replica.h"
#include "model/longhorn/share_manager.h"
#include "model/longhorn/snapshot.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "model/mooring/grant.h"
#include "model/mooring/ledger.h"

namespace moor::control {

namespace lh = model::longhorn;  // NOLINT: inside this room's controllers only
namespace mr = model::mooring;   // NOLINT

inline constexpr std::string_view kTokenType = "mooring.io/volume-token";

// Names follow from the volume's.
std::string engine_name(std::string_view volume);
std::string second_engine_name(std::string_view volume);  // the other slot: a move needs two
std::string token_name(std::string_view volume);
std::string replica_name(std::string_view volume, std::int64_t number);
// DISK/replicas/<this>: a new volume of an old name never meets old data.
std::string data_directory_name(const lh::Volume& volume, std::int64_t number);
std::string key_in_ledger(std::string_view space, std::string_view name);

// Reads as the object is, copies when it is edited.
template <class T>
class Edit {
 public:
  Edit() = default;
  explicit Edit(Object<T> before) : before_(std::move(before)) {}
  explicit operator bool() const { return after_ || before_; }
  const T& operator*() const { return after_ ? *after_ : *before_; }
  const T* operator->() const { return &**this; }
  T& edit() {
    if (!after_) after_ = before_ ? *before_ : T{};
    ++edits_;
    return *after_;
  }
  int edits() const { return edits_; }
  bool is_new() const { return after_ && !before_; }
  const Object<T>& before() const { return before_; }
  void write(Plan& plan) const {
    if (!after_) return;
    if (before_) {
      plan.update(before_, *after_);
    } else {
      plan.create(*after_);
    }
  }
  void write_status(Plan& plan) const {
    if (after_ && before_) plan.update_status(before_, *after_);
  }

 private:
  Object<T> before_;
  std::optional<T> after_;
  int edits_ = 0;
};

// Being opened or closed.
bool is_under_way(const lh::Volume& volume);

// What the controllers ask about a node, and nothing else: other changes of the Node wake nobody.
struct NodeLife {
  bool exists = false;
  bool ready = false;
  std::string reason;
  std::string message;
  std::optional<model::Time> since;
  std::int64_t incarnation = 0;
};
NodeLife node_life(const View& view, const std::string& node);
std::uint64_t digest_node_life(const Json* node);
// For what is read only to be written: its changes wake nobody.
std::uint64_t digest_nothing(const Json* object);

struct Family {
  Family(const View& view, const Object<lh::Volume>& volume);

  const View& view;
  std::string space;
  std::string name;
  Edit<lh::Volume> volume;  // its status
  Edit<lh::VolumeAttachment> attachment;
  Edit<mr::Grant> grant;
  Edit<model::core::Secret> token;
  Edit<lh::Engine> engine;  // the one that the Grant names active, or would at the next start
  Edit<lh::Engine> other;   // in the other slot: only during a move, and until it is cleaned up after
  std::map<std::string, Edit<lh::Replica>> replicas;
  std::map<std::string, Edit<mr::Ledger>> ledgers;  // those that were touched, by node

  Edit<mr::Ledger>& ledger(const std::string& node);
  // As node_life(), asked once: every step of a look wants to know it of the same few nodes.
  const NodeLife& life(const std::string& node) const;
  // The engine of that slot; may be absent.
  Edit<lh::Engine>& slot(const std::string& engine_name);
  const Edit<lh::Engine>& slot(const std::string& engine_name) const;
  std::string slot_in_use;  // name of `engine`
  std::string free_slot;    // name of `other`
  lh::VolumeStatus& status() { return volume.edit().status; }
  // Sets a status field only when it differs, so that nothing is copied for nothing.
  template <class Field, class Value>
  void set(Field lh::VolumeStatus::*field, const Value& value) {
    if (!((*volume).status.*field == value)) status().*field = value;
  }
  void set_condition(std::string_view type, bool holds, std::string reason, std::string message);
  std::optional<model::Time> holds_since(std::string_view type) const;
  void again(Duration after) { plan.again(after); }
  void again_at(model::Time when);

  // How often something was edited: only who wants something else than what is there edits.
  int edits() const;
  // Everything that was edited becomes writes of the plan.
  Plan finish();
  Plan plan;

 private:
  mutable std::map<std::string, NodeLife> lives_;
};

// Every disk of every node, for placing. Reads all nodes: only for volumes that have a replica to place.
std::vector<DiskFacts> all_disks(const View& view);

}  // namespace moor::control
