#include "registry/client/informer.h"

#include <fmt/format.h>

#include "registry/refusal.h"
#include "registry/testing/world.h"

namespace moor::registry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const char* const kLeases = "leases.coordination.k8s.io";

// The real registry behind a connection that breaks: a watch ends after so many events, or a call fails.
class Flaky final : public Registry {
 public:
  explicit Flaky(Registry& inner) : inner_(inner) {}
  int events_per_watch = 1'000'000;
  int failing_calls = 0;
  bool forget_history = false;  // the next watch is told that it is too old
  int watches = 0;

  Task<Answer<Written>> create(ResourceName where, Json object, WriteOptions options) override {
    return inner_.create(std::move(where), std::move(object), std::move(options));
  }
  Task<Answer<Item>> get(ResourceName what, std::string version) override {
    return inner_.get(std::move(what), std::move(version));
  }
  Task<Answer<Listed>> list(ResourceName what, ListOptions options) override {
    if (failing_calls > 0) {
      --failing_calls;
      co_return make_error(Errc::unavailable, "cut off");
    }
    co_return co_await inner_.list(std::move(what), std::move(options));
  }
  Task<Answer<std::unique_ptr<Watcher>>> watch(ResourceName what, WatchOptions options) override {
    ++watches;
    if (failing_calls > 0) {
      --failing_calls;
      co_return make_error(Errc::unavailable, "cut off");
    }
    if (std::exchange(forget_history, false)) co_return refuse_expired("too old");
    CO_TRY(auto watcher, co_await inner_.watch(std::move(what), std::move(options)));
    co_return std::unique_ptr<Watcher>(new Breaking(std::move(watcher), events_per_watch));
  }
  Task<Answer<Written>> update(ResourceName what, Json object, WriteOptions options) override {
    return inner_.update(std::move(what), std::move(object), std::move(options));
  }
  Task<Answer<Written>> patch(ResourceName what, PatchType type, Json patch, WriteOptions options) override {
    return inner_.patch(std::move(what), type, std::move(patch), std::move(options));
  }
  Task<Answer<Deleted>> remove(ResourceName what, DeleteOptions options) override {
    return inner_.remove(std::move(what), std::move(options));
  }
  Task<Answer<Listed>> remove_collection(ResourceName what, ListOptions which,
                                         DeleteOptions options) override {
    return inner_.remove_collection(std::move(what), std::move(which), std::move(options));
  }

 private:
  class Breaking final : public Watcher {
   public:
    Breaking(std::unique_ptr<Watcher> inner, int left) : inner_(std::move(inner)), left_(left) {}
    Task<Answer<std::vector<WatchEvent>>> next(CancelToken token) override {
      if (left_ <= 0) co_return make_error(Errc::unavailable, "the connection broke");
      auto events = co_await inner_->next(token);
      if (!events) co_return events;
      // What came behind the break never arrived.
      if (events->size() > static_cast<std::size_t>(left_)) events->resize(static_cast<std::size_t>(left_));
      left_ -= static_cast<int>(events->size());
      co_return events;
    }
    std::string progress() const override { return inner_->progress(); }

   private:
    std::unique_ptr<Watcher> inner_;
    int left_;
  };
  Registry& inner_;
};

class Informing : public World {
 protected:
  Informing() {
    informer_.listen([this](const Informer::Event& event) {
      const Json& object = event.after != nullptr ? *event.after : *event.before;
      log_.push_back((event.before == nullptr  ? "+"
                      : event.after == nullptr ? "-"
                                               : "~") +
                     metadata_text(object, "name"));
    });
  }
  void start() {
    group_.spawn(informer_.run(group_.token()));
    ASSERT_TRUE(wait(informer_.wait_synced({})).ok());
  }
  std::vector<std::string> heard() {
    executor_.advance(std::chrono::minutes(5));  // longer than the longest pauses together
    return std::exchange(log_, {});
  }
  bool agrees() {
    std::map<std::string, std::string> mine;
    informer_.for_each([&](const Informer::Object& object) {
      mine[metadata_text(*object, "name")] = metadata_text(*object, "resourceVersion");
      return true;
    });
    std::map<std::string, std::string> real;
    registry_.for_each(kind(kLeases), "default", [&](const JsonPtr& object) {
      real[metadata_text(*object, "name")] = metadata_text(*object, "resourceVersion");
      return true;
    });
    return mine == real;
  }

