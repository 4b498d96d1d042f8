#include "registry/apply/managed_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "registry/apply/typed.h"

namespace moor::registry {
namespace {

// Kubernetes merges the oldest of more update managers than this into one.
constexpr std::size_t kMaxUpdateManagers = 10;
constexpr std::string_view kAncient = "ancient-changes";

struct Entry {
  std::string manager;
  std::string operation;
  std::string api_version;
  std::string subresource;
  std::string time;
  FieldSet fields;

  bool is(std::string_view name, std::string_view op, std::string_view version, std::string_view sub) const {
    return manager == name && operation == op && api_version == version && subresource == sub;
  }
};
using Entries = std::vector<Entry>;

// Set by the server; nobody owns them.
constexpr std::string_view kUnowned[] = {"apiVersion", "kind"};
constexpr std::string_view kUnownedMetadata[] = {"name",
                                                 "namespace",
                                                 "uid",
                                                 "resourceVersion",
                                                 "generation",
                                                 "creationTimestamp",
                                                 "deletionTimestamp",
                                                 "deletionGracePeriodSeconds",
                                                 "selfLink",
                                                 "managedFields"};

const FieldSet& unowned() {
  static const FieldSet set = [] {
    FieldSet fields;
    for (const std::string_view name : kUnowned) fields.insert({field_element(name)});
    for (const std::string_view name : kUnownedMetadata) fields.insert({"f:metadata", field_element(name)});
    return fields;
  }();
  return set;
}

// What a write through this door can reach: everything but status, or nothing but status.
void keep_reachable(const model::KindInfo& kind, const std::string& subresource, FieldSet& set) {
  set.remove_below(unowned());
  FieldSet self;
  self.insert({"f:metadata"});  // an empty metadata is no place worth owning
  self.insert({});
  set.remove(self);
  if (!kind.has_status) return;
  if (subresource.empty()) {
    set.remove_below(FieldPath{"f:status"});
    return;
  }
  set.keep_only("f:status");
}

std::string text_of(const Json& json, std::string_view key) {
  return std::string(json.get_string(key).value_or(""));
}

// Entries that cannot be read are dropped: a broken record must not make the object unwritable.
Entries read_entries(const Json& object) {
  Entries entries;
  const Json* list = object.find_path({"metadata", "managedFields"});
  if (list == nullptr || !list->is_array()) return entries;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& json = list->at(i);
    const Json* fields = json.find("fieldsV1");
    if (fields == nullptr) continue;
    auto set = FieldSet::from_json(*fields);
    if (!set) continue;
    entries.push_back({text_of(json, "manager"), text_of(json, "operation"), text_of(json, "apiVersion"),
                       text_of(json, "subresource"), text_of(json, "time"), std::move(*set)});
  }
  return entries;
}

// `entry` without its fields, which are given in their own form.
Json entry_json(const Entry& entry, Json fields) {
  Json json = Json::object({{"manager", entry.manager},
                            {"operation", entry.operation},
                            {"apiVersion", entry.api_version},
                            {"time", entry.time},
                            {"fieldsType", "FieldsV1"},
                            {"fieldsV1", std::move(fields)}});
  if (!entry.subresource.empty()) json.set("subresource", entry.subresource);
  return json;
}

Json entry_json(const Entry& entry) {
  return entry_json(entry, entry.fields.to_json());
}

void write_entries(Json& object, Entries entries) {
  std::erase_if(entries, [](const Entry& entry) { return entry.fields.empty(); });
  // Appliers first, then by time and name, as Kubernetes orders them.
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    if (a.operation != b.operation) return a.operation < b.operation;
    if (a.time != b.time) return a.time < b.time;
    return a.manager < b.manager;
  });
  if (entries.empty()) {
    if (Json* metadata = object.find("metadata")) metadata->erase("managedFields");
    return;
  }
  Json& metadata = object["metadata"];
  if (!metadata.is_object()) metadata = Json::object();
  Json list = Json::array();
  for (const Entry& entry : entries) {
    list.push_back(entry_json(entry));
  }
  metadata.set("managedFields", std::move(list));
}

Entry& find_or_add(Entries& entries, const Writer& writer, std::string_view operation,
                   const std::string& api_version) {
  for (Entry& entry : entries) {
    if (entry.is(writer.manager, operation, api_version, writer.subresource)) return entry;
  }
  entries.push_back(
      {writer.manager, std::string(operation), api_version, writer.subresource, writer.now, {}});
  return entries.back();
}

