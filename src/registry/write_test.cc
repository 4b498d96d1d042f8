// Create, update, patch and apply through the registry.
#include <set>

#include "base/ids.h"
#include "registry/keys.h"
#include "registry/testing/world.h"

namespace moor::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Writes : public World {
 protected:
  Json volume(const std::string& name = "v1") {
    auto created = create(at("volumes.longhorn.io"),
                          R"({"metadata":{"name":")" + name + R"("},"spec":{"size":"1073741824"}})");
    EXPECT_EQ(refusal_text(created), "");
    return created ? created->object : Json();
  }
  static std::int64_t generation(const Json& object) {
    return object.find("metadata")->get_int64("generation").value_or(-1);
  }
  static std::string text(const Json& object, std::initializer_list<std::string_view> path) {
    const Json* found = object.find_path(path);
    return found == nullptr ? "absent" : to_text(*found);
  }
};

TEST_F(Writes, AreAnsweredWithWhatIsStoredEvenIfTheCacheDoesNotShowItYet) {
  volume("v1");
  group_.cancel();  // the cache follows no longer
  EXPECT_TRUE(wait(group_.join()).ok());
  const auto made = create(at("volumes.longhorn.io"), R"({"metadata":{"name":"v2"},"spec":{"size":"4096"}})");
  ASSERT_EQ(refusal_text(made), "");
  EXPECT_EQ(made->stored, nullptr);
  const auto last = [this] { return std::to_string(wait(store_->status())->revision); };
  EXPECT_EQ(metadata_text(made->object, "resourceVersion"), last());
  EXPECT_EQ(text(made->object, {"spec", "size"}), R"("4096")");
  const auto changed = merge(at("volumes.longhorn.io", "v1"), R"({"spec":{"numberOfReplicas":2}})");
  ASSERT_EQ(refusal_text(changed), "");
  EXPECT_EQ(metadata_text(changed->object, "resourceVersion"), last());
  EXPECT_EQ(text(changed->object, {"spec", "numberOfReplicas"}), "2");
}

TEST_F(Writes, ACreatedObjectGetsItsIdentityDefaultsAndOwnership) {
  const Json made = volume();
  EXPECT_TRUE(is_uuid(metadata_text(made, "uid")));
  EXPECT_EQ(metadata_text(made, "creationTimestamp"), registry_.now());
  EXPECT_EQ(metadata_text(made, "resourceVersion"), std::to_string(revision()));
  EXPECT_EQ(metadata_text(made, "namespace"), "longhorn-system");
  EXPECT_EQ(generation(made), 1);
  EXPECT_EQ(text(made, {"spec", "numberOfReplicas"}), "3");
  EXPECT_EQ(text(made, {"apiVersion"}), R"("longhorn.io/v1beta2")");
  EXPECT_THAT(text(made, {"metadata", "managedFields"}), HasSubstr(R"("manager":"tester")"));
  EXPECT_EQ(*get(at("volumes.longhorn.io", "v1")), made);
}

// The cache takes the writer's object over; it must be the one that a restarted server reads.
TEST_F(Writes, WhatTheCacheHoldsIsWhatItsTextSays) {
  volume();
  const auto check = [this](const ResourceName& what) {
    const store::ObjectPtr cached = registry_.cache().get(key_of(*what.kind, what.space, what.name));
    const JsonPtr held = object_of(*cached);
    const auto read = decode_stored(*cached->entry.value, cached->entry.revision);
    EXPECT_EQ(to_text(*held), to_text(*read));
    std::string shown;
    append_stored_text(shown, *cached, cached->entry.revision);
    EXPECT_EQ(*parse_json(shown), *held);
  };
  check(at("volumes.longhorn.io", "v1"));
  ASSERT_TRUE(merge(at("volumes.longhorn.io", "v1"),
                    R"({"metadata":{"labels":{"a":"b"}},"spec":{"numberOfReplicas":2}})")
                  .ok());
  check(at("volumes.longhorn.io", "v1"));
  // A double that is whole is written as an integer, and so it must be read.
  ASSERT_TRUE(
      create(at("pods"), R"({"metadata":{"name":"p"},"spec":{"containers":[],"odd":{"x":2.0}}})").ok());
  check(at("pods", "p"));
}

