// Server-side apply, case by case. Each case is a story of writes; what must come out is argued from the
// Kubernetes documentation ("Server-Side Apply": field management, conflicts, merge strategy, transferring
// ownership), quoted in spirit in the case's name, not from our code.
#include "registry/apply/managed_fields.h"

#include <fmt/format.h>

#include "model/kinds.h"
#include "registry/apply/typed.h"

namespace moor::registry {
namespace {

const model::KindInfo& pod() {
  return *model::find_kind("", "v1", "pods");
}

// A write: "apply a {…}", "force a {…}", "update a {…}" (replaces), "status a {…}" (update of the status
// subresource), "apply-status a {…}".
struct Write {
  std::string how;
  std::string manager;
  std::string json;
};

struct FieldCase {
  const char* name;
  std::vector<Write> writes;
  // The object without metadata.name and managedFields, or "conflict: a .spec.x, b .spec.y" for the last
  // write.
  std::string outcome;
  // "a: .spec.x .spec.y; b: .spec.z": who owns what at the end; "-": not looked at.
  std::string owners = "-";
};

class Fields {
 public:
  // Empty, or the conflicts.
  std::string run(const Write& write, int time) {
    auto parsed = parse_json(write.json);
    EXPECT_TRUE(parsed.ok()) << write.json;
    Json sent = *parsed;
    const bool status = write.how.find("status") != std::string::npos;
    const Writer writer{write.manager, status ? "status" : "", fmt::format("2026-01-01T00:00:{:02}Z", time)};
    if (write.how == "update" || write.how == "status") {
      replace(std::move(sent), writer);
      return {};
    }
    if (status) sent = Json::object({{"status", sent["status"]}});
    auto applied = server_side_apply(pod(), exists_ ? &object_ : nullptr, sent, writer, write.how == "force");
    if (!applied) return "error: " + applied.error().message;
    std::string conflicts;
    for (const Conflict& conflict : applied->conflicts)
      conflicts +=
          fmt::format("{}{} {}", conflicts.empty() ? "" : ", ", conflict.manager, to_text(conflict.path));
    if (!conflicts.empty()) return "conflict: " + conflicts;
    object_ = std::move(applied->object);
    exists_ = true;
    return {};
  }

  std::string object() const {
    Json copy = object_;
    if (Json* metadata = copy.find("metadata")) {
      metadata->erase("managedFields");
      if (metadata->empty()) copy.erase("metadata");
    }
    return moor::to_text(copy);
  }

  std::string owners() const {
    std::map<std::string, std::string> lines;
    const Json* list = object_.find_path({"metadata", "managedFields"});
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const Json& entry = list->at(i);
      std::string& line = lines[std::string(*entry.get_string("manager"))];
      FieldSet::from_json(*entry.find("fieldsV1"))->for_each([&](const FieldPath& path) {
        line += " " + to_text(path);
      });
    }
    std::string text;
    for (const auto& [manager, fields] : lines)
      text += fmt::format("{}{}:{}", text.empty() ? "" : "; ", manager, fields);
    return text;
  }

 private:
  void replace(Json sent, const Writer& writer) {
    Json next = writer.subresource.empty() ? sent : object_;
    if (!writer.subresource.empty()) next["status"] = sent["status"];
    if (exists_ && !sent.find_path({"metadata", "managedFields"})) {
      if (const Json* managed = object_.find_path({"metadata", "managedFields"}))
        next["metadata"]["managedFields"] = *managed;
    }
    track_write(pod(), exists_ ? &object_ : nullptr, next, writer);
    object_ = std::move(next);
    exists_ = true;
  }

