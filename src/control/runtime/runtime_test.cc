// Waking, working and writing: one key at a time, by key, under the leader's term.
#include "control/runtime/runtime.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "model/coordination/lease.h"
#include "model/core/pod.h"
#include "model/longhorn/volume.h"
#include "registry/namespaces.h"
#include "store/memory/memory_store.h"

namespace moor::control {
namespace {

using model::coordination::Lease;
using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

// Copies the holder of the Lease "source" into each Lease that it looks after, and counts its looks.
class Copier final : public Controller {
 public:
  explicit Copier(std::vector<std::string>& looks, Digest digest = nullptr)
      : looks_(looks), digest_(digest) {}
  std::string_view name() const override { return "copier"; }
  std::vector<Wake> wakes() const override {
    return {{&kind_of<Lease>(), [](const Json& object) {
               const Key key = key_by_name(object);
               return key.name.starts_with("copy") ? key : Key{};
             }}};
  }
  Plan reconcile(const View& view, const Key& key) const override {
    looks_.push_back(key.name);
    Plan plan;
    const auto copy = view.find<Lease>(key.space, key.name);
    const auto source = view.find<Lease>(key.space, "source", digest_);
    if (!copy || !source) return plan;
    Lease next = *copy;
    next.spec.holder_identity = source->spec.holder_identity;
    plan.update(copy, next);
    plan.guard(source);
    return plan;
  }

 private:
  std::vector<std::string>& looks_;
  Digest digest_;
};

// Adds one to the Lease "count", where there is one.
void count_in(const View& view, const std::string& space, Plan& plan) {
  const auto count = view.find<Lease>(space, "count", [](const Json*) -> std::uint64_t { return 0; });
  if (!count) return;
  Lease sum = *count;
  sum.spec.lease_transitions = sum.spec.lease_transitions.value_or(0) + 1;
  plan.update(count, sum);
}

// Each of its keys adds one to the Lease "count", once: a busy object that all of them write.
class Adder final : public Controller {
 public:
  std::string_view name() const override { return "adder"; }
  std::vector<Wake> wakes() const override {
    return {{&kind_of<Lease>(), [](const Json& object) {
               const Key key = key_by_name(object);
               return key.name.starts_with("add") ? key : Key{};
             }}};
  }
  Plan reconcile(const View& view, const Key& key) const override {
    Plan plan;
    const auto mine = view.find<Lease>(key.space, key.name);
    if (!mine || mine->spec.holder_identity.has_value()) return plan;
    Lease next = *mine;
    next.spec.holder_identity = "counted";
    plan.update(mine, next);
    count_in(view, key.space, plan);
    return plan;
  }
};

// Turns "asked" into "told" in each of its Leases, and says that this is all.
class Teller final : public Controller {
 public:
  explicit Teller(std::vector<std::string>& looks) : looks_(looks) {}
  std::string_view name() const override { return "teller"; }
  std::vector<Wake> wakes() const override { return {{&kind_of<Lease>(), key_by_name}}; }
  Plan reconcile(const View& view, const Key& key) const override {
    Plan plan;
    const auto mine = view.find<Lease>(key.space, key.name);
    if (!key.name.starts_with("tell")) return plan;
    looks_.push_back(key.name);
    if (!mine || mine->spec.holder_identity != "asked") return plan;
    Lease next = *mine;
    next.spec.holder_identity = "told";
    plan.update(mine, next);
    plan.settled = true;
    return plan;
  }

 private:
  std::vector<std::string>& looks_;
};

// Waits for objects to go.
class Waiter final : public Controller {
 public:
  explicit Waiter(std::vector<std::string>& looks) : looks_(looks) {}
  std::string_view name() const override { return "waiter"; }
  std::vector<Wake> wakes() const override {
    return {{.kind = &kind_of<Lease>(), .key = key_by_name, .known_only = true}};
  }
  Plan reconcile(const View&, const Key& key) const override {
    if (key.space == "default") looks_.push_back(key.name);
    return {};
  }