void limit_update_managers(Entries& entries) {
  const auto is_update = [](const Entry& entry) { return entry.operation == "Update"; };
  auto count = static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), is_update));
  while (count > kMaxUpdateManagers) {
    std::vector<Entry*> updates;
    for (Entry& entry : entries) {
      if (is_update(entry)) updates.push_back(&entry);
    }
    std::stable_sort(updates.begin(), updates.end(),
                     [](const Entry* a, const Entry* b) { return a->time < b->time; });
    updates[1]->fields.add(updates[0]->fields);
    updates[1]->manager = kAncient;
    updates[0]->fields = {};
    std::erase_if(entries, [](const Entry& entry) { return entry.fields.empty(); });
    --count;
  }
}

// Places of the last apply that this one no longer names and nobody else holds on to.
FieldSet given_up(const FieldSet& last, const FieldSet& now, const Entries& entries, const Entry& own) {
  FieldSet result;
  last.for_each([&](const FieldPath& path) {
    if (now.touches(path)) return;
    const bool held = std::any_of(entries.begin(), entries.end(), [&](const Entry& other) {
      return &other != &own && other.fields.touches(path);
    });
    if (!held) result.insert(path);
  });
  return result;
}

// Whether the place itself is owned, read off the recorded form.
bool owns(const Json& fields, const FieldPath& path) {
  const Json* here = &fields;
  for (const std::string& element : path) {
    here = here->find(element);
    if (here == nullptr) return false;
  }
  return here->empty() || here->contains(".");
}

bool is_version_of(const model::KindInfo& kind, std::string_view text) {
  if (kind.group.empty()) return text == kind.version;
  return text.size() == kind.group.size() + 1 + kind.version.size() && text.starts_with(kind.group) &&
         text[kind.group.size()] == '/' && text.ends_with(kind.version);
}

// The entry of this writer's updates.
bool is_own(const model::KindInfo& kind, const Json& entry, const Writer& writer) {
  return entry.get_string("manager") == writer.manager && entry.get_string("operation") == "Update" &&
         entry.get_string("subresource").value_or("") == writer.subresource &&
         is_version_of(kind, entry.get_string("apiVersion").value_or(""));
}

bool is_before(const Json& a, const Json& b) {
  for (const char* key : {"operation", "time", "manager"}) {
    const auto left = a.get_string(key).value_or("");
    const auto right = b.get_string(key).value_or("");
    if (left != right) return left < right;
  }
  return false;
}

// Most writes change values that their writer has changed before. Then nothing but the time of its entry
// changes, and no set need be taken apart. False: it is not that simple, and nothing was done.
bool touch_own_entry(const model::KindInfo& kind, const FieldSet& changed, Json& after,
                     const Writer& writer) {
  Json* metadata = after.find("metadata");
  Json* list = metadata == nullptr ? nullptr : metadata->find("managedFields");
  if (list == nullptr || !list->is_array()) return false;
  std::size_t own = list->size();
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& entry = list->at(i);
    const Json* fields = entry.find("fieldsV1");
    if (fields == nullptr || !fields->is_object()) return false;
    const bool mine = is_own(kind, entry, writer);
    if (mine) own = i;
    bool fits = true;
    changed.for_each([&](const FieldPath& path) { fits = fits && owns(*fields, path) == mine; });
    if (!fits) return false;
  }
  if (own == list->size()) return false;
  list->at(own).set("time", writer.now);
  for (; own + 1 < list->size() && is_before(list->at(own + 1), list->at(own)); ++own)
    std::swap(list->at(own), list->at(own + 1));
  return true;
}

bool owns_any(const Json& fields, const FieldSet& places) {
  bool any = false;
  places.for_each([&](const FieldPath& path) { any = any || owns(fields, path); });
  return any;
}

