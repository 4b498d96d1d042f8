// Many writers and watchers at once, on one executor: every interleaving is decided by a seed.
#include <fmt/format.h>

#include "registry/testing/world.h"

namespace moor::registry {
namespace {

class Crowd : public World {
 protected:
  // Reads, adds one, writes with the version it read; again on conflict.
  static Task<Result<void>> increment(LocalRegistry& registry, ResourceName what, int times, int* conflicts) {
    for (int done = 0; done < times;) {
      Answer<Json> object = co_await registry.get(what, "");
      if (!object) co_return object.error().error;
      Json& spec = (*object)["spec"];
      spec["leaseTransitions"] = spec.get_int64("leaseTransitions").value_or(0) + 1;
      const auto written = co_await registry.update(what, std::move(*object), by());
      if (written) {
        ++done;
      } else if (written.is(Errc::conflict)) {
        ++*conflicts;
      } else {
        co_return written.error().error;
      }
    }
    co_return Result<void>();
  }

  // Random life of the objects that this task owns, and of some that everybody writes.
  static Task<Result<void>> churn(LocalRegistry& registry, ResourceName where, int task, std::uint64_t seed) {
    SeededRandom random(seed * 1000 + static_cast<std::uint64_t>(task));
    for (int step = 0; step < 120; ++step) {
      const bool shared = random.chance(1, 8);
      where.name =
          shared ? fmt::format("shared-{}", random.below(8)) : fmt::format("o{}-{}", task, random.below(32));
      Json labels =
          Json::object({{"colour", fmt::format("c{}", random.below(5))}, {"n", fmt::format("{}", step)}});
      Json object =
          Json::object({{"metadata", Json::object({{"name", where.name}, {"labels", std::move(labels)}})}});
      if (random.chance(1, 4)) {
        DeleteOptions options;  // a name for it: g++ 12 damages braced temporaries in co_await expressions
        const auto removed = co_await registry.remove(where, std::move(options));
        if (!removed && !removed.is(Errc::not_found)) co_return removed.error().error;
        continue;
      }
      auto patched = co_await registry.patch(where, PatchType::merge, object, by());
      if (patched.is(Errc::not_found)) {
        ResourceName fresh = where;
        fresh.name.clear();
        patched = co_await registry.create(fresh, std::move(object), by());
      }
      if (!patched && !patched.is(Errc::already_exists) && !patched.is(Errc::conflict))
        co_return patched.error().error;
    }
    co_return Result<void>();
  }

  struct View {
    LabelSelector labels;
    FieldSelector fields;
    std::map<std::string, std::string> objects;  // name → resourceVersion
    int relists = 0;
  };

  // As an informer does it: list, watch from there, list again when it is too far behind.
  static Task<Result<void>> follow(LocalRegistry& registry, ResourceName what, View* view,
                                   CancelToken token) {
    while (true) {
      ListOptions list;
      list.labels = view->labels;
      list.fields = view->fields;
      auto listed = co_await registry.list(what, list);
      if (!listed) co_return listed.error().error;
      view->objects.clear();
      ++view->relists;
      for (const JsonPtr& object : listed->items)
        view->objects[metadata_text(*object, "name")] = metadata_text(*object, "resourceVersion");
      WatchOptions options;
      options.labels = view->labels;
      options.fields = view->fields;
      options.resource_version = listed->resource_version;
      auto watcher = co_await registry.watch(what, options);
      if (!watcher) co_return watcher.error().error;
      while (true) {
        auto events = co_await (*watcher)->next(token);
        if (events.is(Errc::expired)) break;
        if (!events) co_return events.error().error;
        for (const WatchEvent& event : *events) {
          const std::string name = metadata_text(*event.object, "name");
          const bool known = view->objects.contains(name);
          EXPECT_EQ(known, event.type != WatchEvent::Type::added) << name;
          if (event.type == WatchEvent::Type::deleted) {
            view->objects.erase(name);
          } else {
            view->objects[name] = event.resource_version;
          }
        }
      }
    }
  }
};

TEST_F(Crowd, SixteenWritersLoseNoUpdate) {
  lease("counter");
  TaskGroup writers(executor_);
  int conflicts = 0;
  for (int i = 0; i < 16; ++i) writers.spawn(increment(registry_, at(kLeases, "counter"), 25, &conflicts));
  ASSERT_TRUE(wait(writers.join()).ok());
  EXPECT_EQ(get(at(kLeases, "counter"))->find("spec")->get_int64("leaseTransitions"), 16 * 25);
  EXPECT_GT(conflicts, 0);  // they really met
}

TEST_F(Crowd, PatchesWithoutAVersionAllArrive) {
  lease("counter");
  TaskGroup writers(executor_);
  struct One {
    static Task<Result<void>> label(LocalRegistry& registry, ResourceName what, int i) {
      Json patch = Json::object();
      patch["metadata"]["labels"][fmt::format("l{}", i)] = "x";
      const auto written = co_await registry.patch(what, PatchType::merge, std::move(patch), by());
      if (!written) co_return written.error().error;
      co_return Result<void>();
    }
  };
  for (int i = 0; i < 8; ++i) writers.spawn(One::label(registry_, at(kLeases, "counter"), i));
  ASSERT_TRUE(wait(writers.join()).ok());
  EXPECT_EQ(get(at(kLeases, "counter"))->find_path({"metadata", "labels"})->size(), 8u);
}

TEST_F(Crowd, EveryWatcherEndsWithWhatAListShows) {
  const std::uint64_t seed = 20261115;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  TaskGroup watchers(executor_);
  std::vector<View> views(50);
  for (std::size_t i = 0; i < views.size(); ++i) {
    const char* labels[] = {"", "colour=c1", "colour!=c1", "colour in (c2,c3)", "!colour"};
    views[i].labels = *LabelSelector::parse(labels[i % 5]);
    if (i >= 25 && i < 30)
      views[i].fields = *FieldSelector::parse(fmt::format("metadata.name=shared-{}", i - 25));
    if (i >= 30 && i < 35) views[i].labels = *LabelSelector::parse(fmt::format("colour=c{}", i - 30));
    watchers.spawn(follow(registry_, at(kLeases), &views[i], watchers.token()));
  }
  TaskGroup writers(executor_);
  for (int i = 0; i < 32; ++i) writers.spawn(churn(registry_, at(kLeases), i, seed));
  ASSERT_TRUE(wait(writers.join()).ok());
  executor_.run_ready();
  std::size_t most = 0;
  for (View& view : views) {
    ListOptions options;
    options.labels = view.labels;
    options.fields = view.fields;
    std::map<std::string, std::string> listed;
    const auto found = wait(registry_.list(at(kLeases), options));
    for (const JsonPtr& object : found->items)
      listed[metadata_text(*object, "name")] = metadata_text(*object, "resourceVersion");
    EXPECT_EQ(view.objects, listed);
    most = std::max(most, listed.size());
  }
  EXPECT_GT(most, 300u);
  watchers.cancel();
  ASSERT_TRUE(wait(watchers.join()).ok());
}

}  // namespace
}  // namespace moor::registry