  Json object_;
  bool exists_ = false;
};

const std::vector<FieldCase>& cases() {
  static const std::vector<FieldCase> all = {
      // Ownership by applying.
      {"an apply creates the object and owns what it names",
       {{"apply", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"}},
       R"({"spec":{"nodeName":"n1","hostname":"h"}})",
       "a: .spec.hostname .spec.nodeName"},
      {"applying the same again changes nothing",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"}, {"apply", "a", R"({"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"nodeName":"n1"}})",
       "a: .spec.nodeName"},
      {"the applier may change its own field",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"}, {"apply", "a", R"({"spec":{"nodeName":"n2"}})"}},
       R"({"spec":{"nodeName":"n2"}})",
       "a: .spec.nodeName"},
      {"a field no longer applied is removed when nobody else owns it",
       {{"apply", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"},
        {"apply", "a", R"({"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"nodeName":"n1"}})",
       "a: .spec.nodeName"},
      {"a field no longer applied stays when another applier owns it",
       {{"apply", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"},
        {"apply", "b", R"({"spec":{"hostname":"h"}})"},
        {"apply", "a", R"({"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"nodeName":"n1","hostname":"h"}})",
       "a: .spec.nodeName; b: .spec.hostname"},
      {"a field no longer applied stays when an updater owns it too",
       {{"apply", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"},
        {"update", "u", R"({"spec":{"nodeName":"n1","hostname":"other"}})"},
        {"force", "a", R"({"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"nodeName":"n1","hostname":"other"}})",
       "a: .spec.nodeName; u: .spec.hostname"},
      {"two managers with different fields live side by side",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"}, {"apply", "b", R"({"spec":{"hostname":"h"}})"}},
       R"({"spec":{"nodeName":"n1","hostname":"h"}})",
       "a: .spec.nodeName; b: .spec.hostname"},
      {"the same value from two appliers is shared",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"}, {"apply", "b", R"({"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"nodeName":"n1"}})",
       "a: .spec.nodeName; b: .spec.nodeName"},
      {"a shared field cannot be changed by one of its owners without force",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"},
        {"apply", "b", R"({"spec":{"nodeName":"n1"}})"},
        {"apply", "b", R"({"spec":{"nodeName":"n2"}})"}},
       "conflict: a .spec.nodeName"},
      {"giving up a shared field leaves it to the other",
       {{"apply", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"},
        {"apply", "b", R"({"spec":{"hostname":"h"}})"},
        {"apply", "b", R"({"spec":{"subdomain":"s"}})"}},
       R"({"spec":{"nodeName":"n1","hostname":"h","subdomain":"s"}})",
       "a: .spec.hostname .spec.nodeName; b: .spec.subdomain"},
      // Conflicts.
      {"changing another applier's field is a conflict",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"}, {"apply", "b", R"({"spec":{"nodeName":"n2"}})"}},
       "conflict: a .spec.nodeName"},
      {"changing an updater's field by apply is a conflict",
       {{"update", "u", R"({"spec":{"nodeName":"n1"}})"}, {"apply", "a", R"({"spec":{"nodeName":"n2"}})"}},
       "conflict: u .spec.nodeName"},
      {"every contested field and owner is named",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"},
        {"apply", "b", R"({"spec":{"hostname":"h"}})"},
        {"apply", "c", R"({"spec":{"nodeName":"n2","hostname":"g"}})"}},
       "conflict: a .spec.nodeName, b .spec.hostname"},
      {"a refused apply changes nothing",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"},
        {"apply", "b", R"({"spec":{"nodeName":"n2","hostname":"h"}})"},
        {"apply", "c", R"({"spec":{"subdomain":"s"}})"}},
       R"({"spec":{"nodeName":"n1","subdomain":"s"}})",
       "a: .spec.nodeName; c: .spec.subdomain"},
      {"force takes the field and its ownership",
       {{"apply", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"},
        {"force", "b", R"({"spec":{"nodeName":"n2"}})"}},
       R"({"spec":{"nodeName":"n2","hostname":"h"}})",
       "a: .spec.hostname; b: .spec.nodeName"},
      {"after force the former owner applies its old value: now it conflicts",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"},
        {"force", "b", R"({"spec":{"nodeName":"n2"}})"},
        {"apply", "a", R"({"spec":{"nodeName":"n1"}})"}},
       "conflict: b .spec.nodeName"},
      {"an applier that takes over the new value shares it",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"},
        {"force", "b", R"({"spec":{"nodeName":"n2"}})"},
        {"apply", "a", R"({"spec":{"nodeName":"n2"}})"}},
       R"({"spec":{"nodeName":"n2"}})",
       "a: .spec.nodeName; b: .spec.nodeName"},
      // Updates.
      {"an update owns what it sets",
       {{"update", "u", R"({"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"nodeName":"n1"}})",
       "u: .spec.nodeName"},
      {"an update never conflicts: it takes ownership of what it changes",
       {{"apply", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"},
        {"update", "u", R"({"spec":{"nodeName":"n2","hostname":"h"}})"}},
       R"({"spec":{"nodeName":"n2","hostname":"h"}})",
       "a: .spec.hostname; u: .spec.nodeName"},
      {"an update that changes nothing owns nothing",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"}, {"update", "u", R"({"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"nodeName":"n1"}})",
       "a: .spec.nodeName"},
      {"what an update removes is owned by nobody",
       {{"apply", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"},
        {"update", "u", R"({"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"nodeName":"n1"}})",
       "a: .spec.nodeName"},
      {"a field removed by an update comes back by the next apply",
       {{"apply", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"},
        {"update", "u", R"({"spec":{"nodeName":"n1"}})"},
        {"apply", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"}},
       R"({"spec":{"nodeName":"n1","hostname":"h"}})",
       "a: .spec.hostname .spec.nodeName"},
      {"the same manager may apply and update; the entries stay apart",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"},
        {"update", "a", R"({"spec":{"nodeName":"n1","hostname":"h"}})"}},
       R"({"spec":{"nodeName":"n1","hostname":"h"}})",
       "a: .spec.nodeName .spec.hostname"},
      {"an empty managedFields list in an update resets ownership",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"},
        {"update", "u", R"({"metadata":{"managedFields":[{}]},"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"nodeName":"n1"}})",
       ""},
      {"managedFields in an applied configuration are refused",
       {{"apply", "a", R"({"metadata":{"managedFields":[{"manager":"x"}]},"spec":{"nodeName":"n1"}})"}},
       "error: metadata.managedFields must be nil"},
      // Transferring ownership, as the documentation walks through it.
      {"transfer: the new manager applies the same value, then the old one leaves the field out",
       {{"apply", "user", R"({"spec":{"nodeName":"n1","hostname":"h"}})"},
        {"apply", "scaler", R"({"spec":{"hostname":"h"}})"},
        {"apply", "user", R"({"spec":{"nodeName":"n1"}})"},
        {"apply", "scaler", R"({"spec":{"hostname":"g"}})"}},
       R"({"spec":{"nodeName":"n1","hostname":"g"}})",
       "scaler: .spec.hostname; user: .spec.nodeName"},
      // Maps.
      {"labels belong to whoever set each of them",
       {{"apply", "a", R"({"metadata":{"labels":{"x":"1"}}})"},
        {"apply", "b", R"({"metadata":{"labels":{"y":"2"}}})"}},
       R"({"metadata":{"labels":{"x":"1","y":"2"}}})",
       "a: .metadata.labels.x; b: .metadata.labels.y"},
      {"a label of another owner conflicts by itself only",
       {{"apply", "a", R"({"metadata":{"labels":{"x":"1"}}})"},
        {"apply", "b", R"({"metadata":{"labels":{"x":"2","y":"2"}}})"}},
       "conflict: a .metadata.labels.x"},
      {"a label no longer applied goes, others stay",
       {{"apply", "a", R"({"metadata":{"labels":{"x":"1","z":"3"}}})"},
        {"apply", "b", R"({"metadata":{"labels":{"y":"2"}}})"},
        {"apply", "a", R"({"metadata":{"labels":{"z":"3"}}})"}},
       R"({"metadata":{"labels":{"z":"3","y":"2"}}})",
       "a: .metadata.labels.z; b: .metadata.labels.y"},
      {"the last label to go takes the empty map with it",
       {{"apply", "a", R"({"metadata":{"labels":{"x":"1"}},"spec":{"nodeName":"n1"}})"},
        {"apply", "a", R"({"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"nodeName":"n1"}})",
       "a: .spec.nodeName"},
      // Lists that are maps by key.
      {"items of a keyed list merge by their key",
       {{"apply", "a", R"({"spec":{"volumes":[{"name":"v1"}]}})"},
        {"apply", "b", R"({"spec":{"volumes":[{"name":"v2"}]}})"}},
       R"({"spec":{"volumes":[{"name":"v1"},{"name":"v2"}]}})",
       R"(a: .spec.volumes[name="v1"] .spec.volumes[name="v1"].name; b: .spec.volumes[name="v2"] .spec.volumes[name="v2"].name)"},
      {"an item may have fields of several owners",
       {{"apply", "a", R"({"spec":{"containers":[{"name":"c","image":"i"}]}})"},
        {"apply", "b", R"({"spec":{"containers":[{"name":"c","workingDir":"/w"}]}})"}},
       R"({"spec":{"containers":[{"name":"c","image":"i","workingDir":"/w"}]}})"},
      {"a field of an item conflicts with its key in the path",
       {{"apply", "a", R"({"spec":{"containers":[{"name":"c","image":"i"}]}})"},
        {"apply", "b", R"({"spec":{"containers":[{"name":"c","image":"j"}]}})"}},
       R"(conflict: a .spec.containers[name="c"].image)"},
      {"an item no longer applied goes when it was the applier's alone",
       {{"apply", "a", R"({"spec":{"volumes":[{"name":"v1"},{"name":"v2"}]}})"},
        {"apply", "a", R"({"spec":{"volumes":[{"name":"v2"}]}})"}},
       R"({"spec":{"volumes":[{"name":"v2"}]}})"},
      {"an item no longer applied stays while another owns a field in it",
       {{"apply", "a", R"({"spec":{"containers":[{"name":"c","image":"i"}]}})"},
        {"apply", "b", R"({"spec":{"containers":[{"name":"c","workingDir":"/w"}]}})"},
        {"apply", "a", R"({"spec":{"nodeName":"n1"}})"}},
       R"({"spec":{"containers":[{"name":"c","workingDir":"/w"}],"nodeName":"n1"}})"},
      {"a key that stands twice is refused",
       {{"apply", "a", R"({"spec":{"volumes":[{"name":"v"},{"name":"v"}]}})"}},
       R"(error: .spec.volumes[name="v"]: stands twice in its list)"},
      {"items keep their place, new ones come last",
       {{"apply", "a", R"({"spec":{"volumes":[{"name":"v1"},{"name":"v2"}]}})"},
        {"apply", "b", R"({"spec":{"volumes":[{"name":"v0"},{"name":"v2"}]}})"}},
       R"({"spec":{"volumes":[{"name":"v1"},{"name":"v2"},{"name":"v0"}]}})"},
      {"an update of one item's field takes that field only",
       {{"apply", "a", R"({"spec":{"containers":[{"name":"c","image":"i","workingDir":"/w"}]}})"},
        {"update", "u", R"({"spec":{"containers":[{"name":"c","image":"j","workingDir":"/w"}]}})"},
        {"apply", "a", R"({"spec":{"containers":[{"name":"c","workingDir":"/x"}]}})"}},
       R"({"spec":{"containers":[{"name":"c","image":"j","workingDir":"/x"}]}})"},
      // Sets.
      {"finalizers are a set: each value has its owners",
       {{"apply", "a", R"({"metadata":{"finalizers":["f/1"]}})"},
        {"apply", "b", R"({"metadata":{"finalizers":["f/2","f/1"]}})"}},
       R"({"metadata":{"finalizers":["f/1","f/2"]}})",
       R"(a: .metadata.finalizers[="f/1"]; b: .metadata.finalizers[="f/1"] .metadata.finalizers[="f/2"])"},
      {"a value given up by its last owner leaves the set",
       {{"apply", "a", R"({"metadata":{"finalizers":["f/1"]}})"},
        {"apply", "b", R"({"metadata":{"finalizers":["f/2","f/1"]}})"},
        {"apply", "b", R"({"metadata":{"finalizers":["f/1"]}})"}},
       R"({"metadata":{"finalizers":["f/1"]}})"},
      // Atomic lists.
      {"an atomic list is owned as a whole",
       {{"apply", "a", R"({"spec":{"containers":[{"name":"c","command":["x","y"]}]}})"},
        {"apply", "b", R"({"spec":{"containers":[{"name":"c","command":["x"]}]}})"}},
       R"(conflict: a .spec.containers[name="c"].command)"},
      {"an atomic list is replaced, not merged",
       {{"apply", "a", R"({"spec":{"containers":[{"name":"c","command":["x","y"]}]}})"},
        {"apply", "a", R"({"spec":{"containers":[{"name":"c","command":["z"]}]}})"}},
       R"({"spec":{"containers":[{"name":"c","command":["z"]}]}})"},
      // Owner references are atomic items of a list that is keyed by uid (their schema says so).
      {"an owner reference is owned as a whole, one for each uid",
       {{"apply", "a",
         R"({"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}})"},
        {"apply", "b",
         R"({"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"q","uid":"w"}]}})"}},
       R"({"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"},{"apiVersion":"v1","kind":"Pod","name":"q","uid":"w"}]}})",
       R"(a: .metadata.ownerReferences[uid="u"]; b: .metadata.ownerReferences[uid="w"])"},
      {"a part of an owner reference is not another manager's to change",
       {{"apply", "a",
         R"({"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}})"},
        {"apply", "b",
         R"({"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"q","uid":"u"}]}})"}},
       R"(conflict: a .metadata.ownerReferences[uid="u"])"},
      // Status and the main resource.
      {"status in an apply of the main resource is not owned",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"},"status":{"phase":"Running"}})"}},
       R"({"spec":{"nodeName":"n1"},"status":{"phase":"Running"}})",
       "a: .spec.nodeName"},
      {"an update of status owns status fields only",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"},
        {"status", "k", R"({"status":{"phase":"Running"}})"}},
       R"({"spec":{"nodeName":"n1"},"status":{"phase":"Running"}})",
       "a: .spec.nodeName; k: .status.phase"},
      {"two controllers conflict in status as elsewhere",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"},
        {"apply-status", "k", R"({"status":{"phase":"Running"}})"},
        {"apply-status", "m", R"({"status":{"phase":"Failed"}})"}},
       "conflict: k .status.phase"},
      {"conditions merge by type",
       {{"apply", "a", R"({"spec":{"nodeName":"n1"}})"},
        {"apply-status", "k", R"({"status":{"conditions":[{"type":"Ready","status":"True"}]}})"},
        {"apply-status", "m", R"({"status":{"conditions":[{"type":"Mounted","status":"False"}]}})"}},
       R"({"spec":{"nodeName":"n1"},"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Mounted","status":"False"}]}})"},
      // Fields that the server owns.
      {"name, uid and resourceVersion are owned by nobody",
       {{"apply", "a", R"({"metadata":{"name":"p","namespace":"d","uid":"1","labels":{"x":"1"}}})"}},
       R"({"metadata":{"name":"p","namespace":"d","uid":"1","labels":{"x":"1"}}})",
       "a: .metadata.labels.x"},
      // Fields that the model does not know but keeps.
      {"unknown fields are owned by their JSON shape",
       {{"apply", "a", R"({"spec":{"futureThing":{"deep":{"x":1}}}})"},
        {"apply", "b", R"({"spec":{"futureThing":{"deep":{"y":2}}}})"}},
       R"({"spec":{"futureThing":{"deep":{"x":1,"y":2}}}})",
       "a: .spec.futureThing.deep.x; b: .spec.futureThing.deep.y"},
      {"lists in unknown fields are atomic",
       {{"apply", "a", R"({"spec":{"futureList":[1]}})"}, {"apply", "b", R"({"spec":{"futureList":[2]}})"}},
       "conflict: a .spec.futureList"},
      {"an explicitly empty map is a value",
       {{"apply", "a", R"({"spec":{"nodeSelector":{}}})"}},
       R"({"spec":{"nodeSelector":{}}})",
       "a: .spec.nodeSelector"},
  };
  return all;
}

