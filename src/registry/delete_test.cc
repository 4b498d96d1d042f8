// Deletion: finalizers, dependents, namespaces.
#include <fmt/format.h>

#include "registry/gc.h"
#include "registry/testing/world.h"

namespace moor::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Deletion : public World {
 protected:
  Deletion() {
    group_.spawn(collector_.run(group_.token()));
    group_.spawn(keeper_.run(group_.token()));
  }
  void settle() { executor_.advance(std::chrono::seconds(2)); }
  std::vector<std::string> leases() { return names(at(kLeases)); }

  // A lease owned by others: "a" or "a!" (blocks the owner's deletion).
  Json owned(const std::string& name, const std::vector<std::pair<Json, bool>>& owners,
             const char* finalizers = "[]") {
    Json references = Json::array();
    for (const auto& [owner, blocks] : owners) {
      Json reference = Json::object({{"apiVersion", *owner.find("apiVersion")},
                                     {"kind", *owner.find("kind")},
                                     {"name", metadata_text(owner, "name")},
                                     {"uid", metadata_text(owner, "uid")}});
      if (blocks) reference.set("blockOwnerDeletion", true);
      references.push_back(std::move(reference));
    }
    return lease(name, fmt::format(R"({{"metadata":{{"ownerReferences":{},"finalizers":{}}}}})",
                                   to_text(references), finalizers));
  }
  static DeleteOptions with(Propagation propagation) {
    DeleteOptions options;
    options.propagation = propagation;
    return options;
  }

  GarbageCollector collector_{registry_};
  NamespaceKeeper keeper_{registry_};
};

TEST_F(Deletion, WithoutFinalizersAnObjectGoesAtOnce) {
  lease("a");
  const auto deleted = remove(at(kLeases, "a"));
  ASSERT_EQ(refusal_text(deleted), "");
  EXPECT_TRUE(deleted->gone);
  EXPECT_EQ(metadata_text(deleted->object, "name"), "a");
  EXPECT_THAT(refusal_text(get(at(kLeases, "a"))), HasSubstr("NotFound"));
  EXPECT_THAT(refusal_text(remove(at(kLeases, "a"))), HasSubstr("NotFound"));
}

TEST_F(Deletion, FinalizersHoldTheObjectUntilTheLastIsRemoved) {
  lease("a", R"({"metadata":{"finalizers":["x/1","x/2"]}})");
  auto deleted = remove(at(kLeases, "a"));
  ASSERT_EQ(refusal_text(deleted), "");
  EXPECT_FALSE(deleted->gone);
  EXPECT_EQ(metadata_text(deleted->object, "deletionTimestamp"), registry_.now());
  const auto held = revision();
  EXPECT_FALSE(remove(at(kLeases, "a"))->gone);
  EXPECT_EQ(revision(), held);  // asking twice changes nothing
  EXPECT_THAT(refusal_text(merge(at(kLeases, "a"), R"({"metadata":{"finalizers":["x/1","x/2","x/3"]}})")),
              HasSubstr("no new finalizer"));
  EXPECT_EQ(refusal_text(merge(at(kLeases, "a"), R"({"metadata":{"finalizers":["x/2"]}})")), "");
  EXPECT_EQ(refusal_text(get(at(kLeases, "a"))), "");
  const auto before = revision();
  EXPECT_EQ(refusal_text(merge(at(kLeases, "a"), R"({"metadata":{"finalizers":null}})")), "");
  EXPECT_THAT(refusal_text(get(at(kLeases, "a"))), HasSubstr("NotFound"));
  EXPECT_EQ(revision(), before + 1);  // in the same write
}

TEST_F(Deletion, PreconditionsMustHold) {
  const Json made = lease("a");
  DeleteOptions options;
  options.uid = "another";
  EXPECT_THAT(refusal_text(remove(at(kLeases, "a"), options)),
              HasSubstr("Conflict: Operation cannot be fulfilled on leases.coordination.k8s.io \"a\": "
                        "Precondition failed: UID in precondition: another"));
  options.uid = metadata_text(made, "uid");
  options.resource_version = "1";
  EXPECT_THAT(refusal_text(remove(at(kLeases, "a"), options)), HasSubstr("Conflict"));
  options.resource_version = metadata_text(made, "resourceVersion");
  EXPECT_TRUE(remove(at(kLeases, "a"), options)->gone);
}