// A change of a few places concerns few entries, nearly always the writer's own: only those are taken apart,
// the others stay as they are. False: it is not that simple, and nothing was done.
bool change_entries(const model::KindInfo& kind, const FieldSet& changed, const FieldSet& removed,
                    Json& after, const Writer& writer) {
  const Json* known = after.find_path({"metadata", "managedFields"});
  if (known == nullptr || !known->is_array() || known->size() >= kMaxUpdateManagers) return false;
  const std::string version = kind.api_version();
  std::vector<Json> entries;
  bool found = false;
  for (std::size_t i = 0; i < known->size(); ++i) {
    const Json& entry = known->at(i);
    const Json* fields = entry.find("fieldsV1");
    if (fields == nullptr || !fields->is_object()) return false;
    const bool mine = is_own(kind, entry, writer);
    found = found || mine;
    const bool grows = mine && !changed.empty();
    if (!grows && !owns_any(*fields, removed) && (mine || !owns_any(*fields, changed))) {
      entries.push_back(entry);
      continue;
    }
    auto set = FieldSet::from_json(*fields);
    if (!set) return false;
    set->remove(removed);
    if (mine) {
      set->add(changed);
    } else {
      set->remove(changed);
    }
    if (set->empty()) continue;
    Json next = entry;
    next.set("fieldsV1", set->to_json());
    if (grows) next.set("time", writer.now);
    entries.push_back(std::move(next));
  }
  if (!found && !changed.empty())
    entries.push_back(
        entry_json({writer.manager, "Update", version, writer.subresource, writer.now, changed}));
  std::stable_sort(entries.begin(), entries.end(), is_before);
  if (entries.empty()) {
    after["metadata"].erase("managedFields");
    return true;
  }
  Json list = Json::array();
  for (Json& entry : entries) list.push_back(std::move(entry));
  after["metadata"].set("managedFields", std::move(list));
  return true;
}

// The same as touch_own_entry(), for a write of spec or status, found without taking note of what changed.
bool touch_own_values(const model::KindInfo& kind, const Json& before, Json& after, const Writer& writer) {
  const bool status = writer.subresource == "status";
  if (!status && !writer.subresource.empty()) return false;
  const std::string_view part = status ? "status" : "spec";
  // Anything else that differs is not that simple. The generation is nobody's.
  for (std::size_t i = 0; i < std::as_const(after).size(); ++i) {
    const std::string_view key = after.key_at(i);
    const Json* was = before.find(key);
    const Json& is = std::as_const(after).value_at(i);
    if (key == part || (was != nullptr && *was == is)) continue;
    if (key != "metadata" || was == nullptr || was->size() != is.size()) return false;
    for (std::size_t j = 0; j < is.size(); ++j) {
      const Json* known = was->find(is.key_at(j));
      if (is.key_at(j) != "generation" && (known == nullptr || !(*known == is.value_at(j)))) return false;
    }
  }
  if (before.size() != after.size()) return false;
  const Json* list = std::as_const(after).find_path({"metadata", "managedFields"});
  if (list == nullptr || !list->is_array() || list->size() > kMaxUpdateManagers) return false;
  std::vector<const Json*> others;
  std::size_t own = list->size();
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& entry = list->at(i);
    const Json* fields = entry.find("fieldsV1");
    if (fields == nullptr || !fields->is_object()) return false;
    if (is_own(kind, entry, writer))
      own = i;
    else
      others.push_back(fields);
  }
  if (own == list->size() ||
      !changes_own_values(before, after, *kind.schema, part, *list->at(own).find("fieldsV1"), others))
    return false;
  if (list->at(own).get_string("time") == writer.now) return true;
  Json& entries = *after["metadata"].find("managedFields");
  entries.at(own).set("time", writer.now);
  for (; own + 1 < entries.size() && is_before(entries.at(own + 1), entries.at(own)); ++own)
    std::swap(entries.at(own), entries.at(own + 1));
  return true;
}

// What is owned among the members of one object, all of which are new; none: see places_of().
template <std::size_t N>
std::optional<Json> new_places(const Json& object, const model::StructSchema* schema,
                               const std::string_view (&without)[N], std::string_view and_without) {
  std::vector<std::pair<std::string_view, std::size_t>> members;
  members.reserve(object.size());
  for (std::size_t i = 0; i < object.size(); ++i) {
    const std::string_view key = object.key_at(i);
    if (key != and_without && std::find(std::begin(without), std::end(without), key) == std::end(without))
      members.emplace_back(key, i);
  }
  std::sort(members.begin(), members.end());
  Json places = Json::object();
  for (const auto& [key, at] : members) {
    const auto* field = schema == nullptr ? nullptr : schema->find(key);
    const model::Schema* known = field == nullptr ? nullptr : &field->schema;
    const Json& value = object.value_at(at);
    std::optional<Json> below =
        key == "metadata" && value.is_object()
            ? new_places(value, known == nullptr ? nullptr : known->object, kUnownedMetadata, "")
            : places_of(value, known);
    if (!below) return std::nullopt;
    if (key == "metadata" && below->empty()) continue;  // an empty metadata is no place worth owning
    places.set(field_element(key), std::move(*below));
  }
  return places;
}