  Flaky flaky_{registry_};
  Informer informer_{executor_, flaky_, at(kLeases), {.page_size = 2}};
  std::vector<std::string> log_;
};

TEST_F(Informing, ListsInPagesThenFollows) {
  for (const char* name : {"a", "b", "c"}) lease(name);
  start();
  EXPECT_THAT(heard(), ElementsAre("+a", "+b", "+c"));
  ASSERT_TRUE(merge(at(kLeases, "b"), R"({"metadata":{"labels":{"x":"y"}}})").ok());
  ASSERT_TRUE(remove(at(kLeases, "a")).ok());
  EXPECT_THAT(heard(), ElementsAre("~b", "-a"));
  EXPECT_NE(informer_.find("default", "b"), nullptr);
  EXPECT_EQ(informer_.find("default", "a"), nullptr);
  EXPECT_EQ(informer_.relists(), 1u);
}

TEST_F(Informing, TakesABrokenWatchUpWhereItEnded) {
  flaky_.events_per_watch = 1;
  start();
  for (int i = 0; i < 5; ++i) lease(fmt::format("l{}", i));
  ASSERT_TRUE(remove(at(kLeases, "l2")).ok());
  EXPECT_THAT(heard(), ElementsAre("+l0", "+l1", "+l2", "+l3", "+l4", "-l2"));
  EXPECT_EQ(informer_.relists(), 1u);
  EXPECT_GT(flaky_.watches, 5);
}

TEST_F(Informing, ListsAgainAfter410AndTellsTheDifference) {
  lease("stays");
  lease("changes");
  lease("goes");
  lease("replaced");
  flaky_.events_per_watch = 1;
  start();
  flaky_.events_per_watch = 0;
  lease("poke");  // the one event of the first watch; the informer is deaf from now on
  heard();
  flaky_.failing_calls = 3;
  flaky_.forget_history = true;
  ASSERT_TRUE(merge(at(kLeases, "changes"), R"({"metadata":{"labels":{"x":"y"}}})").ok());
  ASSERT_TRUE(remove(at(kLeases, "goes")).ok());
  ASSERT_TRUE(remove(at(kLeases, "replaced")).ok());
  lease("replaced");
  lease("comes");
  flaky_.events_per_watch = 1'000'000;
  EXPECT_THAT(heard(),
              testing::UnorderedElementsAre("~changes", "-goes", "-replaced", "+replaced", "+comes"));
  EXPECT_EQ(informer_.relists(), 2u);
  EXPECT_TRUE(agrees());
}

TEST_F(Informing, NeverDisagreesForLongWhateverBreaks) {
  const std::uint64_t seed = 4;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  SeededRandom random(seed);
  flaky_.events_per_watch = 1;
  start();
  for (int round = 0; round < 60; ++round) {
    flaky_.events_per_watch = static_cast<int>(random.below(4));
    flaky_.failing_calls = static_cast<int>(random.below(3));
    flaky_.forget_history = random.chance(1, 4);
    for (int i = 0; i < 5; ++i) {
      const std::string name = fmt::format("l{}", random.below(6));
      if (random.chance(1, 3)) {
        (void)remove(at(kLeases, name)).ok();
      } else if (!merge(at(kLeases, name), fmt::format(R"({{"metadata":{{"labels":{{"r":"{}"}}}}}})", round))
                      .ok()) {
        lease(name);
      }
    }
    flaky_.events_per_watch = std::max(flaky_.events_per_watch, 1);
    executor_.advance(std::chrono::minutes(10));
    ASSERT_TRUE(agrees()) << round;
  }
  EXPECT_GT(informer_.relists(), 5u);
}

}  // namespace
}  // namespace moor::registry