 private:
  std::vector<std::string>& looks_;
};

// Two controllers of one volume: the first gives it to a node, the second has it opened there.
class Giver final : public Controller {
 public:
  explicit Giver(std::vector<std::string>& looks, bool settled = true) : looks_(looks), settled_(settled) {}
  std::string_view name() const override { return "giver"; }
  std::string_view successor() const override { return "opener"; }
  std::vector<Wake> wakes() const override {
    return {{&kind_of<model::longhorn::Volume>(), key_by_name, digest_wish}};
  }
  Plan reconcile(const View& view, const Key& key) const override {
    looks_.push_back("giver");
    Plan plan;
    const auto volume = view.find<model::longhorn::Volume>(key.space, key.name);
    if (!volume || !volume->spec.node_id.empty()) return plan;
    model::longhorn::Volume next = *volume;
    next.spec.node_id = "node-1";
    plan.update(volume, next);
    count_in(view, key.space, plan);
    plan.settled = settled_;
    return plan;
  }

 private:
  std::vector<std::string>& looks_;
  bool settled_;
};

class Opener final : public Controller {
 public:
  explicit Opener(std::vector<std::string>& looks) : looks_(looks) {}
  std::string_view name() const override { return "opener"; }
  // By volumes that are given to a node.
  std::vector<Wake> wakes() const override {
    return {{&kind_of<model::longhorn::Volume>(), [](const Json& object) {
               return object.find_path({"spec", "nodeID"}) != nullptr ? key_by_name(object) : Key{};
             }}};
  }
  Plan reconcile(const View& view, const Key& key) const override {
    using State = model::longhorn::VolumeState;
    looks_.push_back("opener");
    Plan plan;
    const auto volume = view.find<model::longhorn::Volume>(key.space, key.name);
    if (!volume || volume->spec.node_id.empty() || volume->status.state == State::attaching) return plan;
    model::longhorn::Volume next = *volume;
    next.status.state = State::attaching;
    plan.update_status(volume, next);
    count_in(view, key.space, plan);
    plan.settled = true;
    return plan;
  }

 private:
  std::vector<std::string>& looks_;
};

class Runtimes : public testing::Test {
 protected:
  Runtimes() {
    executor_.set_auto_advance(false);
    base_.spawn(registry_.run(base_.token()));
    EXPECT_TRUE(block_on(executor_, registry::ensure_namespaces(registry_)).ok());
  }
  ~Runtimes() override {
    stop();
    base_.cancel();
    EXPECT_TRUE(block_on(executor_, base_.join()).ok());
  }
  void start(Digest digest = nullptr) { start(std::make_unique<Copier>(looks_, digest)); }
  void start(std::unique_ptr<Controller> controller) {
    std::vector<std::unique_ptr<Controller>> controllers;
    controllers.push_back(std::move(controller));
    start(std::move(controllers));
  }
  void start(std::vector<std::unique_ptr<Controller>> controllers) {
    runtime_ = std::make_unique<Runtime>(registry_, std::move(controllers));
    election_ = std::make_unique<LeaderElection>(registry_, *runtime_, LeaderOptions{.identity = "one"});
    group_ = std::make_unique<TaskGroup>(executor_);
    group_->spawn(election_->run(group_->token()));
    settle();
  }
  void stop() {
    if (group_ == nullptr) return;
    group_->cancel();
    EXPECT_TRUE(block_on(executor_, group_->join()).ok());
    group_.reset();
  }
  void settle() {
    for (int i = 0; i < 20; ++i) executor_.advance(5ms);
  }
  void put(const std::string& name, const std::string& spec) {
    const bool there = registry_.find(kind_of<Lease>(), "default", name) != nullptr;
    registry::ResourceName what{&kind_of<Lease>(), "default", there ? name : "", ""};
    Json object = *parse_json(fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{}}})", name, spec));
    const auto done = there ? block_on(executor_, registry_.update(what, object, {}))
                            : block_on(executor_, registry_.create(what, object, {}));
    ASSERT_TRUE(done.ok()) << done.error().error.message;
    settle();
  }
  std::string holder(const std::string& name, const std::string& space = "default") {
    const JsonPtr lease = registry_.find(kind_of<Lease>(), space, name);
    const Json* found = lease == nullptr ? nullptr : lease->find_path({"spec", "holderIdentity"});
    return found == nullptr ? "-" : std::string(found->as_string());
  }

