// A crowd at the door of a real server that is stopped and killed meanwhile: whoever watches ends up with
// what a list shows, and whoever counts by compare-and-swap loses nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <deque>
#include <memory>
#include <thread>

#include "base/task_group.h"
#include "model/kinds.h"
#include "registry/client/informer.h"
#include "registry/client/remote_registry.h"
#include "registry/prepare.h"
#include "server_process.h"
#include "watch_view.h"

namespace moor::doors::e2e {
namespace {

using namespace std::chrono_literals;
using registry::Informer;
using registry::metadata_text;
using registry::RemoteRegistry;
using registry::ResourceName;

constexpr int kClients = 32;
constexpr int kObjects = 1000;
constexpr int kInformers = 25;
constexpr int kViews = 25;
constexpr int kStepsPerClient = 200;
constexpr int kCounters = 16;
constexpr int kCountsEach = 25;
constexpr int kSignals[] = {SIGKILL, SIGTERM, SIGKILL, SIGTERM};

std::uint64_t test_seed() {
  if (const char* given = std::getenv("MOOR_TEST_SEED")) return std::strtoull(given, nullptr, 10);
  return RealRandom().next() % 1'000'000;
}

ResourceName instance_named(std::string name) {
  static const model::KindInfo* kind = model::find_kind("mooring.io", "v1alpha1", "instances");
  return {kind, "longhorn-system", std::move(name), ""};
}

// What a restart does to a request: it did not happen, or nobody knows.
bool is_interrupted(const registry::Refusal& refusal) {
  const Errc code = refusal.error.code;
  return code == Errc::unavailable || code == Errc::timed_out;
}

Json random_body(const std::string& name, Random& random) {
  Json labels = Json::object({{"colour", fmt::format("c{}", random.below(6))}});
  if (random.chance(1, 2))
    labels.set("tier", fmt::format("t{}", random.below(3)));
  else
    labels.set("tier", nullptr);  // a merge patch takes it away
  return Json::object(
      {{"metadata", Json::object({{"name", name}, {"labels", std::move(labels)}})},
       {"spec", Json::object({{"cpus", 1}, {"nodeID", fmt::format("n{}", random.below(5))}})}});
}

Json without_nulls(Json body) {
  Json& labels = body["metadata"]["labels"];
  if (labels.find("tier")->is_null()) labels.erase("tier");
  return body;
}

Selectors selectors_of(int number) {
  static const std::vector<std::string> kLabels = {"",
                                                   "colour=c1",
                                                   "colour in (c0,c2,c4)",
                                                   "colour!=c3",
                                                   "tier",
                                                   "!tier",
                                                   "colour=c5,tier=t0",
                                                   "tier notin (t1)",
                                                   "colour in (c1,c2),tier in (t0,t2)"};
  static const std::vector<std::string> kFields = {"",
                                                   "spec.nodeID=n1",
                                                   "spec.nodeID!=n0",
                                                   "status.phase=Active",
                                                   "metadata.name!=o7",
                                                   "spec.nodeID=n2,status.phase!=Active"};
  const auto at = static_cast<std::size_t>(number);
  return {kLabels[at % kLabels.size()], kFields[(at / kLabels.size() + at) % kFields.size()]};
}

// Restarts need a thread that lives as long as the servers it starts (they die with it), beside the loop that
// the clients go on running on.
class Operator {
 public:
  explicit Operator(ServerProcess& server) : server_(server), thread_([this] { work(); }) {}
  ~Operator() {
    wanted_.store(kLeave);
    wanted_.notify_one();
    thread_.join();
  }
  // Ends the server with the signal and starts it again: its exit code, -1 when it did not come back.
  Task<int> restart(Executor& executor, int signal) {
    const Completion<int> done(executor);
    done_.emplace(done);
    wanted_.store(signal);
    wanted_.notify_one();
    co_return co_await done;
  }

 private:
  static constexpr int kLeave = -1;
  void work() {
    while (true) {
      wanted_.wait(0);
      const int signal = wanted_.exchange(0);
      if (signal == kLeave) return;
      const int code = server_.end(signal);
      done_->set(server_.start() ? code : -1);
    }
  }
  ServerProcess& server_;
  std::atomic<int> wanted_{0};
  std::optional<Completion<int>> done_;  // written before, read after wanted_ changes
  std::thread thread_;
};

class Crowd : public testing::Test {
 protected:
  Crowd() {
    RecordProperty("seed", std::to_string(seed_));
    fmt::print("seed {}\n", seed_);
  }

  std::unique_ptr<RemoteRegistry> client() {
    registry::RemoteOptions options;
    options.client = server_.client_options();
    options.request_timeout = 20s;
    auto made = RemoteRegistry::make(loop_, std::move(options));
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }

