// Hooks of later floors, the limits of nodes, events.
#include <fmt/format.h>

#include "registry/events.h"
#include "registry/refusal.h"
#include "registry/testing/world.h"

namespace moor::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Marks what it lets through and refuses what it is told to.
class Marker final : public Admission {
 public:
  bool handles(const model::KindInfo& kind) const override { return kind.kind == "Lease"; }
  Answer<void> mutate(const AdmissionRequest& request, Json& object) override {
    Json& annotations = object["metadata"]["annotations"];
    if (!annotations.is_object()) annotations = Json::object();
    annotations.set("seen", request.operation == AdmissionRequest::Operation::create ? "create" : "update");
    return {};
  }
  Answer<void> validate(const AdmissionRequest& request, const Json& object) override {
    const Json* seen = object.find_path({"metadata", "annotations"});
    EXPECT_TRUE(seen != nullptr && seen->contains("seen"));
    EXPECT_NE(request.reader->find(*model::find_kind("", "v1", "namespaces"), "", "default"), nullptr);
    if (request.name == "forbidden") return refuse_forbidden(*request.kind, request.name, "of its name");
    return {};
  }
  Answer<void> before_delete(const AdmissionRequest& request) override {
    if (metadata_text(*request.before, "name") == "kept")
      return refuse_forbidden(*request.kind, request.name, "it is kept");
    return {};
  }
};

class Admitted : public World {
 protected:
  Admitted() { registry_.add_admission(marker_); }
  Marker marker_;
};

TEST_F(Admitted, HooksChangeRefuseAndGuardDeletion) {
  const Json made = lease("a");
  EXPECT_EQ(to_text(*made.find_path({"metadata", "annotations"})), R"({"seen":"create"})");
  EXPECT_EQ(to_text(*merge(at(kLeases, "a"), R"({"metadata":{"labels":{"x":"y"}}})")
                         ->object.find_path({"metadata", "annotations"})),
            R"({"seen":"update"})");
  EXPECT_THAT(refusal_text(create(at(kLeases), R"({"metadata":{"name":"forbidden"}})")),
              HasSubstr("Forbidden"));
  EXPECT_THAT(refusal_text(get(at(kLeases, "forbidden"))), HasSubstr("NotFound"));
  lease("kept");
  EXPECT_THAT(refusal_text(remove(at(kLeases, "kept"))), HasSubstr("it is kept"));
  EXPECT_EQ(refusal_text(create(at("secrets"), R"({"metadata":{"name":"other-kind"}})")), "");
}

class NodeScope : public World {
 protected:
  NodeScope() {
    const char* engine = R"({{"metadata":{{"name":"e{}"}},"spec":{{"volumeName":"v","nodeID":"n{}"}}}})";
    for (int i : {1, 2})
      EXPECT_EQ(refusal_text(create(at("engines.longhorn.io"), fmt::format(fmt::runtime(engine), i, i))), "");
    for (int i : {1, 2})
      EXPECT_EQ(
          refusal_text(create(
              at("pods"),
              fmt::format(
                  R"({{"metadata":{{"name":"p{}"}},"spec":{{"nodeName":"n{}","containers":[{{"name":"c","image":"i"}}]}}}})",
                  i, i))),
          "");
  }
  static WriteOptions as_node(const std::string& node) {
    WriteOptions options = by("agent");
    options.identity.user = "system:node:" + node;
    options.identity.node = node;
    return options;
  }
};

TEST_F(NodeScope, ANodeWritesWhatIsItsOwnAndNothingElse) {
  struct Case {
    ResourceName what;
    const char* patch;
    bool allowed;
  };
  const Case cases[] = {
      {at("engines.longhorn.io", "e1", "status"), R"({"status":{"currentState":"running"}})", true},
      {at("engines.longhorn.io", "e2", "status"), R"({"status":{"currentState":"running"}})", false},
      {at("engines.longhorn.io", "e1"), R"({"metadata":{"labels":{"a":"b"}}})", false},
      {at("pods", "p1", "status"), R"({"status":{"phase":"Running"}})", true},
      {at("pods", "p2", "status"), R"({"status":{"phase":"Running"}})", false},
      {at("namespaces", "default"), R"({"metadata":{"labels":{"a":"b"}}})", false},
  };
  for (const Case& test : cases) {
    const auto written = merge(test.what, test.patch, as_node("n1"));
    EXPECT_EQ(written.ok(), test.allowed) << test.what.name << test.patch << refusal_text(written);
    EXPECT_EQ(refusal_text(written).starts_with("Forbidden"), !test.allowed);
  }
  EXPECT_THAT(refusal_text(merge(at("engines.longhorn.io", "e2", "status"),
                                 R"({"status":{"currentState":"running"}})", as_node("n1"))),
              HasSubstr("node \"n1\" may write only what belongs to it: it belongs to node \"n2\""));
}