TEST_F(Deletion, OnlyPodsOnANodeGetTimeToEnd) {
  ASSERT_TRUE(
      create(at("pods"),
             R"({"metadata":{"name":"p"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}})")
          .ok());
  DeleteOptions options;
  options.grace_period_seconds = 30;
  const auto deleted = remove(at("pods", "p"), options);
  ASSERT_EQ(refusal_text(deleted), "");
  EXPECT_FALSE(deleted->gone);
  EXPECT_EQ(deleted->object.find("metadata")->get_int64("deletionGracePeriodSeconds"), 30);
  EXPECT_GT(metadata_text(deleted->object, "deletionTimestamp"), registry_.now());
  options.grace_period_seconds = 0;
  EXPECT_TRUE(remove(at("pods", "p"), options)->gone);
  lease("a");
  options.grace_period_seconds = 30;
  EXPECT_TRUE(remove(at(kLeases, "a"), options)->gone);
}

TEST_F(Deletion, ACollectionGoesBySelector) {
  lease("a", R"({"metadata":{"labels":{"app":"x"}}})");
  lease("b", R"({"metadata":{"labels":{"app":"x"},"finalizers":["x/1"]}})");
  lease("c");
  ListOptions which;
  which.labels = *LabelSelector::parse("app=x");
  const auto removed = wait(registry_.remove_collection(at(kLeases), which, {}));
  ASSERT_EQ(refusal_text(removed), "");
  EXPECT_EQ(removed->items.size(), 2u);
  EXPECT_THAT(leases(), ElementsAre("b", "c"));
}

TEST_F(Deletion, DependentsFollowTheirOwnerInTheBackground) {
  const Json owner = lease("owner");
  const Json child = owned("child", {{owner, false}});
  owned("grandchild", {{child, true}});
  lease("stranger");
  EXPECT_TRUE(remove(at(kLeases, "owner"), with(Propagation::background))->gone);
  settle();
  EXPECT_THAT(leases(), ElementsAre("stranger"));
}

TEST_F(Deletion, AnObjectWhoseOwnerNeverWasGoesToo) {
  Json ghost = lease("owner");
  ghost["metadata"].set("uid", "11111111-1111-4111-8111-111111111111");
  owned("child", {{ghost, false}});  // the name is right, the uid is not
  settle();
  EXPECT_THAT(leases(), ElementsAre("owner"));
}

TEST_F(Deletion, WithAnotherOwnerAliveADependentStays) {
  const Json one = lease("one");
  const Json two = lease("two");
  owned("child", {{one, true}, {two, false}});
  ASSERT_TRUE(remove(at(kLeases, "one")).ok());
  settle();
  EXPECT_THAT(leases(), ElementsAre("child", "two"));
  const Json child = *get(at(kLeases, "child"));
  ASSERT_EQ(child.find_path({"metadata", "ownerReferences"})->size(), 1u);
  EXPECT_EQ(child.find_path({"metadata", "ownerReferences"})->at(0).get_string("name"), "two");
}

TEST_F(Deletion, ForegroundWaitsForWhoeverBlocks) {
  const Json owner = lease("owner");
  owned("blocker", {{owner, true}}, R"(["x/1"])");
  owned("bystander", {{owner, false}}, R"(["x/1"])");
  const auto deleted = remove(at(kLeases, "owner"), with(Propagation::foreground));
  EXPECT_FALSE(deleted->gone);
  EXPECT_EQ(to_text(*deleted->object.find_path({"metadata", "finalizers"})), R"(["foregroundDeletion"])");
  settle();
  EXPECT_THAT(leases(), ElementsAre("blocker", "bystander", "owner"));
  EXPECT_NE(metadata_text(*get(at(kLeases, "blocker")), "deletionTimestamp"), "");
  EXPECT_EQ(metadata_text(*get(at(kLeases, "bystander")), "deletionTimestamp"), "");
  ASSERT_TRUE(merge(at(kLeases, "blocker"), R"({"metadata":{"finalizers":null}})").ok());
  settle();
  EXPECT_THAT(leases(), ElementsAre("bystander"));  // its owner is gone now, so it is on its way
  EXPECT_NE(metadata_text(*get(at(kLeases, "bystander")), "deletionTimestamp"), "");
}