  ManualExecutor executor_;
  SeededRandom random_{3};
  std::unique_ptr<store::Store> store_ = store::make_memory_store(executor_);
  registry::LocalRegistry registry_{executor_, *store_, random_};
  TaskGroup base_{executor_};
  std::vector<std::string> looks_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LeaderElection> election_;
  std::unique_ptr<TaskGroup> group_;
};

TEST_F(Runtimes, AKeyIsWokenByItsOwnObjectAndByWhatItRead) {
  put("copy-1", "{}");
  put("source", R"({"holderIdentity":"x"})");
  start();
  EXPECT_EQ(holder("copy-1"), "x");
  put("source", R"({"holderIdentity":"y"})");
  EXPECT_EQ(holder("copy-1"), "y");
}

TEST_F(Runtimes, NothingElseWakesIt) {
  put("copy-1", "{}");
  start();
  looks_.clear();
  put("other", R"({"holderIdentity":"x"})");
  EXPECT_THAT(looks_, IsEmpty());
  put("source", R"({"holderIdentity":"x"})");  // it was looked for and was not there
  EXPECT_EQ(holder("copy-1"), "x");
}

TEST_F(Runtimes, AChangeOutsideTheDigestWakesNobody) {
  put("copy-1", "{}");
  put("source", R"({"holderIdentity":"x"})");
  start([](const Json* lease) -> std::uint64_t {
    const Json* found = lease == nullptr ? nullptr : lease->find_path({"spec", "holderIdentity"});
    return found == nullptr ? 0 : std::hash<std::string_view>()(found->as_string());
  });
  looks_.clear();
  put("source", R"({"holderIdentity":"x","leaseDurationSeconds":9})");
  EXPECT_THAT(looks_, IsEmpty());
  put("source", R"({"holderIdentity":"y","leaseDurationSeconds":9})");
  EXPECT_EQ(holder("copy-1"), "y");
}

TEST_F(Runtimes, WhatIsNewWakesNobodyWhoOnlyWaitsForItToGo) {
  put("before", "{}");
  start(std::make_unique<Waiter>(looks_));
  put("one", "{}");
  EXPECT_THAT(looks_, IsEmpty());
  put("one", R"({"holderIdentity":"x"})");
  EXPECT_THAT(looks_, ElementsAre("one"));
  for (const char* name : {"one", "before"}) {
    const registry::ResourceName what{&kind_of<Lease>(), "default", name, ""};
    ASSERT_TRUE(block_on(executor_, registry_.remove(what, {})).ok());
    settle();
  }
  EXPECT_THAT(looks_, ElementsAre("one", "one", "before"));
}

TEST_F(Runtimes, PlansForOneBusyObjectComeOneAfterTheOtherAndNoneIsLost) {
  put("count", "{}");
  for (int i = 0; i < 40; ++i) put(fmt::format("add-{}", i), "{}");
  start(std::make_unique<Adder>());
  const JsonPtr count = registry_.find(kind_of<Lease>(), "default", "count");
  EXPECT_EQ(count->find("spec")->get_int64("leaseTransitions"), 40);
  EXPECT_EQ(runtime_->stats(0).commits, 40u);
  EXPECT_EQ(runtime_->stats(0).conflicts, 0u);
}

TEST_F(Runtimes, ASettledPlanWakesItsOwnKeyNoMoreAndEverybodyElsesWriteDoes) {
  start(std::make_unique<Teller>(looks_));
  put("tell-1", R"({"holderIdentity":"asked"})");
  EXPECT_EQ(holder("tell-1"), "told");
  EXPECT_THAT(looks_, ElementsAre("tell-1"));
  put("tell-1", R"({"holderIdentity":"asked"})");  // from the very version that it wrote
  EXPECT_EQ(holder("tell-1"), "told");
  EXPECT_THAT(looks_, ElementsAre("tell-1", "tell-1"));
  put("tell-1", R"({"holderIdentity":"somebody"})");
  EXPECT_THAT(looks_, ElementsAre("tell-1", "tell-1", "tell-1"));
}

