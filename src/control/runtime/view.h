// What a reconcile sees: a consistent read of the objects, decoded once however often they are read, and the
// time. A View lives for one reconcile, on the runtime's thread.
//
// It notes what was read. The runtime looks at the key again when any of that changes, so a controller cannot
// forget to be woken by what it looked at, and nothing else wakes it. The objects of the key's own name in
// the controller's family wake it anyway and are not noted.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attach/settings.h"
#include "base/clock.h"
#include "base/flat_map.h"
#include "control/runtime/source.h"
#include "model/codec.h"
#include "model/meta/object_meta.h"
#include "model/time.h"

namespace moor::control {

struct Key {
  std::string space;
  std::string name;
  auto operator<=>(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return std::hash<std::string>()(key.name) * 31 + std::hash<std::string>()(key.space);
  }
};

// One object as it was read: its Json, which a write is made from, and its typed form.
template <class T>
struct Object {
  JsonPtr json;
  std::shared_ptr<const T> value;
  explicit operator bool() const { return value != nullptr; }
  const T& operator*() const { return *value; }
  const T* operator->() const { return value.get(); }
};

template <class T>
const model::KindInfo& kind_of() {
  return kind_info(static_cast<const T*>(nullptr));
}

// The metadata of an object without what the server keeps for itself.
Json own_metadata(const Json& object);
// Just enough of it to name this version of the object.
Json name_and_version(const Json& object);
// The object without it: the registry carries it over by itself.
Json without_managed_fields(const Json& object);

// Typed objects by the Json they were decoded from: an object that has not changed is not decoded again, and
// its Json stays decoded for whoever else looks at it. A new version takes its predecessor's place before
// anybody asks for it, while its Json is still at hand from its write: read from its text again it would
// cost more than all that is done with it. Bounded by what is in use: at a sweep, what was not asked for
// since the last one is dropped.
class Decoder {
 public:
  // Null when the object does not fit its kind, which validation does not let happen.
  template <class T>
  std::shared_ptr<const T> get(const JsonPtr& json) {
    const auto found = slots_.find(json.get());
    if (found != slots_.end() && found->second.value != nullptr) {
      found->second.used = true;
      return std::static_pointer_cast<const T>(found->second.value);
    }
    auto decoded = decode_parts<T>(*json);
    if (!decoded) {
      complain(*json, decoded.error());
      return nullptr;
    }
    auto value = std::make_shared<const T>(std::move(*decoded));
    put(json, value);
    return value;
  }
  void forget(const Json* json) { slots_.erase(json); }
  // A newer version has taken its place; null: the object is gone. Nothing happens if nobody has asked for
  // the older one.
  void replace(const Json* before, const JsonPtr& after);
  std::size_t size() const { return slots_.size(); }

 private:
  // A thousand volumes being attached at once: eight objects each, of some ten KiB with their Json.
  static constexpr std::size_t kFewest = 8192;
  struct Slot {
    JsonPtr keep;                       // so that its address stays its own
    std::shared_ptr<const void> value;  // null: nobody has asked yet
    bool used = true;                   // since the last sweep
  };
  // Without managedFields: who set what is the server's business, and a plan must not bring them back.
  template <class T>
  static Result<T> decode_parts(const Json& json) {
    T value{};
    if constexpr (requires(T one) { one.metadata, one.spec; }) {
      TRY_VOID(decode_part(json, "metadata", value.metadata));
      TRY_VOID(decode_part(json, "spec", value.spec));
      if constexpr (requires(T one) { one.status; }) TRY_VOID(decode_part(json, "status", value.status));
    } else {
      TRY(value, model::decode<T>(json));
    }
    value.metadata.managed_fields = {};
    return value;
  }
  template <class Part>
  static Result<void> decode_part(const Json& json, std::string_view name, Part& part) {
    const Json* found = json.find(name);
    if (found == nullptr) return {};
    return model::decode_struct(struct_schema(&part), &part, *found);
  }
  void put(const JsonPtr& json, std::shared_ptr<const void> value);
  static void complain(const Json& json, const Error& error);