  // Restarts at even distances of the work, not of the time.
  Task<Result<void>> disturb(CancelToken token) {
    for (const int signal : kSignals) {
      const int next = steps_ + steps_between_;
      while (steps_ < next) {
        CO_TRY_VOID(co_await sleep_for(loop_, 10ms, token));
        if (working_ == 0) co_return make_error(Errc::internal, "the work was over before all restarts");
      }
      const int code = co_await operator_.restart(loop_, signal);
      if (code != (signal == SIGTERM ? 0 : 128 + SIGKILL))
        co_return make_error(Errc::internal,
                             fmt::format("signal {} ended in {}: {}", signal, code, server_.log()));
      ++restarts_;
    }
    co_return Result<void>();
  }

  // One client's random life of objects that are everybody's. An interrupted step is tried again as another.
  Task<Result<void>> churn(RemoteRegistry* registry, int client, CancelToken token) {
    SeededRandom random(seed_ * 1000 + static_cast<std::uint64_t>(client));
    const int share = (kObjects + kClients - 1) / kClients;
    const int first = client * share;
    const int fresh = std::max(0, std::min(share, kObjects - first));
    for (int step = 0; step < fresh + kStepsPerClient;) {
      const int number =
          step < fresh ? first + step : static_cast<int>(random.below(static_cast<std::uint64_t>(kObjects)));
      auto done = co_await change(registry, number, step < fresh, &random);
      if (done) {
        ++step;
        ++steps_;
      } else if (is_interrupted(done.error())) {
        ++interrupted_;
        CO_TRY_VOID(co_await sleep_for(loop_, 20ms, token));
      } else {
        co_return done.error().error;
      }
    }
    --working_;
    co_return Result<void>();
  }

  static Task<registry::Answer<void>> change(RemoteRegistry* registry, int number, bool fresh,
                                             SeededRandom* random) {
    const ResourceName what = instance_named(fmt::format("o{}", number));
    const Json body = random_body(what.name, *random);
    registry::WriteOptions options;
    const std::uint64_t action = fresh ? 0 : random->below(10);
    registry::Answer<registry::Written> written;
    if (action == 0) {
      written = co_await registry->create(instance_named(""), without_nulls(body), options);
    } else if (action <= 2) {
      registry::DeleteOptions deletion;
      const auto deleted = co_await registry->remove(what, deletion);
      if (!deleted && !deleted.is(Errc::not_found)) co_return deleted.error();
    } else if (action <= 4) {
      ResourceName status = what;
      status.subresource = "status";
      const Json phase = Json::object({{"phase", random->chance(1, 2) ? "Active" : "Stopped"}});
      const Json patch = Json::object({{"status", phase}});
      written = co_await registry->patch(status, registry::PatchType::merge, patch, options);
    } else if (action <= 6) {
      registry::Answer<Json> live = co_await registry->get(what, "");
      if (!live && !live.is(Errc::not_found)) co_return live.error();
      if (!live) co_return registry::Answer<void>();
      const Json wanted = without_nulls(body);
      (*live)["metadata"].set("labels", *wanted.find_path({"metadata", "labels"}));
      (*live)["spec"].set("nodeID", *wanted.find_path({"spec", "nodeID"}));
      written = co_await registry->update(what, *live, options);
    } else {
      written = co_await registry->patch(what, registry::PatchType::merge, body, options);
    }
    // Others write the same objects: that one is there, gone or changed already is their right.
    const bool fine = written || written.is(Errc::not_found) || written.is(Errc::already_exists) ||
                      written.is(Errc::conflict);
    if (!fine) co_return written.error();
    co_return registry::Answer<void>();
  }

  // The last writes of the test, one into each watcher's view: when it is seen, so is all before it.
  Task<Result<void>> write_marks(RemoteRegistry* registry, std::vector<Selectors> all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      SeededRandom random(i);
      const std::string name = fmt::format("mark-{}", i);
      const auto labels = registry::LabelSelector::parse(all[i].labels);
      const auto fields = registry::FieldSelector::parse(all[i].fields);
      Json body;
      const auto is_in_view = [&] {
        const Json* metadata = body.find("metadata");
        const auto* kind = instance_named("").kind;
        if (!labels->matches(metadata->find("labels"))) return false;
        for (const auto& need : fields->requirements())
          if (need.field != "status.phase" &&
              (kind->field_value(body, need.field) == need.value) != need.equal)
            return false;
        return true;
      };
      do body = without_nulls(random_body(name, random));
      while (!is_in_view());
      registry::WriteOptions options;
      CO_TRY_VOID(drop_value(co_await registry->create(instance_named(""), body, options)));
      ResourceName status = instance_named(name);
      status.subresource = "status";
      const bool active = all[i].fields.find("status.phase=Active") != std::string::npos;
      const Json patch = Json::object({{"status", Json::object({{"phase", active ? "Active" : "Stopped"}})}});
      CO_TRY_VOID(drop_value(co_await registry->patch(status, registry::PatchType::merge, patch, options)));
    }
    co_return Result<void>();
  }
  static Result<void> drop_value(const registry::Answer<registry::Written>& written) {
    if (written) return {};
    return written.error().error;
  }