TEST_F(NodeScope, ANodeMakesItselfAndItsLeaseOnly) {
  EXPECT_EQ(refusal_text(create(at("nodes"), R"({"metadata":{"name":"n1"}})", as_node("n1"))), "");
  EXPECT_THAT(refusal_text(create(at("nodes"), R"({"metadata":{"name":"n2"}})", as_node("n1"))),
              HasSubstr("Forbidden"));
  EXPECT_EQ(refusal_text(create(at(kLeases), R"({"metadata":{"name":"n1"}})", as_node("n1"))), "");
  EXPECT_THAT(refusal_text(create(at(kLeases), R"({"metadata":{"name":"leader"}})", as_node("n1"))),
              HasSubstr("Forbidden"));
  EXPECT_THAT(
      refusal_text(create(at("volumes.longhorn.io"),
                          R"({"metadata":{"name":"v"},"spec":{"size":"1073741824"}})", as_node("n1"))),
      HasSubstr("nodes do not write objects of this kind"));
  DeleteOptions options;
  options.identity.node = "n1";
  EXPECT_TRUE(remove(at("pods", "p1"), options).ok());
  EXPECT_THAT(refusal_text(remove(at("pods", "p2"), options)), HasSubstr("Forbidden"));
  EXPECT_THAT(refusal_text(remove(at("engines.longhorn.io", "e1"), options)), HasSubstr("may not delete"));
}

class Events : public World {
 protected:
  Events() {
    group_.spawn(recorder_.run(group_.token()));
    volume_ = create(at("volumes.longhorn.io"), R"({"metadata":{"name":"v1"},"spec":{"size":"1073741824"}})")
                  ->object;
  }
  void note(std::string reason, std::string message) {
    recorder_.record({reference_to(kind("volumes.longhorn.io"), volume_), "Warning", std::move(reason),
                      std::move(message)});
    executor_.run_ready();
  }
  std::vector<std::string> seen() {
    std::vector<std::string> lines;
    registry_.for_each(kind("events"), "", [&](const JsonPtr& event) {
      lines.push_back(fmt::format("{} {} x{}", *event->get_string("reason"), *event->get_string("message"),
                                  *event->get_int64("count")));
      return true;
    });
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  EventRecorder recorder_{
      executor_,
      registry_,
      random_,
      {.component = "moord", .window = std::chrono::minutes(10), .max_waiting = 3, .max_known = 2}};
  Json volume_;
};

TEST_F(NodeScope, OnlyTheHolderOfAGrantChangesIt) {
  const auto at_grant = [](std::string_view name) { return at("grants.mooring.io", name); };
  const char* grant = R"({"metadata":{"name":"v"},"spec":{"volume":"v","epoch":3,"generation":1,
      "active":{"epoch":3,"engine":"v-e","node":"n1","incarnation":1},"members":{"a":"RW","b":"RW"}}})";
  ASSERT_EQ(refusal_text(create(at_grant(""), grant)), "");
  const char* change = R"({"spec":{"members":{"b":"ERR"},"generation":2}})";
  EXPECT_THAT(refusal_text(merge(at_grant("v"), change, as_node("n2"))), HasSubstr("not the active node"));
  EXPECT_EQ(refusal_text(merge(at_grant("v"), change, as_node("n1"))), "");
  EXPECT_THAT(refusal_text(merge(at_grant("v"), R"({"spec":{"active":null}})", as_node("n1"))),
              HasSubstr("not the active node"));
  EXPECT_THAT(
      refusal_text(create(at_grant(""), R"({"metadata":{"name":"w"},"spec":{"volume":"w"}})", as_node("n1"))),
      HasSubstr("neither makes nor deletes"));
}