  FlatMap<const Json*, Slot> slots_;  // looked up, never iterated in an order that matters
  std::size_t sweep_at_ = kFewest;
};

// A part of an object that a reader cares about, as a number; null stands for an absent object. A change
// that leaves it the same wakes nobody.
using Digest = std::uint64_t (*)(const Json* object);

// What one reconcile read outside its family.
struct Reads {
  struct Read {
    std::string key;  // of the registry; ends in '/' for everything below
    Digest digest = nullptr;
    bool operator==(const Read&) const = default;
  };
  std::vector<Read> reads;
};

// Whose reconcile a view serves.
struct Scope {
  Key key = {};
  const std::set<const model::KindInfo*>* family = nullptr;
};

class View {
 public:
  struct Moment {
    model::Time now;        // for timestamps in objects
    TimePoint monotonic{};  // for ages
    // When this runtime first saw the present version of a heartbeat, by the name of its node. Clocks of
    // nodes differ, so a renewal's own time says nothing about its age.
    const std::map<std::string, TimePoint>* heartbeats = nullptr;
  };
  View(const Source& source, Decoder& decoder, Moment moment, Scope scope = {})
      : source_(source), decoder_(decoder), moment_(moment), scope_(std::move(scope)) {}

  model::Time now() const { return moment_.now; }
  // How long ago this runtime saw the node's last heartbeat; absent: there is none.
  std::optional<Duration> heartbeat_age(const std::string& node) const;

  template <class T>
  Object<T> find(std::string_view space, std::string_view name, Digest digest = nullptr) const {
    const model::KindInfo& kind = kind_of<T>();
    note(kind, space, name, digest);
    return typed<T>(source_.find(kind, space, name));
  }
  // An object of the family matters more than its wake says: a change of this part of it wakes the key too.
  template <class T>
  void mind(std::string_view space, std::string_view name, Digest digest) const {
    put(kind_of<T>(), space, name, digest);
  }
  // What was read for this decision alone and would not be read again: its changes wake nobody. The second
  // form: of all that was read.
  template <class T>
  void disregard(std::string_view space, std::string_view name) const {
    drop(kind_of<T>(), space, name);
  }
  void disregard_all() const { reads_.reads.clear(); }
  // Any kind, for references to objects.
  JsonPtr find_any(const model::KindInfo& kind, std::string_view space, std::string_view name,
                   Digest digest = nullptr) const {
    note(kind, space, name, digest);
    return source_.find(kind, space, name);
  }
  template <class T>
  std::vector<Object<T>> all(std::string_view space, Digest digest = nullptr) const {
    note(kind_of<T>(), space, "", digest);
    std::vector<Object<T>> found;
    source_.for_each(kind_of<T>(), space, [&](const JsonPtr& json) { add(found, json); });
    return found;
  }
  // Of the controller's family; not noted.
  template <class T>
  std::vector<Object<T>> of_volume(std::string_view space, std::string_view volume) const {
    std::vector<Object<T>> found;
    source_.of_volume(kind_of<T>(), space, volume, [&](const JsonPtr& json) { add(found, json); });
    return found;
  }
  // Not noted: for figures that a guard protects.
  template <class T>
  std::vector<Object<T>> by_field(std::string_view field, std::string_view value) const {
    std::vector<Object<T>> found;
    source_.by_field(kind_of<T>(), field, value, [&](const JsonPtr& json) { add(found, json); });
    return found;
  }
  // The settings that hold.
  const attach::Settings& settings() const;
  const Reads& reads() const { return reads_; }

 private:
  template <class T>
  Object<T> typed(JsonPtr json) const {
    if (json == nullptr) return {};
    auto value = decoder_.get<T>(json);
    if (value == nullptr) return {};
    return {std::move(json), std::move(value)};
  }
  template <class T>
  void add(std::vector<Object<T>>& found, const JsonPtr& json) const {
    Object<T> object = typed<T>(json);
    if (object) found.push_back(std::move(object));
  }
  void note(const model::KindInfo& kind, std::string_view space, std::string_view name, Digest digest) const;
  void put(const model::KindInfo& kind, std::string_view space, std::string_view name, Digest digest) const;
  void drop(const model::KindInfo& kind, std::string_view space, std::string_view name) const;

  const Source& source_;
  Decoder& decoder_;
  Moment moment_;
  Scope scope_;
  mutable Reads reads_;
  mutable std::optional<attach::Settings> settings_;
};

}  // namespace moor::control
