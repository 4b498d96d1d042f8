#include "registry/gc.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "model/kinds.h"
#include "registry/keys.h"
#include "registry/prepare.h"

namespace moor::registry {
namespace {

constexpr std::string_view kForeground = "foregroundDeletion";
constexpr std::string_view kOrphan = "orphan";

const Json* owners_of(const Json& object) {
  const Json* owners = object.find_path({"metadata", "ownerReferences"});
  return owners != nullptr && owners->is_array() && !owners->empty() ? owners : nullptr;
}

bool has_finalizer(const Json& object, std::string_view finalizer) {
  const Json* list = object.find_path({"metadata", "finalizers"});
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i)
    if (list->at(i).is_string() && list->at(i).as_string() == finalizer) return true;
  return false;
}

bool is_deleting(const Json& object) {
  return !metadata_text(object, "deletionTimestamp").empty();
}

// Its owner with that uid is to wait for it.
bool blocks(const Json& dependent, std::string_view uid) {
  const Json* owners = owners_of(dependent);
  for (std::size_t i = 0; owners != nullptr && i < owners->size(); ++i)
    if (owners->at(i).get_string("uid") == uid && owners->at(i).get_bool("blockOwnerDeletion") == true)
      return true;
  return false;
}

// Where the owner would be; empty when that cannot be said (a kind that we do not serve, or a namespaced
// owner of a cluster-scoped object): such a reference is left alone.
std::string owner_key(const Json& reference, const Json& dependent) {
  const auto* kind = model::find_kind_by_name(reference.get_string("apiVersion").value_or(""),
                                              reference.get_string("kind").value_or(""));
  if (kind == nullptr) return {};
  const std::string space = metadata_text(dependent, "namespace");
  if (kind->namespaced && space.empty()) return {};
  return key_of(*kind, kind->namespaced ? space : "", reference.get_string("name").value_or(""));
}

ResourceName resource_at(std::string_view key) {
  const KeyParts parts = split_key(key);
  return {parts.kind, std::string(parts.space), std::string(parts.name), ""};
}

WriteOptions as_collector() {
  WriteOptions options;
  options.field_manager = "garbage-collector";
  options.field_validation = FieldValidation::ignore;
  return options;
}

// References to these owners taken out; the resourceVersion inside makes the write conditional.
Json without_owners(Json object, const std::vector<std::string>& uids) {
  Json& metadata = object["metadata"];
  Json kept = Json::array();
  const Json* owners = metadata.find("ownerReferences");
  for (std::size_t i = 0; owners != nullptr && i < owners->size(); ++i) {
    const auto uid = owners->at(i).get_string("uid").value_or("");
    if (std::find(uids.begin(), uids.end(), uid) == uids.end()) kept.push_back(owners->at(i));
  }
  if (kept.empty()) {
    metadata.erase("ownerReferences");
  } else {
    metadata.set("ownerReferences", std::move(kept));
  }
  return object;
}

// Gone already is as good as done.
template <class T>
Answer<void> settled(const Answer<T>& answer) {
  if (answer || answer.is(Errc::not_found)) return {};
  return answer.error();
}

}  // namespace

std::vector<std::string> GarbageCollector::dependents_of(const Json& owner) const {
  std::vector<std::string> keys;
  registry_.cache().for_each("", owner_term(metadata_text(owner, "uid")), [&](const store::ObjectPtr& found) {
    keys.push_back(found->entry.key);
    return true;
  });
  return keys;
}

void GarbageCollector::notice(const store::Change& change) {
  // Nearly every change is of something else than who owns whom and what goes.
  if (change.before != nullptr && change.after != nullptr && lives_alike(*change.before, *change.after))
    return;
  // What it was matters when it had owners or is gone.
  const bool look_back = change.before != nullptr && (change.after == nullptr || has_owner(*change.before));
  const JsonPtr before = look_back ? object_of(*change.before) : nullptr;
  const JsonPtr after = change.after == nullptr ? nullptr : object_of(*change.after);
  if (after != nullptr) {
    const bool waits =
        is_deleting(*after) && (has_finalizer(*after, kForeground) || has_finalizer(*after, kOrphan));
    const Json* was = before == nullptr ? nullptr : owners_of(*before);
    const Json* is = owners_of(*after);
    const bool owned_anew = is != nullptr && (was == nullptr || !(*was == *is));
    if (waits || owned_anew) queue_.add(change.key());
  } else if (before != nullptr) {
    for (std::string& key : dependents_of(*before)) queue_.add(std::move(key));
  }
  // Whoever owned it may have waited for this.
  const Json* owners = before == nullptr ? nullptr : owners_of(*before);
  for (std::size_t i = 0; owners != nullptr && i < owners->size(); ++i) {
    std::string key = owner_key(owners->at(i), *before);
    const store::ObjectPtr owner = key.empty() ? nullptr : registry_.cache().get(key);
    const JsonPtr object = owner == nullptr ? nullptr : object_of(*owner);
    if (object != nullptr && is_deleting(*object)) queue_.add(std::move(key));
  }
}

