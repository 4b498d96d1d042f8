#include "store/cache/cache.h"

#include "base/random.h"
#include "base/task_group.h"
#include "store/memory/memory_store.h"

namespace moor::store {
namespace {
using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr std::uint32_t kColour = 1;

// Values read "colour,anything"; the colour is an index.
void project_colour(CachedObject& object) {
  object.terms.push_back({kColour, object.entry.value->substr(0, object.entry.value->find(','))});
}

class CacheTest : public testing::Test {
 protected:
  CacheTest() { group_.spawn(cache_.run(group_.token())); }
  ~CacheTest() override {
    group_.cancel();
    EXPECT_TRUE(block_on(executor_, group_.join()).ok());
  }
  template <class T>
  T wait(Task<T> task) {
    return block_on(executor_, std::move(task));
  }
  Revision put(std::string key, std::string bytes) {
    const Revision revision = *wait(store_->put(std::move(key), std::move(bytes)));
    EXPECT_TRUE(wait(cache_.wait_for(revision, {})).ok());
    return revision;
  }
  void remove(std::string key) {
    const auto read = wait(store_->get(key));
    const Revision revision = *wait(store_->remove(key, read->entry->revision));
    EXPECT_TRUE(wait(cache_.wait_for(revision, {})).ok());
  }
  std::vector<std::string> keys(std::string_view prefix, std::optional<Term> term = {}) {
    std::vector<std::string> result;
    const auto visit = [&](const ObjectPtr& object) {
      result.push_back(object->entry.key);
      return true;
    };
    if (term) {
      cache_.for_each(prefix, *term, visit);
    } else {
      cache_.for_each(prefix, visit);
    }
    return result;
  }
  std::vector<std::string> take(Subscription& subscription) {
    std::vector<std::string> lines;
    const auto changes = wait(subscription.next());
    EXPECT_TRUE(changes.ok());
    for (const ChangePtr& change : *changes) {
      const auto side = [](const ObjectPtr& object) {
        return object == nullptr ? "-" : *object->entry.value;
      };
      lines.push_back(change->key() + ":" + side(change->before) + ">" + side(change->after));
    }
    return lines;
  }

