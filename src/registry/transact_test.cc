// Several writes at once: all or nothing, each as if it came alone.
#include <gmock/gmock.h>

#include "registry/testing/world.h"

namespace moor::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kVolumes = "volumes.longhorn.io";

class Transactions : public World {
 protected:
  static Mutation creation(std::string_view resource, std::string_view text) {
    return {Mutation::Type::create, at(resource), json(text), ""};
  }
  static Mutation change(std::string_view resource, const Json& object, std::string_view sub = {}) {
    return {Mutation::Type::update, at(resource, metadata_text(object, "name"), sub), object, ""};
  }
  Answer<std::vector<Json>> transact(std::vector<Mutation> mutations, std::vector<Guard> guards = {}) {
    return wait(registry_.transact(std::move(mutations), std::move(guards), by()));
  }
  Json volume(std::string_view name) {
    auto made = create(
        at(kVolumes), R"({"metadata":{"name":")" + std::string(name) + R"("},"spec":{"size":"1073741824"}})");
    EXPECT_TRUE(made.ok()) << refusal_text(made);
    return made ? made->object : Json();
  }
};

TEST_F(Transactions, ObjectsComeIntoBeingTogetherEachWithAVersionOfItsOwn) {
  const store::Revision before = revision();
  const auto done = transact(
      {creation(kLeases, R"({"metadata":{"name":"a"}})"), creation(kLeases, R"({"metadata":{"name":"b"}})")});
  ASSERT_TRUE(done.ok()) << refusal_text(done);
  EXPECT_EQ(metadata_text((*done)[0], "resourceVersion"), std::to_string(before + 1));
  EXPECT_EQ(metadata_text((*done)[1], "resourceVersion"), std::to_string(before + 2));
  EXPECT_EQ(*get(at(kLeases, "b")), (*done)[1]);
  EXPECT_NE(metadata_text((*done)[1], "uid"), "");
}

TEST_F(Transactions, NothingHappensWhenOneObjectHasChanged) {
  const Json first = lease("a");
  const Json second = lease("b");
  ASSERT_TRUE(merge(at(kLeases, "b"), R"({"spec":{"holderIdentity":"somebody"}})").ok());
  Json changed_first = first;
  changed_first["spec"] = json(R"({"holderIdentity":"me"})");
  Json changed_second = second;
  changed_second["spec"] = json(R"({"holderIdentity":"me"})");
  const store::Revision before = revision();
  const auto done = transact({change(kLeases, changed_first), change(kLeases, changed_second)});
  EXPECT_TRUE(done.is(Errc::conflict)) << refusal_text(done);
  EXPECT_EQ(revision(), before);
  EXPECT_EQ(*get(at(kLeases, "a")), first);
}

TEST_F(Transactions, AGuardMustBeAtItsVersionOrAbsent) {
  const Json held = lease("guard");
  const std::string version = metadata_text(held, "resourceVersion");
  const Guard guard{at(kLeases, "guard"), version};
  const Guard absent{at(kLeases, "nobody"), ""};
  EXPECT_TRUE(transact({creation(kLeases, R"({"metadata":{"name":"a"}})")}, {guard, absent}).ok());
  ASSERT_TRUE(merge(at(kLeases, "guard"), R"({"spec":{"holderIdentity":"other"}})").ok());
  EXPECT_TRUE(transact({creation(kLeases, R"({"metadata":{"name":"b"}})")}, {guard}).is(Errc::conflict));
  lease("nobody");
  EXPECT_TRUE(transact({creation(kLeases, R"({"metadata":{"name":"b"}})")}, {absent}).is(Errc::conflict));
  EXPECT_TRUE(get(at(kLeases, "b")).is(Errc::not_found));
}

TEST_F(Transactions, AnExistingObjectIsNotCreatedAgain) {
  lease("a");
  const auto done = transact(
      {creation(kLeases, R"({"metadata":{"name":"b"}})"), creation(kLeases, R"({"metadata":{"name":"a"}})")});
  EXPECT_TRUE(done.is(Errc::conflict));
  EXPECT_TRUE(get(at(kLeases, "b")).is(Errc::not_found));
}

TEST_F(Transactions, StatusAndTheRestStayIsolatedAndGenerationCountsAsUsual) {
  Json one = volume("v1");
  Json other = volume("v2");
  one["status"] = json(R"({"state":"attached"})");
  one["spec"].set("numberOfReplicas", 5);  // not this door's business
  other["spec"].set("numberOfReplicas", 2);
  other["status"] = json(R"({"state":"attached"})");
  const auto done = transact({change(kVolumes, one, "status"), change(kVolumes, other)});
  ASSERT_TRUE(done.ok()) << refusal_text(done);
  const Json status = *get(at(kVolumes, "v1"));
  EXPECT_EQ(status.find_path({"status", "state"})->as_string(), "attached");
  EXPECT_EQ(status.find_path({"spec", "numberOfReplicas"})->to_int64(), 3);
  EXPECT_EQ(status.find_path({"metadata", "generation"})->to_int64(), 1);
  const Json spec = *get(at(kVolumes, "v2"));
  EXPECT_EQ(spec.find_path({"spec", "numberOfReplicas"})->to_int64(), 2);
  EXPECT_EQ(spec.find_path({"metadata", "generation"})->to_int64(), 2);
  EXPECT_EQ(spec.find_path({"status", "state"}), nullptr);
}