TEST_F(Deletion, ForegroundGoesThroughAllGenerations) {
  const Json owner = lease("owner");
  const Json child = owned("child", {{owner, true}});
  const Json grandchild = owned("grandchild", {{child, true}});
  owned("last", {{grandchild, true}});
  ASSERT_TRUE(remove(at(kLeases, "owner"), with(Propagation::foreground)).ok());
  settle();
  EXPECT_THAT(leases(), IsEmpty());
}

TEST_F(Deletion, ForegroundEndsAlsoWhereObjectsOwnEachOther) {
  for (const int length : {1, 2, 3, 5}) {
    std::vector<Json> circle;
    for (int i = 0; i < length; ++i) circle.push_back(lease(fmt::format("l{}", i)));
    for (std::size_t i = 0; i < circle.size(); ++i) {
      const Json& owner = circle[(i + 1) % circle.size()];
      const Json reference = Json::object({{"apiVersion", "coordination.k8s.io/v1"},
                                           {"kind", "Lease"},
                                           {"name", metadata_text(owner, "name")},
                                           {"uid", metadata_text(owner, "uid")},
                                           {"blockOwnerDeletion", true}});
      const Json patch =
          Json::object({{"metadata", Json::object({{"ownerReferences", Json::array({reference})}})}});
      ASSERT_TRUE(merge(at(kLeases, fmt::format("l{}", i)), to_text(patch)).ok());
    }
    settle();
    ASSERT_EQ(leases().size(), circle.size());
    // All at once, too: then each waits for the next from the beginning.
    for (int i = 0; i < (length == 5 ? length : 1); ++i)
      ASSERT_TRUE(remove(at(kLeases, fmt::format("l{}", i)), with(Propagation::foreground)).ok());
    settle();
    EXPECT_THAT(leases(), IsEmpty()) << length;
  }
}

TEST_F(Deletion, ACircleStillWaitsForWhoeverHasAFinalizer) {
  const Json owner = lease("owner");
  const Json child = owned("child", {{owner, true}}, R"(["x/1"])");
  ASSERT_TRUE(remove(at(kLeases, "owner"), with(Propagation::foreground)).ok());
  settle();
  EXPECT_THAT(leases(), ElementsAre("child", "owner"));
  ASSERT_TRUE(merge(at(kLeases, "child"), R"({"metadata":{"finalizers":null}})").ok());
  settle();
  EXPECT_THAT(leases(), IsEmpty());
}

TEST_F(Deletion, CountsAsAGeneration) {
  const ResourceName held = at("volumes.longhorn.io", "held");
  const auto made =
      create(at("volumes.longhorn.io"),
             R"({"metadata":{"name":"held","finalizers":["x/1"]},"spec":{"size":"1073741824"}})");
  ASSERT_EQ(refusal_text(made), "");
  EXPECT_EQ(made->object.find("metadata")->get_int64("generation"), 1);
  EXPECT_EQ(remove(held)->object.find("metadata")->get_int64("generation"), 2);
  EXPECT_EQ(remove(held)->object.find("metadata")->get_int64("generation"), 2);  // only the first time
}

TEST_F(Deletion, OrphansStayAndForgetTheirOwner) {
  const Json owner = lease("owner");
  owned("child", {{owner, true}});
  EXPECT_FALSE(remove(at(kLeases, "owner"), with(Propagation::orphan))->gone);
  settle();
  EXPECT_THAT(leases(), ElementsAre("child"));
  EXPECT_EQ(get(at(kLeases, "child"))->find_path({"metadata", "ownerReferences"}), nullptr);
}