// As versions go: the one that made it, and what the controllers wrote.
class Successors : public Runtimes {
 protected:
  Json make_volume() {
    const registry::ResourceName where{&kind_of<model::longhorn::Volume>(), "default", "", ""};
    const auto made =
        block_on(executor_, registry_.create(where, *parse_json(R"({"metadata":{"name":"v"}})"), {}));
    EXPECT_TRUE(made.ok());
    settle();
    return *registry_.find(*where.kind, "default", "v");
  }
  void start_both(bool settled) {
    std::vector<std::unique_ptr<Controller>> controllers;
    controllers.push_back(std::make_unique<Giver>(looks_, settled));
    controllers.push_back(std::make_unique<Opener>(looks_));
    start(std::move(controllers));
  }
};

TEST_F(Successors, PlanForTheSameTransactionAndNobodyIsWokenByIt) {
  start_both(true);
  const Json volume = make_volume();
  EXPECT_EQ(*volume.find_path({"spec", "nodeID"}), Json("node-1"));
  EXPECT_EQ(*volume.find_path({"status", "state"}), Json("attaching"));
  EXPECT_EQ(runtime_->stats(0).commits, 1u);
  EXPECT_EQ(runtime_->stats(0).writes, 1u);
  EXPECT_EQ(runtime_->stats(1).commits, 0u) << "it travelled with the first";
  EXPECT_EQ(runtime_->stats(1).writes, 1u);
  EXPECT_THAT(looks_, ElementsAre("giver", "opener"));
}

TEST_F(Successors, WriteByThemselvesWhatTheFirstOneWritesToo) {
  put("count", "{}");
  start_both(true);
  const Json volume = make_volume();
  EXPECT_EQ(*volume.find_path({"status", "state"}), Json("attaching"));
  const JsonPtr count = registry_.find(kind_of<Lease>(), "default", "count");
  EXPECT_EQ(count->find("spec")->get_int64("leaseTransitions"), 2);
  EXPECT_EQ(runtime_->stats(0).commits, 1u);
  EXPECT_EQ(runtime_->stats(1).commits, 1u);
}

TEST_F(Successors, AFirstPlanThatIsNotSettledIsLookedAtAgain) {
  start_both(false);
  const Json volume = make_volume();
  EXPECT_EQ(*volume.find_path({"status", "state"}), Json("attaching"));
  EXPECT_EQ(std::count(looks_.begin(), looks_.end(), "giver"), 2);
}

TEST_F(Runtimes, FiguresAreKeptPerController) {
  put("copy-1", "{}");
  put("source", R"({"holderIdentity":"x"})");
  start();
  const ControllerStats stats = runtime_->stats(0);
  EXPECT_GE(stats.reconciles, 2u);
  EXPECT_EQ(stats.writes, 1u);
  EXPECT_EQ(stats.commits, 1u);
  EXPECT_EQ(stats.errors, 0u);
  EXPECT_EQ(stats.waiting, 0u);
}

TEST_F(Runtimes, ALeaderThatWasReplacedWritesNothingS39) {
  put("copy-1", "{}");
  start();
  // Another server takes the term; this one has not heard of it.
  const JsonPtr term = registry_.find(kind_of<Lease>(), "longhorn-system", "mooring-controllers-term");
  ASSERT_NE(term, nullptr);
  Json other = *term;
  other["spec"].set("holderIdentity", "two");
  ASSERT_TRUE(block_on(executor_,
                       registry_.update(
                           {&kind_of<Lease>(), "longhorn-system", "mooring-controllers-term", ""}, other, {}))
                  .ok());
  put("source", R"({"holderIdentity":"x"})");
  EXPECT_EQ(holder("copy-1"), "-");
  EXPECT_GE(runtime_->stats(0).conflicts, 1u);
}

TEST_F(Runtimes, TheLeaseIsRenewedAndGivenBackAtTheEnd) {
  start();
  EXPECT_TRUE(election_->is_leader());
  EXPECT_EQ(holder("mooring-controllers", "longhorn-system"), "one");
  const JsonPtr before = registry_.find(kind_of<Lease>(), "longhorn-system", "mooring-controllers");
  executor_.advance(6s);
  EXPECT_FALSE(*registry_.find(kind_of<Lease>(), "longhorn-system", "mooring-controllers") == *before);
  stop();
  EXPECT_EQ(holder("mooring-controllers", "longhorn-system"), "");
}