TEST_F(Transactions, SpecAndStatusOfOneObjectAreOneWriteAsIfTheyCameOneAfterTheOther) {
  const Json v = volume("v");
  Json spec = v;
  spec["spec"].set("nodeID", "node-1");
  Json status = v;
  status["status"] = json(R"({"state":"attaching"})");
  const store::Revision before = revision();
  const auto done = transact({change(kVolumes, spec), change(kVolumes, status, "status")});
  ASSERT_TRUE(done.ok()) << refusal_text(done);
  EXPECT_EQ(revision(), before + 1);
  const Json now = *get(at(kVolumes, "v"));
  EXPECT_EQ((*done)[0], now);
  EXPECT_EQ((*done)[1], now);
  EXPECT_EQ(*now.find_path({"spec", "nodeID"}), Json("node-1"));
  EXPECT_EQ(*now.find_path({"status", "state"}), Json("attaching"));
  EXPECT_EQ(*now.find_path({"metadata", "generation"}), Json(2));
  // Each with an owner of its own, as two writes would have left it.
  const std::string owners = to_text(*now.find_path({"metadata", "managedFields"}));
  EXPECT_THAT(owners, HasSubstr(R"("f:nodeID")"));
  EXPECT_THAT(owners, HasSubstr(R"("fieldsV1":{"f:status":{"f:state":{}}},"subresource":"status")"));
  // The same part twice is no sequence, and a stale version is a conflict for both.
  Json again = now;
  again["spec"].set("nodeID", "node-2");
  EXPECT_FALSE(transact({change(kVolumes, again), change(kVolumes, again)}).ok());
  EXPECT_TRUE(transact({change(kVolumes, spec), change(kVolumes, status, "status")}).is(Errc::conflict));
  EXPECT_EQ(*get(at(kVolumes, "v")), now);
}

TEST_F(Transactions, ValidationRefusesTheWholeWithItsCauses) {
  Json bad = volume("v1");
  bad["spec"].set("size", "1");  // a volume only grows
  const auto done = transact({creation(kLeases, R"({"metadata":{"name":"a"}})"), change(kVolumes, bad)});
  EXPECT_THAT(refusal_text(done), HasSubstr("spec.size"));
  EXPECT_TRUE(get(at(kLeases, "a")).is(Errc::not_found));
}

TEST_F(Transactions, RemovalsTakePartAndWaitForFinalizers) {
  const Json plain = lease("plain");
  const Json held = lease("held", R"({"metadata":{"finalizers":["longhorn.io"]}})");
  const auto removal = [](const Json& object) {
    return Mutation{Mutation::Type::remove,
                    at(kLeases, metadata_text(object, "name")),
                    {},
                    metadata_text(object, "resourceVersion")};
  };
  const auto done = transact({removal(plain), removal(held)});
  ASSERT_TRUE(done.ok()) << refusal_text(done);
  EXPECT_TRUE(get(at(kLeases, "plain")).is(Errc::not_found));
  EXPECT_NE(metadata_text(*get(at(kLeases, "held")), "deletionTimestamp"), "");
  // Taking the last finalizer off ends it, in a transaction as elsewhere.
  Json freed = *get(at(kLeases, "held"));
  freed["metadata"].erase("finalizers");
  ASSERT_TRUE(transact({change(kLeases, freed)}).ok());
  EXPECT_TRUE(get(at(kLeases, "held")).is(Errc::not_found));
}

TEST_F(Transactions, AnUnchangedObjectIsNotWrittenButStillGuards) {
  const Json same = lease("same");
  const store::Revision before = revision();
  ASSERT_TRUE(transact({change(kLeases, same), creation(kLeases, R"({"metadata":{"name":"a"}})")}).ok());
  EXPECT_EQ(revision(), before + 1);
  EXPECT_TRUE(transact({change(kLeases, same)}).ok());
  EXPECT_EQ(revision(), before + 1);
}

TEST_F(Transactions, WithoutAVersionOrWithOneObjectTwiceTheRequestIsRefused) {
  Json object = lease("a");
  const Json whole = object;
  object["metadata"].erase("resourceVersion");
  EXPECT_THAT(refusal_text(transact({change(kLeases, object)})), HasSubstr("names no resourceVersion"));
  const Mutation removal{Mutation::Type::remove, at(kLeases, "a"), {}, ""};
  EXPECT_THAT(refusal_text(transact({removal})), HasSubstr("names no resourceVersion"));
  Json first = whole;
  first["spec"] = json(R"({"holderIdentity":"me"})");
  EXPECT_THAT(refusal_text(transact({change(kLeases, first), change(kLeases, first)})),
              HasSubstr("written twice"));
  EXPECT_EQ(*get(at(kLeases, "a")), whole);
}

}  // namespace
}  // namespace moor::registry