TEST_F(Writes, CreationIsRefusedInKubernetesWords) {
  volume();
  struct Case {
    ResourceName where;
    const char* object;
    const char* refusal;
  };
  ResourceName elsewhere = at("volumes.longhorn.io");
  elsewhere.space = "nowhere";
  const Case cases[] = {
      {at("volumes.longhorn.io"), R"({"metadata":{"name":"v1"},"spec":{"size":"1"}})",
       R"(AlreadyExists: volumes.longhorn.io "v1" already exists)"},
      {elsewhere, R"({"metadata":{"name":"v2"},"spec":{"size":"1073741824"}})",
       R"(NotFound: namespaces "nowhere" not found)"},
      {at("volumes.longhorn.io"), R"({"spec":{}})",
       "Invalid: Volume.longhorn.io \"\" is invalid: metadata.name: Required value"},
      {at("volumes.longhorn.io"), R"({"metadata":{"name":"Bad_Name"},"spec":{"size":"1073741824"}})",
       "Invalid: Volume.longhorn.io \"Bad_Name\" is invalid: metadata.name"},
      {at("volumes.longhorn.io"), R"({"metadata":{"name":"a/b"},"spec":{"size":"1073741824"}})", "Invalid: "},
      {at("volumes.longhorn.io"), R"({"metadata":{"name":"v2","namespace":"default"}})",
       "BadRequest: the namespace of the provided object"},
      {at("volumes.longhorn.io"), R"({"kind":"Node","metadata":{"name":"v2"}})",
       "BadRequest: the kind in the data"},
      {at("volumes.longhorn.io"), R"({"apiVersion":"v1","metadata":{"name":"v2"}})",
       "BadRequest: the apiVersion in the data"},
      {at("volumes.longhorn.io"), R"({"metadata":{"name":"v2","resourceVersion":"7"}})",
       "BadRequest: resourceVersion should not be set"},
      {at("volumes.longhorn.io"), R"({"metadata":{"name":7}})", "BadRequest: metadata.name must be a string"},
      {at("volumes.longhorn.io"), R"({"metadata":[]})", "BadRequest: metadata must be an object"},
      {at("volumes.longhorn.io"), R"([])", "BadRequest: the request must carry a JSON object"},
      {at("volumes.longhorn.io"),
       R"({"metadata":{"name":"v2"},"spec":{"size":"1073741824","numberOfReplicas":"x"}})",
       "Invalid: Volume.longhorn.io \"v2\" is invalid: spec.numberOfReplicas"},
  };
  const auto before = revision();
  for (const Case& test : cases)
    EXPECT_THAT(refusal_text(create(test.where, test.object)), testing::StartsWith(test.refusal))
        << test.object;
  EXPECT_EQ(revision(), before);  // nothing was written
}

TEST_F(Writes, NestingTooDeepToBeReadAgainIsRefused) {
  std::string deep = R"({"metadata":{"name":"p"},"spec":)";
  for (int i = 0; i < 60; ++i) deep += R"({"x":)";
  deep += "1" + std::string(60, '}') + "}";
  EXPECT_THAT(refusal_text(create(at("pods"), deep)), HasSubstr("nested deeper"));
}

TEST_F(Writes, GenerateNameMakesNewNamesEachTime) {
  std::set<std::string> seen;
  for (int i = 0; i < 20; ++i) {
    const auto made = create(at("leases.coordination.k8s.io"), R"({"metadata":{"generateName":"lease-"}})");
    ASSERT_EQ(refusal_text(made), "");
    const std::string name = metadata_text(made->object, "name");
    EXPECT_THAT(name, testing::MatchesRegex("lease-[a-z0-9]{5}"));
    EXPECT_TRUE(seen.insert(name).second);
  }
}

