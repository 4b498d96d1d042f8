// Get, list and watch through the registry.
#include <fmt/format.h>

#include "registry/continue_token.h"
#include "registry/testing/world.h"

namespace moor::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class Reads : public World {
 protected:
  Listed page(const ResourceName& what, ListOptions options) {
    auto listed = wait(registry_.list(what, std::move(options)));
    EXPECT_EQ(refusal_text(listed), "");
    return listed ? std::move(*listed) : Listed();
  }
  static std::vector<std::string> names_of(const Listed& listed) {
    std::vector<std::string> result;
    for (const JsonPtr& object : listed.items) result.push_back(metadata_text(*object, "name"));
    return result;
  }
  std::unique_ptr<Watcher> watch(const ResourceName& what, std::string_view labels = {},
                                 std::string_view fields = {}, std::string version = {},
                                 bool initial = false) {
    WatchOptions options;
    options.labels = *LabelSelector::parse(labels);
    options.fields = *FieldSelector::parse(fields);
    options.resource_version = std::move(version);
    options.send_initial_events = initial;
    auto watcher = wait(registry_.watch(what, options));
    EXPECT_EQ(refusal_text(watcher), "");
    return watcher ? std::move(*watcher) : nullptr;
  }
  // "+a ~a -a .": added, modified, deleted, bookmark.
  std::string take(Watcher& watcher) {
    const auto events = wait(watcher.next({}));
    if (!events) return refusal_text(events);
    std::string line;
    for (const WatchEvent& event : *events) {
      line += std::string(line.empty() ? "" : " ") + "+~-."[static_cast<int>(event.type)];
      if (event.object != nullptr) line += metadata_text(*event.object, "name");
      if (event.initial_end) line += "!";
    }
    return line;
  }
};