Task<Answer<void>> GarbageCollector::look_at(std::string key) {
  const store::ObjectPtr found = registry_.cache().get(key);
  const JsonPtr object = found == nullptr ? nullptr : object_of(*found);
  if (object == nullptr) co_return Answer<void>();
  if (is_deleting(*object) && has_finalizer(*object, kOrphan))
    co_return co_await orphan_dependents(std::move(key), object);
  if (is_deleting(*object) && has_finalizer(*object, kForeground))
    CO_TRY_VOID(co_await finish_foreground(key, object));
  if (!is_deleting(*object) && owners_of(*object) != nullptr)
    co_return co_await judge_dependent(std::move(key), object);
  co_return Answer<void>();
}

Task<Answer<void>> GarbageCollector::drop_finalizer(std::string key, JsonPtr object, std::string finalizer) {
  Json next = *object;
  Json* list = next["metadata"].find("finalizers");
  for (std::size_t i = list->size(); i-- > 0;)
    if (list->at(i).is_string() && list->at(i).as_string() == finalizer) list->erase(i);
  co_return settled(co_await registry_.update(resource_at(key), std::move(next), as_collector()));
}

Task<Answer<void>> GarbageCollector::orphan_dependents(std::string key, JsonPtr owner) {
  for (const std::string& dependent : dependents_of(*owner)) {
    const store::ObjectPtr found = registry_.cache().get(dependent);
    const JsonPtr object = found == nullptr ? nullptr : object_of(*found);
    if (object == nullptr) continue;
    Json next = without_owners(*object, {metadata_text(*owner, "uid")});
    const auto written = co_await registry_.update(resource_at(dependent), std::move(next), as_collector());
    CO_TRY_VOID(settled(written));
  }
  co_return co_await drop_finalizer(std::move(key), std::move(owner), std::string(kOrphan));
}

// Whether `waiting` is in foreground deletion and cannot end before `target` does, by any number of steps.
// Objects that own each other in a circle would wait for each other for ever: none of them counts as
// blocking.
bool GarbageCollector::waits_for(const std::string& waiting, const std::string& target) const {
  std::set<std::string> seen;
  std::vector<std::string> open = {waiting};
  while (!open.empty()) {  // each object at most once
    const std::string key = std::move(open.back());
    open.pop_back();
    if (key == target) return true;
    const store::ObjectPtr found = registry_.cache().get(key);
    const JsonPtr object = found == nullptr ? nullptr : object_of(*found);
    if (!seen.insert(key).second || object == nullptr || !is_deleting(*object) ||
        !has_finalizer(*object, kForeground))
      continue;
    const std::string uid = metadata_text(*object, "uid");
    for (std::string& dependent : dependents_of(*object)) {
      const store::ObjectPtr next = registry_.cache().get(dependent);
      const JsonPtr held = next == nullptr ? nullptr : object_of(*next);
      if (held != nullptr && blocks(*held, uid)) open.push_back(std::move(dependent));
    }
  }
  return false;
}

Task<Answer<void>> GarbageCollector::finish_foreground(std::string key, JsonPtr owner) {
  const std::string uid = metadata_text(*owner, "uid");
  bool blocked = false;
  for (std::string& dependent : dependents_of(*owner)) {
    const store::ObjectPtr found = registry_.cache().get(dependent);
    const JsonPtr object = found == nullptr ? nullptr : object_of(*found);
    if (object == nullptr || !blocks(*object, uid) || waits_for(dependent, key)) continue;
    blocked = true;
    if (!is_deleting(*object)) queue_.add(std::move(dependent));
  }
  if (blocked) co_return Answer<void>();  // the last of them to go brings this key back
  co_return co_await drop_finalizer(std::move(key), std::move(owner), std::string(kForeground));
}

// Decides by what has become of its owners: with a living one it stays and forgets the others.
Task<Answer<void>> GarbageCollector::judge_dependent(std::string key, JsonPtr object) {
  const Json& owners = *owners_of(*object);
  std::vector<std::string> dead;
  bool waited_for = false;
  std::size_t alive = 0;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const Json& reference = owners.at(i);
    const std::string place = owner_key(reference, *object);
    const auto uid = reference.get_string("uid").value_or("");
    const store::ObjectPtr found = place.empty() ? nullptr : registry_.cache().get(place);
    const JsonPtr owner = found == nullptr ? nullptr : object_of(*found);
    if (place.empty()) {
      ++alive;
    } else if (owner == nullptr || metadata_text(*owner, "uid") != uid) {
      dead.emplace_back(uid);
    } else if (is_deleting(*owner) && has_finalizer(*owner, kForeground) &&
               reference.get_bool("blockOwnerDeletion") == true) {
      waited_for = true;
      dead.emplace_back(uid);
    } else {
      ++alive;
    }
  }
  if (dead.empty()) co_return Answer<void>();
  if (alive > 0)
    co_return settled(
        co_await registry_.update(resource_at(key), without_owners(*object, dead), as_collector()));
  DeleteOptions options;
  options.uid = metadata_text(*object, "uid");
  options.resource_version = metadata_text(*object, "resourceVersion");
  if (waited_for && !dependents_of(*object).empty()) options.propagation = Propagation::foreground;
  co_return settled(co_await registry_.remove(resource_at(key), std::move(options)));
}

}  // namespace moor::registry