TEST_F(Writes, UnknownAndDuplicateFieldsFollowFieldValidation) {
  const char* object = R"({"metadata":{"name":"v1"},"spec":{"size":"1073741824","nonsense":1}})";
  WriteOptions strict = by();
  strict.field_validation = FieldValidation::strict;
  strict.duplicate_fields = {"spec.size"};
  EXPECT_EQ(refusal_text(create(at("volumes.longhorn.io"), object, strict)),
            "BadRequest: Volume in version \"v1beta2\" cannot be handled as a Volume: strict decoding error: "
            "unknown field \"spec.nonsense\", duplicate field \"spec.size\"");
  WriteOptions warn = by();
  warn.duplicate_fields = {"spec.size"};
  const auto made = create(at("volumes.longhorn.io"), object, warn);
  ASSERT_EQ(refusal_text(made), "");
  EXPECT_THAT(made->warnings,
              ElementsAre("unknown field \"spec.nonsense\"", "duplicate field \"spec.size\""));
  EXPECT_EQ(text(made->object, {"spec", "nonsense"}), "absent");
  WriteOptions ignore = by();
  ignore.field_validation = FieldValidation::ignore;
  const auto patched = merge(at("volumes.longhorn.io", "v1"), R"({"spec":{"other":1}})", ignore);
  ASSERT_EQ(refusal_text(patched), "");
  EXPECT_THAT(patched->warnings, IsEmpty());
}

TEST_F(Writes, DryRunChecksEverythingAndWritesNothing) {
  WriteOptions dry = by();
  dry.dry_run = true;
  const auto before = revision();
  const auto made =
      create(at("volumes.longhorn.io"), R"({"metadata":{"name":"v1"},"spec":{"size":"1073741824"}})", dry);
  ASSERT_EQ(refusal_text(made), "");
  EXPECT_TRUE(is_uuid(metadata_text(made->object, "uid")));
  EXPECT_THAT(refusal_text(get(at("volumes.longhorn.io", "v1"))), HasSubstr("NotFound"));
  EXPECT_EQ(revision(), before);
  volume();
  EXPECT_THAT(refusal_text(create(at("volumes.longhorn.io"),
                                  R"({"metadata":{"name":"v1"},"spec":{"size":"1073741824"}})", dry)),
              HasSubstr("AlreadyExists"));
  const auto patched = merge(at("volumes.longhorn.io", "v1"), R"({"spec":{"numberOfReplicas":1}})", dry);
  ASSERT_EQ(refusal_text(patched), "");
  EXPECT_EQ(text(patched->object, {"spec", "numberOfReplicas"}), "1");
  DeleteOptions options;
  options.dry_run = true;
  EXPECT_TRUE(remove(at("volumes.longhorn.io", "v1"), options)->gone);
  EXPECT_EQ(text(*get(at("volumes.longhorn.io", "v1")), {"spec", "numberOfReplicas"}), "3");
}

TEST_F(Writes, GenerationCountsChangesOfTheSpecOnly) {
  volume();
  const ResourceName v1 = at("volumes.longhorn.io", "v1");
  EXPECT_EQ(generation(merge(v1, R"({"metadata":{"labels":{"a":"b"}}})")->object), 1);
  EXPECT_EQ(
      generation(
          merge(at("volumes.longhorn.io", "v1", "status"), R"({"status":{"state":"attached"}})")->object),
      1);
  EXPECT_EQ(generation(merge(v1, R"({"spec":{"numberOfReplicas":2}})")->object), 2);
  EXPECT_EQ(generation(merge(v1, R"({"metadata":{"generation":9},"spec":{"numberOfReplicas":2}})")->object),
            2);
}

TEST_F(Writes, AWriteThatChangesNothingHasNoRevision) {
  const Json made = volume();
  const auto before = revision();
  const auto patched = merge(at("volumes.longhorn.io", "v1"), R"({"spec":{"numberOfReplicas":3}})");
  ASSERT_EQ(refusal_text(patched), "");
  EXPECT_EQ(patched->object, made);
  executor_.advance(std::chrono::seconds(5));
  ASSERT_TRUE(wait(registry_.update(at("volumes.longhorn.io", "v1"), made, by("other"))).ok());
  EXPECT_EQ(revision(), before);
}