TEST_F(Reads, SelectorsPickByLabelsAndFields) {
  lease("a", R"({"metadata":{"labels":{"app":"db","tier":"x"}}})");
  lease("b", R"({"metadata":{"labels":{"app":"db","tier":"y"}}})");
  lease("c", R"({"metadata":{"labels":{"app":"web"}}})");
  lease("d");
  const ResourceName leases = at(kLeases);
  EXPECT_THAT(names(leases), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(names(leases, "app=db"), ElementsAre("a", "b"));
  EXPECT_THAT(names(leases, "app=db,tier=y"), ElementsAre("b"));
  EXPECT_THAT(names(leases, "app=db,tier!=y"), ElementsAre("a"));
  EXPECT_THAT(names(leases, "app in (web)"), ElementsAre("c"));
  EXPECT_THAT(names(leases, "!app"), ElementsAre("d"));
  EXPECT_THAT(names(leases, "app=none"), IsEmpty());
  EXPECT_THAT(names(leases, "", "metadata.name=b"), ElementsAre("b"));
  EXPECT_THAT(names(leases, "app=web", "metadata.name=b"), IsEmpty());
  EXPECT_THAT(names(leases, "", "metadata.name!=b"), ElementsAre("a", "c", "d"));
  EXPECT_THAT(names(leases, "", "metadata.name=a/b"), IsEmpty());
  ResourceName everywhere = leases;
  everywhere.space = "";
  EXPECT_THAT(names(everywhere, "", "metadata.namespace=default,metadata.name=c"), ElementsAre("c"));
  EXPECT_THAT(names(everywhere, "", "metadata.namespace=kube-system"), IsEmpty());
  EXPECT_THAT(names(everywhere, "", "metadata.name=c"), ElementsAre("c"));
  ListOptions bad;
  bad.fields = *FieldSelector::parse("spec.holder=x");
  EXPECT_THAT(refusal_text(wait(registry_.list(leases, bad))), HasSubstr("field label not supported"));
}

TEST_F(Reads, PodsAreSelectedByNodeAndPhase) {
  for (const char* name : {"p1", "p2", "p3"})
    ASSERT_EQ(
        refusal_text(create(
            at("pods"),
            fmt::format(
                R"({{"metadata":{{"name":"{}"}},"spec":{{"nodeName":"{}","containers":[{{"name":"c","image":"i"}}]}}}})",
                name, std::string(name) == "p3" ? "" : "n1"))),
        "");
  ASSERT_EQ(refusal_text(merge(at("pods", "p2", "status"), R"({"status":{"phase":"Running"}})")), "");
  EXPECT_THAT(names(at("pods"), "", "spec.nodeName=n1"), ElementsAre("p1", "p2"));
  EXPECT_THAT(names(at("pods"), "", "spec.nodeName=n1,status.phase=Running"), ElementsAre("p2"));
  EXPECT_THAT(names(at("pods"), "", "spec.nodeName="), ElementsAre("p3"));
  EXPECT_THAT(names(at("pods"), "", "status.phase!=Running"), ElementsAre("p1", "p3"));
}

TEST_F(Reads, PagesShowOneStateWhateverHappensBetweenThem) {
  for (int i = 0; i < 7; ++i) lease(fmt::format("l{}", i));
  ListOptions options;
  options.limit = 3;
  const Listed first = page(at(kLeases), options);
  EXPECT_THAT(names_of(first), ElementsAre("l0", "l1", "l2"));
  EXPECT_EQ(first.remaining, 4);
  // Unchanged in between: served from the cache.
  options.continue_token = first.continue_token;
  EXPECT_THAT(names_of(page(at(kLeases), options)), ElementsAre("l3", "l4", "l5"));
  ASSERT_TRUE(remove(at(kLeases, "l4")).ok());
  lease("l3a");
  const Listed second = page(at(kLeases), options);
  EXPECT_THAT(names_of(second), ElementsAre("l3", "l4", "l5"));
  EXPECT_EQ(second.resource_version, first.resource_version);
  EXPECT_EQ(second.remaining, 1);
  options.continue_token = second.continue_token;
  const Listed third = page(at(kLeases), options);
  EXPECT_THAT(names_of(third), ElementsAre("l6"));
  EXPECT_EQ(third.continue_token, "");
  EXPECT_EQ(third.remaining, std::nullopt);
}

TEST_F(Reads, PagesWithSelectorsAreFullAndHonest) {
  for (int i = 0; i < 9; ++i)
    lease(fmt::format("l{}", i), i % 2 == 0 ? R"({"metadata":{"labels":{"even":"y"}}})" : "{}");
  ListOptions options;
  options.limit = 2;
  options.labels = *LabelSelector::parse("even=y");
  std::vector<std::string> all;
  for (int pages = 0; pages < 3; ++pages) {
    const Listed listed = page(at(kLeases), options);
    EXPECT_EQ(listed.remaining, std::nullopt);
    for (const std::string& name : names_of(listed)) all.push_back(name);
    options.continue_token = listed.continue_token;
    lease(fmt::format("m{}", pages));  // the next page must come from history
  }
  EXPECT_THAT(all, ElementsAre("l0", "l2", "l4", "l6", "l8"));
  EXPECT_EQ(options.continue_token, "");
}

TEST_F(Reads, BadAndOldTokensAreRefused) {
  for (int i = 0; i < 4; ++i) lease(fmt::format("l{}", i));
  ListOptions options;
  options.limit = 2;
  const std::string token = page(at(kLeases), options).continue_token;
  for (std::string bad :
       {std::string("x"), token + "A", token.substr(1), std::string(5000, 'a'), std::string("....")}) {
    options.continue_token = bad;
    EXPECT_THAT(refusal_text(wait(registry_.list(at(kLeases), options))), HasSubstr("BadRequest"));
  }
  options.continue_token = token;
  EXPECT_THAT(refusal_text(wait(registry_.list(at("pods"), options))),
              HasSubstr("BadRequest"));  // another place's
  lease("more");
  ASSERT_TRUE(wait(store_->compact(revision())).ok());
  EXPECT_THAT(refusal_text(wait(registry_.list(at(kLeases), options))), HasSubstr("Expired"));
}

TEST_F(Reads, ResourceVersionsMeanWhatKubernetesSays) {
  lease("a");
  const std::string then = std::to_string(revision());
  lease("b");
  ListOptions options;
  options.resource_version = "0";
  EXPECT_EQ(page(at(kLeases), options).items.size(), 2u);
  options.resource_version = then;
  EXPECT_EQ(page(at(kLeases), options).items.size(), 2u);  // not older than
  options.resource_version_match = "Exact";
  EXPECT_THAT(names_of(page(at(kLeases), options)), ElementsAre("a"));
  EXPECT_EQ(page(at(kLeases), options).resource_version, then);
  options.resource_version = "999999";
  options.resource_version_match = "";
  EXPECT_THAT(refusal_text(wait(registry_.list(at(kLeases), options))),
              HasSubstr("Too large resource version"));
  for (const auto& [version, match] :
       std::vector<std::pair<std::string, std::string>>{{"abc", ""},
                                                        {"-1", ""},
                                                        {"1", "Nearly"},
                                                        {"", "Exact"},
                                                        {"0", "Exact"},
                                                        {"99999999999999999999999", ""}}) {
    options.resource_version = version;
    options.resource_version_match = match;
    EXPECT_THAT(refusal_text(wait(registry_.list(at(kLeases), options))), HasSubstr("BadRequest"))
        << version << match;
  }
  EXPECT_THAT(refusal_text(wait(registry_.get(at(kLeases, "a"), "999999"))), HasSubstr("Too large"));
  EXPECT_EQ(refusal_text(wait(registry_.get(at(kLeases, "a"), "0"))), "");
  ASSERT_TRUE(wait(store_->compact(revision())).ok());
  options.resource_version = then;
  options.resource_version_match = "Exact";
  EXPECT_THAT(refusal_text(wait(registry_.list(at(kLeases), options))), HasSubstr("Expired"));
}

TEST_F(Reads, AReadWithoutVersionSeesWhatAnotherServerWrote) {
  LocalRegistry other(executor_, *store_, random_);
  TaskGroup group(executor_);
  group.spawn(other.run(group.token()));
  ASSERT_TRUE(wait(other.create(at(kLeases), json(R"({"metadata":{"name":"x"}})"), by())).ok());
  EXPECT_EQ(refusal_text(get(at(kLeases, "x"))), "");
  group.cancel();
  EXPECT_TRUE(wait(group.join()).ok());
}

TEST_F(Reads, NamesWithSlashesLeadNowhere) {
  lease("a");
  EXPECT_THAT(refusal_text(get({&kind(kLeases), "default", "../a", ""})), HasSubstr("NotFound"));
  EXPECT_THAT(refusal_text(remove({&kind(kLeases), "default/a", "b", ""})), HasSubstr("NotFound"));
  EXPECT_THAT(refusal_text(wait(registry_.list({&kind(kLeases), "default/a", "", ""}, {}))),
              HasSubstr("BadRequest"));
}

TEST_F(Reads, WatchStartsWithWhatIsThereAndGoesOn) {
  lease("a");
  const auto watcher = watch(at(kLeases));
  EXPECT_EQ(take(*watcher), "+a");
  lease("b");
  ASSERT_TRUE(merge(at(kLeases, "a"), R"({"metadata":{"labels":{"x":"y"}}})").ok());
  ASSERT_TRUE(remove(at(kLeases, "b")).ok());
  EXPECT_EQ(take(*watcher), "+b ~a -b");
  EXPECT_EQ(watcher->progress(), std::to_string(revision()));
}

TEST_F(Reads, SelectorsTurnChangesIntoComingAndGoing) {
  lease("a");
  const auto labelled = watch(at(kLeases), "app=db");
  const auto named = watch(at(kLeases), "", "metadata.name=a", std::to_string(revision()));
  ASSERT_TRUE(merge(at(kLeases, "a"), R"({"metadata":{"labels":{"app":"db"}}})").ok());
  ASSERT_TRUE(merge(at(kLeases, "a"), R"({"metadata":{"labels":{"n":"1"}}})").ok());
  ASSERT_TRUE(merge(at(kLeases, "a"), R"({"metadata":{"labels":{"app":"web"}}})").ok());
  const std::string left = std::to_string(revision());
  lease("b");
  EXPECT_EQ(take(*named), "~a ~a ~a");
  const auto events = wait(labelled->next({}));
  ASSERT_EQ(events->size(), 3u);
  EXPECT_EQ(events->at(0).type, WatchEvent::Type::added);
  EXPECT_EQ(events->at(1).type, WatchEvent::Type::modified);
  EXPECT_EQ(events->at(2).type, WatchEvent::Type::deleted);
  // What was last seen, at the revision at which it left.
  EXPECT_EQ(events->at(2).object->find_path({"metadata", "labels"})->get_string("app"), "db");
  EXPECT_EQ(metadata_text(*events->at(2).object, "resourceVersion"), left);
}

TEST_F(Reads, WatchFromARevisionGivesEverythingAfterIt) {
  lease("a");
  const std::string then = std::to_string(revision());
  lease("b");
  lease("c");
  const auto watcher = watch(at(kLeases), "", "", then);
  EXPECT_EQ(take(*watcher), "+b +c");
}

TEST_F(Reads, InitialEventsEndWithABookmark) {
  lease("a");
  lease("b");
  const auto watcher = watch(at(kLeases), "", "", "", true);
  EXPECT_EQ(take(*watcher), "+a +b .!");
  lease("c");
  EXPECT_EQ(take(*watcher), "+c");
}

TEST_F(Reads, AWaitForEventsCanBeGivenUpAndTakenUpAgain) {
  const auto watcher = watch(at(kLeases), "", "", std::to_string(revision()));
  CancelSource soon;
  soon.set_deadline(executor_, executor_.clock().now() + std::chrono::seconds(60), "bookmark");
  EXPECT_TRUE(wait(watcher->next(soon.token())).is(Errc::timed_out));
  lease("a");
  EXPECT_EQ(take(*watcher), "+a");
}

TEST(ShortMemory, TooOldOrTooSlowIsExpired) {
  ManualExecutor executor;
  SeededRandom random(3);
  const auto store = store::make_memory_store(executor);
  LocalRegistryOptions options;
  options.cache.hub.ring_changes = 4;
  options.cache.hub.pending_limit = 4;
  LocalRegistry registry(executor, *store, random, options);
  TaskGroup group(executor);
  group.spawn(registry.run(group.token()));
  ASSERT_TRUE(block_on(executor, ensure_namespaces(registry)).ok());
  const ResourceName leases{model::find_kind("coordination.k8s.io", "v1", "leases"), "default", "", ""};
  auto slow = block_on(executor, registry.watch(leases, {}));
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(block_on(executor,
                         registry.create(
                             leases, Json::object({{"metadata", Json::object({{"generateName", "l"}})}}), {}))
                    .ok());
  EXPECT_THAT(refusal_text(block_on(executor, (*slow)->next({}))), HasSubstr("Expired"));
  WatchOptions old;
  old.resource_version = "1";
  EXPECT_THAT(refusal_text(block_on(executor, registry.watch(leases, old))),
              HasSubstr("Expired: too old resource version: 1"));
  slow->reset();
  group.cancel();
  EXPECT_TRUE(block_on(executor, group.join()).ok());
}

}  // namespace
}  // namespace moor::registry
