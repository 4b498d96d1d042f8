// The registry: typed resources with Kubernetes' semantics on a versioned store. Doors translate requests
// into these calls and results into their own words; controllers read and write through the same interface,
// in process or, as a remote client, over HTTP.
//
// Objects are dynamic Json here, checked against their kind's description (model/kind.h). Every write is
// conditioned: on the resourceVersion the caller names, or on the state that this call itself read. All calls
// belong to one executor's thread.
//
// Errors carry a Refusal where Kubernetes clients expect details: use refusal_of() semantics in the door's
// one table.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/json.h"
#include "base/result.h"
#include "base/task.h"
#include "model/cause.h"
#include "model/kind.h"
#include "registry/item.h"
#include "registry/selector.h"

namespace moor::registry {

// Who asks. Empty user: the system itself (controllers in process).
struct Identity {
  std::string user;
  std::vector<std::string> groups;
  std::string node;  // set for a node's identity: it may write only what belongs to that node
};

struct ResourceName {
  const model::KindInfo* kind = nullptr;
  std::string space;        // empty for cluster-scoped kinds; for lists and watches: all namespaces
  std::string name;         // empty for lists, watches and creation
  std::string subresource;  // "" or "status"
};

// Why a request is refused, in the terms that Status objects carry.
struct Refusal {
  Error error;
  std::string reason;  // AlreadyExists, Conflict, Invalid, Forbidden, … ; empty: by the code
  model::Causes causes;
  std::optional<int> retry_after_seconds;
};

// A value or a Refusal; an Error from below becomes a Refusal without a reason of its own. TRY and CO_TRY
// pass it up.
template <class T>
class [[nodiscard]] Answer : public tl::expected<T, Refusal> {
  using Base = tl::expected<T, Refusal>;

 public:
  using value_type = T;
  using Base::Base;
  Answer(Refusal refusal) : Base(tl::unexpect, std::move(refusal)) {}                 // NOLINT
  Answer(Error error) : Base(tl::unexpect, Refusal{std::move(error), {}, {}, {}}) {}  // NOLINT

  bool ok() const { return this->has_value(); }
  bool is(Errc code) const { return !ok() && this->error().error.code == code; }
};

enum class FieldValidation { ignore, warn, strict };
enum class PatchType { json, merge, strategic, apply };
enum class Propagation { background, foreground, orphan };

struct WriteOptions {
  Identity identity;
  std::string field_manager;  // "" becomes the first word of the user agent or "unknown"
  FieldValidation field_validation = FieldValidation::warn;
  bool dry_run = false;
  bool force = false;  // apply only
  // Dotted paths of keys that stood twice in the request's text: only whoever parsed it knows.
  std::vector<std::string> duplicate_fields;
};

struct Written {
  Json object;
  bool created = false;
  std::vector<std::string> warnings;
  Item stored = {};  // the same, where it is known: its text is written already
};

struct DeleteOptions {
  Identity identity;
  std::optional<std::string> uid;  // preconditions
  std::optional<std::string> resource_version;
  std::optional<Propagation> propagation;  // absent: the kind's default
  std::optional<std::int64_t> grace_period_seconds;
  bool dry_run = false;
};

struct Deleted {
  Json object;        // as it was, or with its deletionTimestamp when finalizers hold it
  bool gone = false;  // false: it waits for its finalizers
};

struct ListOptions {
  LabelSelector labels;
  FieldSelector fields;
  std::size_t limit = 0;
  std::string continue_token;
  std::string resource_version;        // "", "0" or a number
  std::string resource_version_match;  // "", Exact, NotOlderThan
};

struct Listed {
  std::vector<Item> items;
  std::string resource_version;
  std::string continue_token;
  std::optional<std::int64_t> remaining;
};

struct WatchOptions {
  LabelSelector labels;
  FieldSelector fields;
  std::string resource_version;  // "" or "0": start with what is there, as ADDED
  bool send_initial_events = false;
};

struct WatchEvent {
  enum class Type { added, modified, deleted, bookmark };
  Type type = Type::added;
  Item object;  // bookmark: none
  std::string resource_version;
  bool initial_end = false;  // the bookmark that ends sendInitialEvents
};

// Destroying it ends the watch. One next() at a time.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // Waits for events. Refusal with Errc::expired: list again (410).
  virtual Task<Answer<std::vector<WatchEvent>>> next(CancelToken token) = 0;
  // Everything up to here has been handed out: what a bookmark says.
  virtual std::string progress() const = 0;
};

class Registry {
 public:
  virtual ~Registry() = default;
  virtual Task<Answer<Written>> create(ResourceName where, Json object, WriteOptions options) = 0;
  virtual Task<Answer<Item>> get(ResourceName what, std::string resource_version) = 0;
  virtual Task<Answer<Listed>> list(ResourceName what, ListOptions options) = 0;
  virtual Task<Answer<std::unique_ptr<Watcher>>> watch(ResourceName what, WatchOptions options) = 0;
  // Replaces; metadata.resourceVersion in the object, when there, must match.
  virtual Task<Answer<Written>> update(ResourceName what, Json object, WriteOptions options) = 0;
  virtual Task<Answer<Written>> patch(ResourceName what, PatchType type, Json patch,
                                      WriteOptions options) = 0;
  virtual Task<Answer<Deleted>> remove(ResourceName what, DeleteOptions options) = 0;
  virtual Task<Answer<Listed>> remove_collection(ResourceName what, ListOptions which,
                                                 DeleteOptions options) = 0;
};

}  // namespace moor::registry