TEST(ServerSideApply, BehavesAsDocumented) {
  EXPECT_GE(cases().size(), 40u);
  for (const FieldCase& test : cases()) {
    SCOPED_TRACE(test.name);
    Fields world;
    std::string last;
    for (std::size_t i = 0; i < test.writes.size(); ++i)
      last = world.run(test.writes[i], static_cast<int>(i));
    if (test.outcome.starts_with("conflict") || test.outcome.starts_with("error")) {
      EXPECT_EQ(last, test.outcome);
    } else {
      EXPECT_EQ(last, "");
      EXPECT_EQ(world.object(), test.outcome);
    }
    if (test.owners != "-") {
      EXPECT_EQ(world.owners(), test.owners);
    }
  }
}

TEST(ManagedFields, ManyUpdateManagersAreMergedIntoOne) {
  Fields world;
  for (int i = 0; i < 15; ++i) {
    Json labels = Json::object();
    for (int k = 0; k <= i; ++k) labels.set(fmt::format("l{}", k), "x");
    world.run({"update", fmt::format("m{:02}", i),
               moor::to_text(Json::object({{"metadata", Json::object({{"labels", labels}})}}))},
              i);
  }
  const std::string owners = world.owners();
  EXPECT_THAT(owners, testing::HasSubstr("ancient-changes:"));
  EXPECT_EQ(std::count(owners.begin(), owners.end(), ';'), 9);
}