TEST_F(Runtimes, AnotherServersLeaseIsRespectedUntilItRunsOut) {
  const auto put_lease = [&](const char* name) {
    Json object = *parse_json(fmt::format(
        R"({{"metadata":{{"name":"{}"}},"spec":{{"holderIdentity":"two","leaseTransitions":4}}}})", name));
    ASSERT_TRUE(
        block_on(executor_, registry_.create({&kind_of<Lease>(), "longhorn-system", "", ""}, object, {}))
            .ok());
  };
  put_lease("mooring-controllers");
  put_lease("mooring-controllers-term");
  start();
  executor_.advance(10s);
  EXPECT_FALSE(election_->is_leader());
  executor_.advance(8s);
  EXPECT_TRUE(election_->is_leader());
  const JsonPtr term = registry_.find(kind_of<Lease>(), "longhorn-system", "mooring-controllers-term");
  EXPECT_EQ(term->find_path({"spec", "leaseTransitions"})->to_int64(), 5);
}

TEST(Queue, AKeyIsWorkedOnByOneAtATimeAndComesAgainWhenItChangedMeanwhile) {
  ManualExecutor executor;
  KeyedQueue queue(executor);
  const Key key{"", "a"};
  queue.add(key);
  queue.add(key);
  EXPECT_EQ(queue.waiting(), 1u);
  EXPECT_EQ(block_on(executor, queue.next({}))->name, "a");
  queue.add(key);
  EXPECT_EQ(queue.waiting(), 0u);
  queue.done(key, std::nullopt);
  EXPECT_EQ(queue.waiting(), 1u);
}

TEST(Queue, FailuresPauseLongerAndLongerAndSuccessEndsThat) {
  ManualExecutor executor;
  executor.set_auto_advance(false);
  KeyedQueue queue(executor);
  const Key key{"", "a"};
  for (const auto pause : {10ms, 20ms, 40ms}) {
    queue.add(key);
    ASSERT_TRUE(block_on(executor, queue.next({})).ok());
    queue.failed(key, 10ms);
    executor.advance(pause - 1ms);
    EXPECT_EQ(queue.waiting(), 0u);
    executor.advance(1ms);
    EXPECT_EQ(queue.waiting(), 1u);
  }
  ASSERT_TRUE(block_on(executor, queue.next({})).ok());
  queue.done(key, Duration(5ms));
  executor.advance(5ms);
  EXPECT_EQ(queue.waiting(), 1u);
}

// A queue that lets two things be begun at once, and what a test does with it.
class Beginning : public testing::Test {
 protected:
  Beginning() { executor_.set_auto_advance(false); }
  void ask(const std::vector<std::string>& names) {
    for (const std::string& name : names) queue_.add_new({"", name});
  }
  // Takes all that is let in.
  std::vector<std::string> take() {
    std::vector<std::string> names;
    while (true) {
      CancelSource source;
      auto next = queue_.next(source.token());
      std::optional<Result<Key>> key;
      detail::run_into(std::move(next), &key);
      executor_.run_ready();
      if (!key) {
        source.cancel(make_error(Errc::cancelled, "nothing there"));
        executor_.run_ready();
        return names;
      }
      names.push_back((*key)->name);
    }
  }
  void end(const std::string& name, bool unfinished) { queue_.done({"", name}, std::nullopt, unfinished); }

  ManualExecutor executor_;
  Gate gate_{executor_, {.begun_at_once = 2, .begun_counts_for = 1s}};
  KeyedQueue queue_{executor_, &gate_};
};

TEST_F(Beginning, WhatIsBegunIsFinishedBeforeMoreIsBegun) {
  ask({"a", "b", "c", "d", "c"});
  EXPECT_EQ(queue_.waiting(), 4u);
  EXPECT_THAT(take(), ElementsAre("a", "b"));
  end("a", true);
  end("b", true);
  EXPECT_THAT(take(), IsEmpty());
  queue_.add({"", "a"});  // its agent reports
  queue_.add_new({"", "b"});
  EXPECT_THAT(take(), ElementsAre("a", "b"));
  end("b", true);
  end("a", false);
  EXPECT_THAT(take(), ElementsAre("c"));
  end("c", false);
  EXPECT_THAT(take(), ElementsAre("d"));
  end("d", false);
  EXPECT_EQ(queue_.waiting(), 0u);
}