TEST_F(Writes, StatusIsIsolatedBothWays) {
  Json made = volume();
  const ResourceName v1 = at("volumes.longhorn.io", "v1");
  const ResourceName status = at("volumes.longhorn.io", "v1", "status");
  auto written = merge(
      status,
      R"({"metadata":{"labels":{"x":"y"}},"spec":{"numberOfReplicas":1},"status":{"state":"attached"}})");
  ASSERT_EQ(refusal_text(written), "");
  EXPECT_EQ(text(written->object, {"status", "state"}), R"("attached")");
  EXPECT_EQ(text(written->object, {"spec", "numberOfReplicas"}), "3");
  EXPECT_EQ(text(written->object, {"metadata", "labels"}), "absent");
  written = merge(v1, R"({"spec":{"numberOfReplicas":1},"status":{"state":"detached"}})");
  EXPECT_EQ(text(written->object, {"status", "state"}), R"("attached")");
  EXPECT_EQ(text(written->object, {"spec", "numberOfReplicas"}), "1");
  // A replace without status does not take it away, and a new object does not bring one.
  made["metadata"].erase("resourceVersion");
  made.erase("status");
  EXPECT_EQ(text(wait(registry_.update(v1, made, by()))->object, {"status", "state"}), R"("attached")");
  const auto second =
      create(at("volumes.longhorn.io"),
             R"({"metadata":{"name":"v2"},"spec":{"size":"1073741824"},"status":{"state":"attached"}})");
  EXPECT_EQ(text(second->object, {"status", "state"}), "absent");
  // Kinds without the subresource have none.
  lease("l1");
  EXPECT_THAT(refusal_text(merge(at("leases.coordination.k8s.io", "l1", "status"), "{}")),
              HasSubstr("NotFound"));
}

TEST_F(Writes, UpdatesAreConditionedOnTheResourceVersionTheyName) {
  Json made = volume();
  const ResourceName v1 = at("volumes.longhorn.io", "v1");
  ASSERT_TRUE(merge(v1, R"({"metadata":{"labels":{"a":"1"}}})").ok());
  made["metadata"]["labels"] = Json::object({{"b", "2"}});
  EXPECT_EQ(refusal_text(wait(registry_.update(v1, made, by()))),
            "Conflict: Operation cannot be fulfilled on volumes.longhorn.io \"v1\": the object has been "
            "modified; please apply your changes to the latest version and try again");
  EXPECT_THAT(refusal_text(merge(v1, R"({"metadata":{"resourceVersion":"1","labels":{"c":"3"}}})")),
              HasSubstr("Conflict"));
  EXPECT_THAT(refusal_text(merge(v1, R"({"metadata":{"uid":"another"}})")), HasSubstr("Conflict"));
  made["metadata"].erase("resourceVersion");
  EXPECT_EQ(refusal_text(wait(registry_.update(v1, made, by()))), "");  // unconditional
  EXPECT_EQ(text(*get(v1), {"metadata", "labels"}), R"({"b":"2"})");
  EXPECT_THAT(refusal_text(wait(registry_.update(at("volumes.longhorn.io", "v9"), json("{}"), by()))),
              HasSubstr("NotFound"));
}

TEST_F(Writes, WhatTheServerSetsCannotBeChanged) {
  const Json made = volume();
  const auto written = merge(
      at("volumes.longhorn.io", "v1"),
      R"({"metadata":{"creationTimestamp":"2001-01-01T00:00:00Z","deletionTimestamp":"2001-01-01T00:00:00Z","labels":{"a":"b"}}})");
  ASSERT_EQ(refusal_text(written), "");
  EXPECT_EQ(metadata_text(written->object, "creationTimestamp"), metadata_text(made, "creationTimestamp"));
  EXPECT_EQ(metadata_text(written->object, "deletionTimestamp"), "");
  EXPECT_EQ(metadata_text(written->object, "uid"), metadata_text(made, "uid"));
  EXPECT_THAT(refusal_text(merge(at("volumes.longhorn.io", "v1"), R"({"metadata":{"name":"v2"}})")),
              HasSubstr("BadRequest"));
  EXPECT_THAT(refusal_text(merge(at("volumes.longhorn.io", "v1"), R"({"spec":{"backingImage":"other"}})")),
              HasSubstr("Invalid"));
}