// Everything that a new object has belongs to who made it. False: it is not that simple, and nothing was
// done.
bool own_everything(const model::KindInfo& kind, Json& after, const Writer& writer) {
  Json* metadata = after.find("metadata");
  if (!writer.subresource.empty() || metadata == nullptr || !metadata->is_object()) return false;
  auto places = new_places(after, kind.schema, kUnowned, kind.has_status ? "status" : "");
  if (!places) return false;
  if (places->empty()) {
    metadata->erase("managedFields");
    return true;
  }
  Json list = Json::array();
  list.push_back(
      entry_json({writer.manager, "Update", kind.api_version(), {}, writer.now, {}}, std::move(*places)));
  metadata->set("managedFields", std::move(list));
  return true;
}

FieldSet changed_places(const Differences& differences) {
  FieldSet set = differences.added;
  set.add(differences.modified);
  return set;
}

}  // namespace

Result<Applied> server_side_apply(const model::KindInfo& kind, const Json* live, const Json& config,
                                  const Writer& writer, bool force) {
  if (const Json* managed = config.find_path({"metadata", "managedFields"});
      managed != nullptr && !managed->empty())
    return make_error(Errc::invalid, "metadata.managedFields must be nil");
  TRY_VOID(check_lists(config, *kind.schema));
  Json base = live == nullptr ? Json::object() : *live;
  Entries entries = read_entries(base);
  if (Json* metadata = base.find("metadata")) metadata->erase("managedFields");

  FieldSet named = field_set_of(config, *kind.schema);
  keep_reachable(kind, writer.subresource, named);
  Entry& own = find_or_add(entries, writer, "Apply", kind.api_version());
  const FieldSet last = own.fields;
  Json object = lay_over(base, config, *kind.schema);
  object = without(std::move(object), given_up(last, named, entries, own), *kind.schema);

  const Differences differences = compare(base, object, *kind.schema);
  const FieldSet changed = changed_places(differences);
  Applied applied;
  for (Entry& other : entries) {
    if (&other == &own) continue;
    const FieldSet contested = other.fields.intersection(changed).intersection(named);
    if (!contested.empty() && !force) {
      contested.for_each([&](const FieldPath& path) {
        applied.conflicts.push_back(
            {other.manager, other.operation, other.subresource, other.api_version, other.time, path});
      });
    }
    other.fields.remove(contested);
    other.fields.remove(differences.removed);
  }
  if (!applied.conflicts.empty()) return applied;
  if (!(own.fields == named)) own.time = writer.now;
  own.fields = std::move(named);
  write_entries(object, std::move(entries));
  applied.object = std::move(object);
  return applied;
}

void track_write(const model::KindInfo& kind, const Json* before, Json& after, const Writer& writer) {
  if (before == nullptr && own_everything(kind, after, writer)) return;
  const Json* sent = after.find_path({"metadata", "managedFields"});
  // A list of one empty entry is how a client asks to forget all ownership.
  const bool reset = sent != nullptr && sent->is_array() && before != nullptr &&
                     (sent->empty() || (sent->size() == 1 && sent->at(0).empty()));
  const Json* kept = before == nullptr ? nullptr : before->find_path({"metadata", "managedFields"});
  Differences differences;
  if (before != nullptr && sent != nullptr && kept != nullptr && *sent == *kept) {
    // The usual case: the same list on both sides is no difference, and nothing need be copied.
    if (!reset && touch_own_values(kind, *before, after, writer)) return;
    differences = compare(*before, after, *kind.schema);
    if (!reset && differences.added.empty() && differences.removed.empty()) {
      FieldSet changed = differences.modified;
      keep_reachable(kind, writer.subresource, changed);
      if (changed.empty() || touch_own_entry(kind, changed, after, writer)) return;
    }
    FieldSet changed = changed_places(differences);
    keep_reachable(kind, writer.subresource, changed);
    if (!reset && change_entries(kind, changed, differences.removed, after, writer)) return;
  } else {
    Json old = before == nullptr ? Json::object() : *before;
    if (Json* metadata = old.find("metadata")) metadata->erase("managedFields");
    if (Json* metadata = after.find("metadata")) metadata->erase("managedFields");
    differences = compare(old, after, *kind.schema);
  }
  Entries entries = before == nullptr || reset ? Entries() : read_entries(*before);
  FieldSet changed = changed_places(differences);
  keep_reachable(kind, writer.subresource, changed);
  for (Entry& entry : entries) {
    entry.fields.remove(differences.removed);
    if (!entry.is(writer.manager, "Update", kind.api_version(), writer.subresource))
      entry.fields.remove(changed);
  }
  if (!changed.empty() && !reset) {
    Entry& own = find_or_add(entries, writer, "Update", kind.api_version());
    own.fields.add(changed);
    own.time = writer.now;
  }
  limit_update_managers(entries);
  write_entries(after, std::move(entries));
}

}  // namespace moor::registry