  Task<Result<void>> until(std::function<bool()> holds, std::string what, CancelToken token) {
    const TimePoint limit = loop_.clock().now() + 40s;
    while (!holds()) {
      if (loop_.clock().now() > limit) co_return make_error(Errc::timed_out, what);
      CO_TRY_VOID(co_await sleep_for(loop_, 10ms, token));
    }
    co_return Result<void>();
  }

  const std::uint64_t seed_ = test_seed();
  SeededRandom random_{seed_};
  Loop loop_;
  ServerProcess server_{random_};
  Operator operator_{server_};
  int steps_between_ = 0;
  int steps_ = 0;
  int working_ = 0;
  int restarts_ = 0;
  int interrupted_ = 0;
};

using Versions = std::map<std::string, std::string>;

Versions without_marks(Versions versions) {
  std::erase_if(versions, [](const auto& one) { return one.first.starts_with("mark-"); });
  return versions;
}

Versions versions_in(const Informer& informer) {
  Versions versions;
  informer.for_each([&versions](const Informer::Object& object) {
    versions[metadata_text(*object, "name")] = metadata_text(*object, "resourceVersion");
    return true;
  });
  return versions;
}

TEST_F(Crowd, EveryWatcherEndsWithWhatAListShows) {
  ASSERT_FALSE(server_.url().empty()) << server_.log();
  std::vector<std::unique_ptr<RemoteRegistry>> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(client());
  const auto watching = client();
  const auto raw = http::Client::make(loop_, server_.client_options());
  std::vector<Selectors> selectors;
  std::deque<Informer> informers;
  std::deque<WatchView> views;
  TaskGroup watchers(loop_);
  for (int i = 0; i < kInformers + kViews; ++i) {
    selectors.push_back(selectors_of(i));
    if (i >= kInformers) {
      watchers.spawn(views.emplace_back(loop_, **raw, selectors.back()).run(watchers.token()));
      continue;
    }
    registry::InformerOptions options;
    options.labels = *registry::LabelSelector::parse(selectors.back().labels);
    options.fields = *registry::FieldSelector::parse(selectors.back().fields);
    options.longest_pause = 500ms;
    informers.emplace_back(loop_, *watching, instance_named(""), std::move(options));
    watchers.spawn(informers.back().run(watchers.token()));
  }
  TaskGroup work(loop_);
  working_ = kClients;
  steps_between_ = (kObjects + kClients * kStepsPerClient) / static_cast<int>(std::size(kSignals) + 1);
  for (int i = 0; i < kClients; ++i)
    work.spawn(churn(clients[static_cast<std::size_t>(i)].get(), i, work.token()));
  work.spawn(disturb(work.token()));
  const auto worked = block_on(loop_, work.join());
  ASSERT_TRUE(worked.ok()) << worked.error().message;
  EXPECT_EQ(restarts_, static_cast<int>(std::size(kSignals)));
  EXPECT_GT(interrupted_, 0);
  EXPECT_EQ(server_.log().find(" code=5"), std::string::npos) << "a stop did not let requests finish";

  const auto marked = block_on(loop_, write_marks(watching.get(), selectors));
  ASSERT_TRUE(marked.ok()) << marked.error().message;
  int relists = 0;
  int entered = 0;
  int left = 0;
  for (std::size_t i = 0; i < selectors.size(); ++i) {
    SCOPED_TRACE(fmt::format("seed {} watcher {} labels '{}' fields '{}'", seed_, i, selectors[i].labels,
                             selectors[i].fields));
    const auto seen = [&] {
      return i < kInformers ? versions_in(informers[i]) : views[i - kInformers].versions();
    };
    const auto has_mark = [&] { return seen().contains(fmt::format("mark-{}", i)); };
    CancelToken never;
    const auto arrived = block_on(loop_, until(has_mark, "the mark did not arrive", never));
    ASSERT_TRUE(arrived.ok()) << arrived.error().message;
    registry::ListOptions options;
    options.labels = *registry::LabelSelector::parse(selectors[i].labels);
    options.fields = *registry::FieldSelector::parse(selectors[i].fields);
    const auto listed = block_on(loop_, watching->list(instance_named(""), options));
    ASSERT_TRUE(listed.ok());
    Versions truth;
    for (const auto& object : listed->items)
      truth[metadata_text(*object, "name")] = metadata_text(*object, "resourceVersion");
    EXPECT_EQ(without_marks(seen()), without_marks(truth));
    EXPECT_GT(without_marks(truth).size(), 0u);
    if (i < kInformers) {
      relists += static_cast<int>(informers[i].relists()) - 1;
      continue;
    }
    const WatchView& view = views[i - kInformers];
    EXPECT_EQ(view.broken_promises(), std::vector<std::string>());
    EXPECT_EQ(view.lists(), view.expired() + 1);
    relists += view.expired();
    entered += view.entered();
    left += view.left();
  }
  fmt::print("{} steps, {} interrupted, {} restarts; {} lists after a 410; views: {} entered, {} left\n",
             steps_, interrupted_, restarts_, relists, entered, left);
  EXPECT_GT(relists, 0) << "no watcher had to recover from a 410";
  EXPECT_GT(entered, kViews);
  EXPECT_GT(left, kViews);
  watchers.cancel();
  EXPECT_TRUE(block_on(loop_, watchers.join()).ok());
}

class Counting : public Crowd {
 protected:
  // Adds one to the sum and to its own count in the same write. Its own count tells it afterwards whether a
  // write that got no answer has happened.
  Task<Result<void>> count(RemoteRegistry* registry, int writer, CancelToken token) {
    const std::string own = fmt::format("writer-{}", writer);
    const ResourceName what = instance_named("counter");
    for (std::int64_t mine = 0; mine < kCountsEach;) {
      registry::Answer<Json> object = co_await registry->get(what, "");
      if (object) {
        Json& notes = (*object)["metadata"]["annotations"];
        mine = number_at(notes, own);
        if (mine >= kCountsEach) break;
        notes.set(own, std::to_string(mine + 1));
        notes.set("sum", std::to_string(number_at(notes, "sum") + 1));
        registry::WriteOptions options;
        const auto written = co_await registry->update(what, std::move(*object), options);
        if (written) {
          ++mine;
          ++steps_;
          continue;
        }
        if (written.is(Errc::conflict)) {
          ++conflicts_;
          continue;
        }
        if (!is_interrupted(written.error())) co_return written.error().error;
      } else if (!is_interrupted(object.error())) {
        co_return object.error().error;
      }
      ++interrupted_;
      CO_TRY_VOID(co_await sleep_for(loop_, 20ms, token));
    }
    --working_;
    co_return Result<void>();
  }
  static std::int64_t number_at(const Json& notes, std::string_view key) {
    const auto text = notes.get_string(key);
    return text ? std::stoll(std::string(*text)) : 0;
  }
  int conflicts_ = 0;
};

TEST_F(Counting, SixteenWritersLoseNoUpdateThroughTheDoor) {
  ASSERT_FALSE(server_.url().empty()) << server_.log();
  SeededRandom random(1);
  Json counter = without_nulls(random_body("counter", random));
  counter["metadata"].set("annotations", Json::object({{"sum", "0"}}));
  std::vector<std::unique_ptr<RemoteRegistry>> clients;
  for (int i = 0; i < kCounters; ++i) clients.push_back(client());
  registry::WriteOptions options;
  ASSERT_TRUE(block_on(loop_, clients[0]->create(instance_named(""), counter, options)).ok());
  TaskGroup work(loop_);
  working_ = kCounters;
  steps_between_ = kCounters * kCountsEach / static_cast<int>(std::size(kSignals) + 2);
  for (int i = 0; i < kCounters; ++i)
    work.spawn(count(clients[static_cast<std::size_t>(i)].get(), i, work.token()));
  work.spawn(disturb(work.token()));
  const auto worked = block_on(loop_, work.join());
  ASSERT_TRUE(worked.ok()) << worked.error().message;
  const registry::Answer<Json> final = block_on(loop_, clients[0]->get(instance_named("counter"), ""));
  ASSERT_TRUE(final.ok());
  const Json& notes = *final->find_path({"metadata", "annotations"});
  EXPECT_EQ(number_at(notes, "sum"), kCounters * kCountsEach);
  for (int i = 0; i < kCounters; ++i) EXPECT_EQ(number_at(notes, fmt::format("writer-{}", i)), kCountsEach);
  EXPECT_GT(conflicts_, 0);
  EXPECT_EQ(restarts_, static_cast<int>(std::size(kSignals)));
  fmt::print("{} conflicts, {} interrupted\n", conflicts_, interrupted_);
}

}  // namespace
}  // namespace moor::doors::e2e