TEST_F(NodeScope, ANodeTakesItsFinalizerFromWhatIsBeingDeletedAndChangesNothingElse) {
  const ResourceName replica = at("replicas.longhorn.io", "r1");
  ASSERT_EQ(refusal_text(create(at("replicas.longhorn.io"),
                                R"({"metadata":{"name":"r1","finalizers":["longhorn.io","example.com/other"]},
                                    "spec":{"volumeName":"v","nodeID":"n1"}})")),
            "");
  const char* let_go = R"({"metadata":{"finalizers":["example.com/other"]}})";
  EXPECT_THAT(refusal_text(merge(replica, let_go, as_node("n1"))), HasSubstr("only its status"));
  ASSERT_EQ(refusal_text(remove(replica)), "");
  EXPECT_THAT(refusal_text(merge(replica, let_go, as_node("n2"))), HasSubstr("belongs to node \"n1\""));
  EXPECT_THAT(refusal_text(merge(replica, R"({"metadata":{"finalizers":[]}})", as_node("n1"))),
              HasSubstr("only its status"));
  EXPECT_EQ(refusal_text(merge(replica, let_go, as_node("n1"))), "");
}

TEST_F(Events, RepetitionsAreCounted) {
  note("Degraded", "one replica failed");
  note("Degraded", "one replica failed");
  executor_.advance(std::chrono::minutes(5));
  note("Degraded", "one replica failed");
  note("Degraded", "two replicas failed");
  EXPECT_THAT(seen(), ElementsAre("Degraded one replica failed x3", "Degraded two replicas failed x1"));
  executor_.advance(std::chrono::minutes(11));
  note("Degraded", "one replica failed");  // outside the window: a new story
  EXPECT_THAT(seen(), ElementsAre("Degraded one replica failed x1", "Degraded one replica failed x3",
                                  "Degraded two replicas failed x1"));
  EXPECT_EQ(names(at("events"), "", "involvedObject.name=v1").size(), 0u);  // they live with their object
  ResourceName there = at("events");
  there.space = "longhorn-system";
  EXPECT_EQ(
      names(there, "", "involvedObject.name=v1,involvedObject.uid=" + metadata_text(volume_, "uid")).size(),
      3u);
}

TEST_F(Events, AnEventThatWasTakenAwayIsWrittenAnew) {
  note("Degraded", "x");
  ResourceName there = at("events");
  there.space = "longhorn-system";
  ASSERT_TRUE(wait(registry_.remove_collection(there, {}, {})).ok());
  note("Degraded", "x");
  EXPECT_THAT(seen(), ElementsAre("Degraded x x1"));
}

TEST_F(Events, TooManyAtOnceAreDroppedAndCounted) {
  for (int i = 0; i < 5; ++i)
    recorder_.record(
        {reference_to(kind("volumes.longhorn.io"), volume_), "Normal", "R", fmt::format("m{}", i)});
  executor_.run_ready();
  EXPECT_EQ(seen().size(), 3u);
  EXPECT_EQ(recorder_.dropped(), 2u);
}

TEST_F(Events, OldOnesExpireAFewAtATime) {
  group_.spawn(expire_events(
      registry_, {.time_to_live = std::chrono::hours(1), .pause = std::chrono::seconds(30), .per_turn = 2},
      group_.token()));
  for (int i = 0; i < 3; ++i) note("R", fmt::format("m{}", i));
  executor_.advance(std::chrono::minutes(59));
  EXPECT_EQ(seen().size(), 3u);
  note("R", "m2");  // forgotten by the recorder or counted: seen lately in either case
  executor_.advance(std::chrono::minutes(1) + std::chrono::seconds(30));
  EXPECT_GE(seen().size(), 1u);
  executor_.advance(std::chrono::seconds(30));
  EXPECT_THAT(seen(), ElementsAre(HasSubstr("m2")));
  executor_.advance(std::chrono::hours(2));
  EXPECT_THAT(seen(), IsEmpty());
}

}  // namespace
}  // namespace moor::registry
