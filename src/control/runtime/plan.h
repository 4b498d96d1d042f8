// What a reconcile wants done: writes, all in one transaction, conditioned on the versions of what they
// replace and of the guards. A value; nothing has happened yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/runtime/view.h"
#include "registry/events.h"

namespace moor::control {

struct Plan {
  std::vector<registry::Mutation> writes;
  std::vector<registry::Guard> guards;
  std::optional<Duration> again_after;  // when time alone changes the answer
  // Asked again about what these writes leave, the controller would want nothing more and read nothing else:
  // their own coming need not wake the key. Only for plans of which this is certain.
  bool settled = false;
  // What was begun for the key goes on after these writes, at an agent or at another controller.
  bool unfinished = false;
  std::vector<std::string> reasons;  // what is done and why, for people
  std::vector<registry::EventNote> events;

  template <class T>
  void create(const T& value) {
    const model::ObjectMeta& metadata = value.metadata;
    writes.push_back({registry::Mutation::Type::create,
                      {&kind_of<T>(), metadata.space, "", ""},
                      model::encode(value),
                      ""});
  }
  // Nothing when the object would stay as it is.
  template <class T>
  bool update(const Object<T>& before, const T& after) {
    return change(before, after, "");
  }
  template <class T>
  bool update_status(const Object<T>& before, const T& after) {
    return change(before, after, "status");
  }
  template <class T>
  void remove(const Object<T>& object) {
    writes.push_back({registry::Mutation::Type::remove,
                      {&kind_of<T>(), object->metadata.space, object->metadata.name, ""},
                      {},
                      object->metadata.resource_version});
  }
  // The plan holds only while this object stays as it was read.
  template <class T>
  void guard(const Object<T>& object) {
    guards.push_back({{&kind_of<T>(), object->metadata.space, object->metadata.name, ""},
                      object->metadata.resource_version});
  }
  template <class T>
  void guard_absent(std::string space, std::string name) {
    guards.push_back({{&kind_of<T>(), std::move(space), std::move(name), ""}, ""});
  }
  void again(Duration after) {
    if (!again_after || after < *again_after) again_after = after;
  }
  template <class T>
  void note(const Object<T>& about, std::string type, std::string reason, std::string message) {
    events.push_back({registry::reference_to(kind_of<T>(), *about.json), std::move(type), std::move(reason),
                      std::move(message)});
  }

 private:
  // Puts the part as it shall be into `object`; true when it differs from what was there.
  template <class Part>
  static bool put_part(const Json& before, std::string_view name, const Part& part, Json& object) {
    const Json* old = before.find(name);
    Json& next = object.set(name, old == nullptr ? Json::object() : *old);
    model::encode_onto(next, part);
    return old == nullptr ? !next.empty() : !(next == *old);
  }
  template <class T>
  bool change(const Object<T>& before, const T& after, const char* subresource) {
    Json object;
    bool spec_only = false;
    if constexpr (requires(T one) { one.metadata, one.spec; }) {
      // The rest is the registry's to carry over.
      const bool status = *subresource != '\0';
      spec_only = !status && has_same_metadata(*before, after);
      object = status || spec_only ? name_and_version(*before.json)
                                   : Json::object({{"metadata", own_metadata(*before.json)}});
      bool changed = false;
      if (status) {
        if constexpr (requires(T one) { one.status; })
          changed = put_part(*before.json, "status", after.status, object);
      } else if (spec_only) {
        changed = put_part(*before.json, "spec", after.spec, object);
      } else {
        const Json old = object;
        model::encode_onto(*object.find("metadata"), after.metadata);
        changed = !(object == old);
        changed = put_part(*before.json, "spec", after.spec, object) || changed;
      }
      if (!changed) return false;
    } else {
      const Json old = without_managed_fields(*before.json);
      object = old;
      model::encode_onto(object, after);
      if (object == old) return false;
    }
    writes.push_back({registry::Mutation::Type::update,
                      {&kind_of<T>(), before->metadata.space, before->metadata.name, subresource},
                      std::move(object),
                      "",
                      spec_only});
    return true;
  }
  // Of what a controller may change there.
  template <class T>
  static bool has_same_metadata(const T& before, const T& after) {
    const model::ObjectMeta& was = before.metadata;
    const model::ObjectMeta& is = after.metadata;
    return was.labels == is.labels && was.annotations == is.annotations &&
           was.owner_references == is.owner_references && was.finalizers == is.finalizers;
  }
};

}  // namespace moor::control