TEST(ManagedFields, OneWalkFindsThePlacesThatASetFinds) {
  model::Schema root;
  root.type = model::SchemaType::object;
  root.object = pod().schema;
  for (
      const char* text :
      {R"({})", R"({"spec":{}})", R"({"metadata":{"name":"a","labels":{"b":"1","a":"2"},"annotations":{}}})",
       R"({"spec":{"volumes":[{"name":"b"},{"name":"a","emptyDir":{}},{}],"nodeName":"n"},"unknown":[1,{"x":2}]})",
       R"({"metadata":{"finalizers":["z","a"],"ownerReferences":[{"uid":"u","name":"n"}]},"status":{"phase":"x"}})"}) {
    const Json object = *parse_json(text);
    const auto places = places_of(object, &root);
    ASSERT_TRUE(places.has_value()) << text;
    EXPECT_EQ(moor::to_text(*places), moor::to_text(field_set_of(object, *pod().schema).to_json()));
  }
  const Json twice = *parse_json(R"({"metadata":{"finalizers":["a","a"]}})");
  EXPECT_FALSE(places_of(twice, &root).has_value());
}

TEST(ManagedFields, ANewObjectBelongsToItsMakerAlsoWhenAListNamesAnItemTwice) {
  Json once = *parse_json(R"({"metadata":{"name":"a","uid":"u","finalizers":["a"]},"status":{"phase":"x"}})");
  Json twice =
      *parse_json(R"({"metadata":{"name":"a","uid":"u","finalizers":["a","a"]},"status":{"phase":"x"}})");
  for (Json* object : {&once, &twice})
    track_write(pod(), nullptr, *object, {"me", "", "2026-01-01T00:00:00Z"});
  EXPECT_EQ(moor::to_text(*once.find_path({"metadata", "managedFields"})),
            R"([{"manager":"me","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z",)"
            R"("fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:finalizers":{"v:\"a\"":{}}}}}])");
  EXPECT_EQ(*once.find_path({"metadata", "managedFields"}), *twice.find_path({"metadata", "managedFields"}));
}

TEST(FieldSet, RoundTripsThroughFieldsV1) {
  const char* text =
      R"({"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:volumes":{"k:{\"name\":\"v\"}":{".":{},"f:name":{}}}}})";
  const auto set = FieldSet::from_json(*parse_json(text));
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(moor::to_text(set->to_json()), text);
  EXPECT_TRUE(set->contains({"f:metadata", "f:labels"}));
  EXPECT_FALSE(set->contains({"f:metadata"}));
  for (const char* bad : {R"({"x:y":{}})", R"({"f":{}})", R"([])", R"({"k:notjson":{}})", R"({"f:a":1})"})
    EXPECT_TRUE(FieldSet::from_json(*parse_json(bad)).is(Errc::invalid)) << bad;
}

}  // namespace
}  // namespace moor::registry