TEST_F(Deletion, OwnersOfUnknownKindsAreLeftAlone) {
  lease(
      "child",
      R"({"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"d","uid":"u"}]}})");
  settle();
  EXPECT_THAT(leases(), ElementsAre("child"));
}

TEST_F(Deletion, AThousandDependentsGoWithTheirOwner) {
  const Json owner = lease("owner");
  for (int i = 0; i < 1000; ++i) owned(fmt::format("c{}", i), {{owner, i % 2 == 0}});
  ASSERT_TRUE(remove(at(kLeases, "owner"), with(Propagation::foreground)).ok());
  executor_.advance(std::chrono::seconds(60));
  EXPECT_THAT(leases(), IsEmpty());
}

class Namespaces : public Deletion {
 protected:
  ResourceName in(const char* resource, const std::string& name = {}) {
    ResourceName where = at(resource, name);
    where.space = "team";
    return where;
  }
};

TEST_F(Namespaces, AreActiveAndHeldByTheirFinalizer) {
  const auto made = create(at("namespaces"), R"({"metadata":{"name":"team"}})");
  ASSERT_EQ(refusal_text(made), "");
  EXPECT_EQ(to_text(*made->object.find("status")), R"({"phase":"Active"})");
  EXPECT_EQ(to_text(*made->object.find_path({"spec", "finalizers"})), R"(["kubernetes"])");
  EXPECT_THAT(names(at("namespaces")),
              ElementsAre("default", "kube-system", "longhorn-system", "mooring-node-lease", "team"));
  EXPECT_THAT(refusal_text(remove(at("namespaces", "default"))),
              HasSubstr("this namespace may not be deleted"));
}

TEST_F(Namespaces, AreEmptiedBeforeTheyGo) {
  ASSERT_TRUE(create(at("namespaces"), R"({"metadata":{"name":"team"}})").ok());
  for (int i = 0; i < 450; ++i)
    ASSERT_TRUE(create(in(kLeases), fmt::format(R"({{"metadata":{{"name":"l{}"}}}})", i)).ok());
  ASSERT_TRUE(create(in("secrets"), R"({"metadata":{"name":"held","finalizers":["x/1"]}})").ok());
  const auto deleted = remove(at("namespaces", "team"));
  ASSERT_EQ(refusal_text(deleted), "");
  EXPECT_FALSE(deleted->gone);
  EXPECT_EQ(deleted->object.find("status")->get_string("phase"), "Terminating");
  const auto refused = create(in(kLeases), R"({"metadata":{"name":"late"}})");
  EXPECT_THAT(refusal_text(refused),
              HasSubstr("Forbidden: leases.coordination.k8s.io \"late\" is forbidden: unable to create new "
                        "content in namespace team because it is being terminated"));
  EXPECT_EQ(refused.error().causes.at(0).reason, "NamespaceTerminating");
  settle();
  EXPECT_THAT(names(in(kLeases)), IsEmpty());
  EXPECT_EQ(refusal_text(get(at("namespaces", "team"))), "");
  ASSERT_TRUE(merge(in("secrets", "held"), R"({"metadata":{"finalizers":null}})").ok());
  settle();
  EXPECT_THAT(refusal_text(get(at("namespaces", "team"))), HasSubstr("NotFound"));
}

TEST_F(Namespaces, SpecFinalizersChangeOnlyThroughFinalize) {
  ASSERT_TRUE(create(at("namespaces"), R"({"metadata":{"name":"team"}})").ok());
  auto written =
      merge(at("namespaces", "team"), R"({"spec":{"finalizers":[]},"metadata":{"labels":{"a":"b"}}})");
  ASSERT_EQ(refusal_text(written), "");
  EXPECT_EQ(to_text(*written->object.find_path({"spec", "finalizers"})), R"(["kubernetes"])");
  written = wait(registry_.update(at("namespaces", "team", "finalize"),
                                  json(R"({"metadata":{"name":"team"},"spec":{"finalizers":[]}})"), by()));
  ASSERT_EQ(refusal_text(written), "");
  EXPECT_TRUE(remove(at("namespaces", "team"))->gone);
}

}  // namespace
}  // namespace moor::registry