TEST_F(Beginning, WhatIsStuckHoldsNobodyUpForLong) {
  ask({"a", "b", "c", "d", "e"});
  take();
  end("a", true);
  end("b", true);
  executor_.advance(500ms);
  EXPECT_THAT(take(), IsEmpty());
  executor_.advance(500ms);
  EXPECT_THAT(take(), ElementsAre("c", "d"));
  queue_.failed({"", "c"}, 10ms);
  end("d", true);
  EXPECT_THAT(take(), IsEmpty());
  executor_.advance(1s);
  EXPECT_THAT(take(), ElementsAre("c", "e"));
}

TEST_F(Beginning, IsCountedOverAllQueuesOfAGate) {
  KeyedQueue other(executor_, &gate_);
  ask({"a"});
  other.add_new({"", "b"});
  ask({"c"});
  other.add_new({"", "a"});  // begun already, by the first queue
  EXPECT_THAT(take(), ElementsAre("a"));
  EXPECT_EQ(other.waiting(), 2u);
  EXPECT_FALSE(other.try_take({"", "b"})) << "it waits there";
  EXPECT_FALSE(other.try_take({"", "d"})) << "no room";
  end("a", false);
  EXPECT_THAT(take(), ElementsAre("c"));
}

TEST_F(Beginning, AKeyThatWasTakenOutOfTurnIsNobodyElsesUntilItIsDone) {
  const Key key{"", "a"};
  ASSERT_TRUE(queue_.try_take(key));
  EXPECT_FALSE(queue_.try_take(key));
  queue_.add(key);
  EXPECT_THAT(take(), IsEmpty());
  queue_.put_back(key);
  EXPECT_THAT(take(), ElementsAre("a"));
  end("a", false);
  EXPECT_EQ(queue_.waiting(), 0u);
}

TEST_F(Beginning, WhoeverIsWokenBySomethingElseIsNotHeldBack) {
  ask({"a", "b", "c"});
  queue_.add({"", "c"});
  EXPECT_THAT(take(), ElementsAre("a", "b", "c"));
  end("a", false);
  EXPECT_THAT(take(), IsEmpty());
  EXPECT_EQ(queue_.waiting(), 0u);
}

TEST(Decoding, AnObjectIsDecodedOncePerVersionAndForgottenWithIt) {
  Decoder decoder;
  auto json = std::make_shared<const Json>(*parse_json(R"({"metadata":{"name":"a"},"spec":{}})"));
  const auto first = decoder.get<Lease>(json);
  EXPECT_EQ(decoder.get<Lease>(json), first);
  // What is not asked for again goes with the second sweep.
  for (int i = 0; i < 40'000; ++i) decoder.get<Lease>(std::make_shared<const Json>(*json));
  EXPECT_LE(decoder.size(), 2 * 8200u);
  const std::size_t before = decoder.size();
  const auto last = std::make_shared<const Json>(*json);
  decoder.get<Lease>(last);
  decoder.forget(last.get());
  EXPECT_EQ(decoder.size(), before);
}

TEST(Decoding, ANewVersionTakesThePlaceOfOneThatWasAskedFor) {
  Decoder decoder;
  const auto make = [](const char* holder) {
    return std::make_shared<const Json>(Json::object(
        {{"metadata", Json::object({{"name", "a"}})}, {"spec", Json::object({{"holderIdentity", holder}})}}));
  };
  const JsonPtr first = make("one");
  JsonPtr second = make("two");
  decoder.replace(first.get(), second);
  EXPECT_EQ(decoder.size(), 0u);  // nobody has asked for it
  decoder.get<Lease>(first);
  decoder.replace(first.get(), second);
  EXPECT_EQ(decoder.size(), 1u);
  EXPECT_EQ(second.use_count(), 2);  // held, so that it need not be read from its text
  EXPECT_EQ(decoder.get<Lease>(second)->spec.holder_identity, "two");
  decoder.replace(second.get(), nullptr);
  EXPECT_EQ(decoder.size(), 0u);
}

}  // namespace
}  // namespace moor::control