TEST_F(Writes, TheFourPatchTypesEachDoTheirOwn) {
  volume();
  const ResourceName v1 = at("volumes.longhorn.io", "v1");
  auto patched = wait(registry_.patch(
      v1, PatchType::json, json(R"([{"op":"replace","path":"/spec/numberOfReplicas","value":1}])"), by()));
  ASSERT_EQ(refusal_text(patched), "");
  EXPECT_EQ(text(patched->object, {"spec", "numberOfReplicas"}), "1");
  patched = wait(registry_.patch(v1, PatchType::json,
                                 json(R"([{"op":"test","path":"/spec/numberOfReplicas","value":5}])"), by()));
  EXPECT_THAT(refusal_text(patched), HasSubstr("Invalid: volumes.longhorn.io \"v1\" cannot be patched"));
  EXPECT_THAT(refusal_text(wait(registry_.patch(v1, PatchType::strategic, json("{}"), by()))),
              HasSubstr("UnsupportedMediaType"));
  EXPECT_THAT(refusal_text(merge(v1, "[]")), HasSubstr("BadRequest"));
  ASSERT_EQ(refusal_text(create(
                at("pods"), R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"i"}]}})")),
            "");
  patched = wait(registry_.patch(at("pods", "p"), PatchType::strategic,
                                 json(R"({"spec":{"containers":[{"name":"a","image":"j"}]}})"), by()));
  ASSERT_EQ(refusal_text(patched), "");
  EXPECT_THAT(text(patched->object, {"spec", "containers"}), HasSubstr(R"("image":"j")"));
}

TEST_F(Writes, ApplyCreatesSharesConflictsAndForces) {
  const ResourceName v1 = at("volumes.longhorn.io", "v1");
  const char* config =
      R"({"apiVersion":"longhorn.io/v1beta2","kind":"Volume","spec":{"size":"1073741824","numberOfReplicas":2}})";
  auto applied = apply(v1, config, by("a"));
  ASSERT_EQ(refusal_text(applied), "");
  EXPECT_TRUE(applied->created);
  const auto before = revision();
  applied = apply(v1, config, by("a"));
  EXPECT_FALSE(applied->created);
  EXPECT_EQ(revision(), before);
  const char* other = R"({"apiVersion":"longhorn.io/v1beta2","kind":"Volume","spec":{"numberOfReplicas":1}})";
  const auto refused = apply(v1, other, by("b"));
  EXPECT_EQ(refusal_text(refused),
            "Conflict: Apply failed with 1 conflict: conflict with \"a\": .spec.numberOfReplicas");
  ASSERT_EQ(refused.error().causes.size(), 1u);
  EXPECT_EQ(refused.error().causes[0].reason, "FieldManagerConflict");
  EXPECT_EQ(refused.error().causes[0].message, "conflict with \"a\"");
  EXPECT_EQ(refused.error().causes[0].field, ".spec.numberOfReplicas");
  WriteOptions force = by("b");
  force.force = true;
  EXPECT_EQ(text(apply(v1, other, force)->object, {"spec", "numberOfReplicas"}), "1");
  ASSERT_TRUE(merge(v1, R"({"spec":{"numberOfReplicas":4}})", by("c")).ok());
  EXPECT_EQ(refusal_text(apply(v1, other, by("b"))),
            "Conflict: Apply failed with 1 conflict: conflict with \"c\" using longhorn.io/v1beta2 at " +
                registry_.now() + ": .spec.numberOfReplicas");
  EXPECT_THAT(refusal_text(apply(v1, R"({"spec":{}})")), HasSubstr("BadRequest"));
  EXPECT_THAT(refusal_text(apply(v1, config, by(""))), HasSubstr("fieldManager"));
}