  ManualExecutor executor_;
  std::unique_ptr<Store> store_ = make_memory_store(executor_, {.history_records = 200});
  Cache cache_{
      executor_, *store_, project_colour, {.page_size = 3, .hub = {.ring_changes = 50, .pending_limit = 10}}};
  TaskGroup group_{executor_};
};

TEST_F(CacheTest, FollowsTheStoreAndFindsByIndex) {
  put("a/1", "red,x");
  put("a/2", "blue,x");
  put("b/1", "red,y");
  EXPECT_THAT(keys("a/"), ElementsAre("a/1", "a/2"));
  EXPECT_THAT(keys("", Term{kColour, "red"}), ElementsAre("a/1", "b/1"));
  EXPECT_THAT(keys("b/", Term{kColour, "red"}), ElementsAre("b/1"));
  put("a/1", "blue,z");
  EXPECT_THAT(keys("", Term{kColour, "red"}), ElementsAre("b/1"));
  EXPECT_THAT(keys("a/", Term{kColour, "blue"}), ElementsAre("a/1", "a/2"));
  remove("a/2");
  EXPECT_THAT(keys("", Term{kColour, "blue"}), ElementsAre("a/1"));
  EXPECT_EQ(cache_.get("a/2"), nullptr);
  EXPECT_EQ(*cache_.get("a/1")->entry.value, "blue,z");
  EXPECT_EQ(cache_.size(), 2u);
}

TEST_F(CacheTest, LoadsInPagesWhatWasThereBefore) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(wait(store_->put("k/" + std::to_string(i), "red,")).ok());
  Cache second(executor_, *store_, project_colour, {.prefix = "k/", .page_size = 3});
  TaskGroup group(executor_);
  group.spawn(second.run(group.token()));
  EXPECT_TRUE(wait(second.wait_for(0, {})).ok());
  EXPECT_EQ(second.size(), 10u);
  group.cancel();
  EXPECT_TRUE(wait(group.join()).ok());
}

TEST_F(CacheTest, WaitForEndsAtItsDeadline) {
  CancelSource source;
  source.set_deadline(executor_, executor_.clock().now() + 1s, "read");
  EXPECT_TRUE(wait(cache_.wait_for(1'000'000, source.token())).is(Errc::timed_out));
}

// Both at once: the task goes on a turn after it was given up, and the revision comes in between.
TEST_F(CacheTest, AWaitIsGivenUpAtAnyMomentAroundItsRevision) {
  bool reached = true;
  bool given_up = false;
  for (int turns = 0; turns < 50; ++turns) {
    const Revision next = put("a/1", "red,1") + 1;
    CancelSource source;
    std::vector<Result<void>> ends;
    TaskGroup tasks(executor_);
    const auto waits = [&]() -> Task<Result<void>> {
      ends.push_back(co_await cache_.wait_for(next, source.token()));
      co_return Result<void>();
    };
    const auto writes = [&]() -> Task<Result<void>> {
      CO_TRY_VOID(co_await store_->put("a/1", "red,2"));
      co_return Result<void>();
    };
    for (int i = 0; i < 3; ++i) tasks.spawn(waits());
    tasks.spawn(writes());
    executor_.set_auto_advance(false);
    for (int i = 0; i < turns; ++i) executor_.run_one();
    executor_.set_auto_advance(true);
    source.cancel();
    ASSERT_TRUE(wait(tasks.join()).ok());
    ASSERT_EQ(ends.size(), 3u);
    for (const auto& end : ends) ASSERT_TRUE(end.ok() || end.is(Errc::cancelled)) << end.error().message;
    given_up = given_up || !ends.front().ok();
    reached = ends.back().ok();
    EXPECT_TRUE(wait(cache_.wait_for(next, {})).ok());
  }
  EXPECT_TRUE(given_up);
  EXPECT_TRUE(reached) << "the last ones were given up too late to matter";
}

// What was given up is answered as such, also when the cache goes before its task goes on.
TEST_F(CacheTest, AWaitMayBeGivenUpRightBeforeItsCacheGoes) {
  auto cache = std::make_unique<Cache>(executor_, *store_, project_colour, CacheOptions{});
  CancelSource source;
  TaskGroup tasks(executor_);
  std::vector<Result<void>> ends;
  const auto waits = [&](CancelToken token) -> Task<Result<void>> {
    ends.push_back(co_await cache->wait_for(7, token));
    co_return Result<void>();
  };
  tasks.spawn(waits(source.token()));
  tasks.spawn(waits({}));
  executor_.run_ready();
  source.cancel();
  cache.reset();
  ASSERT_TRUE(wait(tasks.join()).ok());
  ASSERT_EQ(ends.size(), 2u);
  for (const auto& end : ends) EXPECT_TRUE(end.is(Errc::cancelled));
}

TEST_F(CacheTest, WatchersSeeOnlyWhatConcernsThem) {
  const Revision start = put("a/1", "red,1");
  auto below = *cache_.subscribe({.prefix = "a/"}, start);
  auto exact = *cache_.subscribe({.prefix = "b/1"}, start);
  auto red = *cache_.subscribe({.prefix = "", .term = Term{kColour, "red"}}, start);
  put("a/1", "red,2");
  put("a/1", "blue,3");
  put("b/1", "blue,1");
  put("b/10", "blue,1");
  put("ab/1", "red,1");
  remove("b/1");
  EXPECT_THAT(take(*below), ElementsAre("a/1:red,1>red,2", "a/1:red,2>blue,3"));
  EXPECT_THAT(take(*exact), ElementsAre("b/1:->blue,1", "b/1:blue,1>-"));
  EXPECT_THAT(take(*red), ElementsAre("a/1:red,1>red,2", "a/1:red,2>blue,3", "ab/1:->red,1"));
  EXPECT_EQ(below->delivered(), cache_.revision());
}

TEST_F(CacheTest, AWatchMayStartALittleInThePastAndNotTooFar) {
  const Revision start = put("a/1", "red,1");
  put("b/1", "red,1");
  put("a/2", "red,1");
  auto late = *cache_.subscribe({.prefix = "a/"}, start);
  EXPECT_THAT(take(*late), ElementsAre("a/2:->red,1"));
  for (int i = 0; i < 60; ++i) put("c/1", "red," + std::to_string(i));
  EXPECT_TRUE(cache_.subscribe({.prefix = "a/"}, start).is(Errc::expired));
}

TEST_F(CacheTest, ASlowWatcherIsCutOffAndTheOthersGoOn) {
  const Revision start = put("a/1", "red,0");
  auto slow = *cache_.subscribe({.prefix = "a/"}, start);
  auto elsewhere = *cache_.subscribe({.prefix = "b/"}, start);
  for (int i = 0; i < 20; ++i) put("a/1", "red," + std::to_string(i));
  put("b/1", "red,x");
  EXPECT_TRUE(wait(slow->next()).is(Errc::expired));
  EXPECT_THAT(take(*elsewhere), ElementsAre("b/1:->red,x"));
}

TEST_F(CacheTest, AGapInTheHistoryResetsWatchersAndIsHealedByAList) {
  const Revision start = put("a/1", "red,1");
  auto watcher = *cache_.subscribe({.prefix = "a/"}, start);
  // One turn of the loop writes more than the store keeps: the cache's own watch is left behind.
  TaskGroup writers(executor_);
  struct Writer {
    static Task<Result<void>> run(Store* store, int number) {
      CO_TRY_VOID(co_await store->put("a/" + std::to_string(number), "blue,x"));
      co_return Result<void>();
    }
  };
  for (int i = 0; i < 500; ++i) writers.spawn(Writer::run(store_.get(), i));
  EXPECT_TRUE(wait(writers.join()).ok());
  EXPECT_TRUE(wait(watcher->next()).is(Errc::expired));
  put("z", "red,end");
  EXPECT_EQ(cache_.size(), 501u);
}

TEST_F(CacheTest, AClosedOrOrphanedWatcherEnds) {
  const Revision start = put("a/1", "red,1");
  auto closed = *cache_.subscribe({.prefix = "a/"}, start);
  executor_.post([&] { closed->close(); });
  EXPECT_TRUE(wait(closed->next()).is(Errc::cancelled));
  EXPECT_EQ(cache_.watchers(), 0u);
  std::unique_ptr<Subscription> orphan;
  {
    Hub hub(executor_);
    orphan = *hub.subscribe({}, 0);
  }
  EXPECT_TRUE(wait(orphan->next()).is(Errc::cancelled));
}

TEST_F(CacheTest, RandomWatchersEndWithTheSameViewAsAList) {
  const std::uint64_t seed = testing::UnitTest::GetInstance()->random_seed() + 1;
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  struct View {
    std::unique_ptr<Subscription> subscription;
    Interest interest;
    std::map<std::string, std::string> objects;
  };
  std::vector<View> views;
  const std::vector<std::string> colours = {"red", "blue", "green"};
  for (int i = 0; i < 12; ++i) {
    View view;
    view.interest.prefix = random.chance(1, 2) ? "" : (random.chance(1, 2) ? "a/" : "b/");
    if (random.chance(1, 2)) view.interest.term = Term{kColour, colours[random.below(3)]};
    views.push_back(std::move(view));
  }
  const Revision start = put("a/0", "red,start");
  for (View& view : views) view.subscription = *cache_.subscribe(view.interest, start - 1);
  for (int i = 0; i < 500; ++i) {
    const std::string key = std::string(random.chance(1, 2) ? "a/" : "b/") + std::to_string(random.below(6));
    if (cache_.get(key) != nullptr && random.chance(1, 3)) {
      remove(key);
    } else {
      put(key, colours[random.below(3)] + "," + std::to_string(i));
    }
    for (View& view : views) {
      if (view.subscription->delivered() == cache_.revision()) continue;  // nothing waits for it
      const auto changes = wait(view.subscription->next());
      ASSERT_TRUE(changes.ok());
      for (const ChangePtr& change : *changes) {
        const bool in =
            change->after != nullptr && (!view.interest.term || change->after->has(*view.interest.term));
        if (in) {
          view.objects[change->key()] = *change->after->entry.value;
        } else {
          view.objects.erase(change->key());
        }
      }
    }
  }
  for (const View& view : views) {
    std::map<std::string, std::string> listed;
    const auto visit = [&](const ObjectPtr& object) {
      listed[object->entry.key] = *object->entry.value;
      return true;
    };
    if (view.interest.term) {
      cache_.for_each(view.interest.prefix, *view.interest.term, visit);
    } else {
      cache_.for_each(view.interest.prefix, visit);
    }
    EXPECT_EQ(view.objects, listed);
  }
}

}  // namespace
}  // namespace moor::store
