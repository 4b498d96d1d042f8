// A controller: a function from what is to what shall be written, and the rules that say which changes
// concern which key. No clock, chance, I/O or memory of its own: asked twice about the same state, it answers
// the same.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "control/runtime/plan.h"
#include "control/runtime/view.h"

namespace moor::control {

// Which key an object of this kind belongs to. Called for the object before and after a change; answers an
// empty name for objects that concern nobody.
struct Wake {
  const model::KindInfo* kind = nullptr;
  Key (*key)(const Json& object) = nullptr;
  // Changes that leave this the same wake nobody; null: every change counts.
  Digest digest = nullptr;
  // How long the look may wait, so that many changes in a row are one look. For what only people read.
  Duration delay{0};
  // Changes between two versions that are the same to the controller wake nobody either; null: none are.
  bool (*same)(const Json& before, const Json& after) = nullptr;
  // Such a change may ask for something new: it waits while enough is begun (Plan::unfinished).
  bool begins = false;
  // A new object wakes nobody: the controller waits for objects of this kind to go, and looks for them when
  // it does. A thousand volumes need not be looked at because thirty thousand snapshots are taken.
  bool known_only = false;
};

// Which object it is, and whether it goes.
std::uint64_t digest_life(const Json* object);
// The same and what is asked of it: everything but its status.
std::uint64_t digest_wish(const Json* object);

class Controller {
 public:
  virtual ~Controller() = default;
  virtual std::string_view name() const = 0;
  // The controller's family: these kinds wake by these rules. Everything else that a reconcile reads wakes
  // its key by having been read.
  virtual std::vector<Wake> wakes() const = 0;
  // The controller of the same keys that what this one plans most often wakes. It looks at what the plan
  // leaves, and what it plans itself is written in the same transaction. Empty: none.
  virtual std::string_view successor() const { return {}; }
  virtual Plan reconcile(const View& view, const Key& key) const = 0;
};

// Rules that most families use: the object's own name; the volume that its label names.
Key key_by_name(const Json& object);
Key key_by_volume_label(const Json& object);

}  // namespace moor::control