TEST_F(Writes, ApplyMakesNoNewObjectForOneThatIsGone) {
  for (const char* meant : {R"("uid":"8e2f1c1a-0000-4000-8000-000000000000")", R"("resourceVersion":"7")"}) {
    const auto refused = apply(
        at("leases.coordination.k8s.io", "gone"),
        fmt::format(
            R"({{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"gone",{}}}}})",
            meant));
    EXPECT_TRUE(refused.is(Errc::conflict)) << meant;
    EXPECT_THAT(refusal_text(refused), HasSubstr("no existing object was found"));
  }
  EXPECT_THAT(refusal_text(get(at("leases.coordination.k8s.io", "gone"))), HasSubstr("NotFound"));
}

TEST_F(Writes, ApplyGivesUpWhatItNoLongerNames) {
  const ResourceName v1 = at("volumes.longhorn.io", "v1");
  const std::string head =
      R"({"apiVersion":"longhorn.io/v1beta2","kind":"Volume","spec":{"size":"1073741824"},"metadata":{"labels":)";
  ASSERT_TRUE(apply(v1, head + R"({"x":"1","y":"2"}}})").ok());
  const auto applied = apply(v1, head + R"({"y":"2"}}})");
  ASSERT_EQ(refusal_text(applied), "");
  EXPECT_EQ(text(applied->object, {"metadata", "labels"}), R"({"y":"2"})");
  EXPECT_EQ(text(applied->object, {"spec", "numberOfReplicas"}), "3");  // a default is nobody's
}

TEST_F(Writes, ApplyToStatusReachesStatusOnly) {
  volume();
  const ResourceName status = at("volumes.longhorn.io", "v1", "status");
  const auto applied = apply(
      status,
      R"({"apiVersion":"longhorn.io/v1beta2","kind":"Volume","spec":{"numberOfReplicas":1},"status":{"state":"attached"}})",
      by("k"));
  ASSERT_EQ(refusal_text(applied), "");
  EXPECT_EQ(text(applied->object, {"spec", "numberOfReplicas"}), "3");
  EXPECT_EQ(text(applied->object, {"status", "state"}), R"("attached")");
  EXPECT_THAT(text(applied->object, {"metadata", "managedFields"}), HasSubstr(R"("subresource":"status")"));
  EXPECT_THAT(refusal_text(apply(at("volumes.longhorn.io", "none", "status"),
                                 R"({"apiVersion":"longhorn.io/v1beta2","kind":"Volume"})")),
              HasSubstr("NotFound"));
}

TEST_F(Writes, AnObjectOfMoreThanOneMebibyteIsTooLarge) {
  Json lots = Json::object(
      {{"metadata", Json::object({{"name", "p"}})},
       {"spec", Json::object(
                    {{"containers", Json::array({Json::object(
                                        {{"name", "c"}, {"image", std::string((1u << 20) + 1, 'x')}})})}})}});
  const auto refused = wait(registry_.create(at("pods"), lots, by()));
  EXPECT_THAT(refusal_text(refused).substr(0, 100), HasSubstr("RequestEntityTooLarge"));
}

TEST_F(Writes, ForeignWritesAreSeenBeforeARefusalIsGiven) {
  // Another server on the same store: our cache hears of it later.
  LocalRegistry other(executor_, *store_, random_);
  TaskGroup group(executor_);
  group.spawn(other.run(group.token()));
  ASSERT_TRUE(wait(other.create(at("volumes.longhorn.io"),
                                json(R"({"metadata":{"name":"v1"},"spec":{"size":"1073741824"}})"), by()))
                  .ok());
  EXPECT_EQ(refusal_text(merge(at("volumes.longhorn.io", "v1"), R"({"metadata":{"labels":{"a":"b"}}})")), "");
  EXPECT_TRUE(wait(other.remove(at("volumes.longhorn.io", "v1"), {})).ok());
  EXPECT_THAT(refusal_text(merge(at("volumes.longhorn.io", "v1"), "{}")), HasSubstr("NotFound"));
  group.cancel();
  EXPECT_TRUE(wait(group.join()).ok());
}

}  // namespace
}  // namespace moor::registry
