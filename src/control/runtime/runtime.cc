#include "control/runtime/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/assert.h"
#include "base/log.h"
#include "base/plant.h"
#include "base/yield.h"
#include "control/runtime/outcome.h"
#include "model/coordination/lease.h"
#include "model/longhorn/group.h"
#include "registry/keys.h"
#include "registry/prepare.h"

namespace moor::control {
namespace {

constexpr std::string_view kNodeLeases = "mooring-node-lease";
// A conflict is normal and cured by reading; other failures are not cured by hurry.
constexpr Duration kConflictPause = std::chrono::milliseconds(2);
constexpr Duration kErrorPause = std::chrono::milliseconds(50);

}  // namespace

Key key_by_name(const Json& object) {
  return {registry::metadata_text(object, "namespace"), registry::metadata_text(object, "name")};
}

Key key_by_volume_label(const Json& object) {
  const Json* labels = object.find_path({"metadata", "labels"});
  if (labels == nullptr) return {};
  return {registry::metadata_text(object, "namespace"),
          std::string(labels->get_string(model::longhorn::kVolumeLabel).value_or(""))};
}

std::uint64_t digest_life(const Json* object) {
  const Json* metadata = object == nullptr ? nullptr : object->find("metadata");
  if (metadata == nullptr) return 0;
  const Json* finalizers = metadata->find("finalizers");
  const std::uint64_t parts[] = {
      std::hash<std::string_view>()(metadata->get_string("uid").value_or("")),
      std::hash<std::string_view>()(metadata->get_string("deletionTimestamp").value_or("")),
      finalizers == nullptr ? 0 : finalizers->size()};
  std::uint64_t digest = 1;
  for (const std::uint64_t part : parts) digest = digest * 1099511628211u + part;
  return digest == 0 ? 1 : digest;  // 0: there is none
}

std::uint64_t digest_wish(const Json* object) {
  const Json* metadata = object == nullptr ? nullptr : object->find("metadata");
  if (metadata == nullptr) return 0;
  const auto generation = static_cast<std::uint64_t>(metadata->get_int64("generation").value_or(0));
  const std::uint64_t digest = digest_life(object) * 1099511628211u + generation;
  return digest == 0 ? 1 : digest;
}

struct Runtime::Lane {
  Lane(std::size_t index_, std::unique_ptr<Controller> controller_, Executor& executor, Gate* gate)
      : index(index_), controller(std::move(controller_)), queue(executor, gate) {
    for (const Wake& wake : controller->wakes()) family.insert(wake.kind);
  }
  std::size_t index;
  std::unique_ptr<Controller> controller;
  KeyedQueue queue;
  std::set<const model::KindInfo*> family;
  FlatMap<Key, std::vector<Reads::Read>, KeyHash> reads;  // what each key's last look read
  OwnWrites own;
  Lane* successor = nullptr;
  // Keys whose plan was refused when the successor had joined it: the next look at them is by itself.
  std::unordered_set<Key, KeyHash> alone;
  std::size_t under_way = 0;
  ControllerStats stats;
};

Runtime::Runtime(registry::LocalRegistry& registry, std::vector<std::unique_ptr<Controller>> controllers,
                 registry::EventRecorder* events, RuntimeOptions options)
    : registry_(registry),
      events_(events),
      options_(std::move(options)),
      source_(registry),
      turns_(registry.executor()),
      gate_(registry.executor(), options_.limits) {
  for (auto& controller : controllers) {
    const std::size_t index = lanes_.size();
    bool begins = false;
    for (const Wake& wake : controller->wakes()) {
      wakes_[wake.kind].emplace_back(index, wake);
      begins = begins || wake.begins;
    }
    lanes_.push_back(
        std::make_unique<Lane>(index, std::move(controller), registry.executor(), begins ? &gate_ : nullptr));
  }
  for (const auto& lane : lanes_)
    for (const auto& other : lanes_)
      if (lane != other && lane->controller->successor() == other->controller->name())
        lane->successor = other.get();
}

Runtime::~Runtime() = default;

std::vector<std::string_view> Runtime::names() const {
  std::vector<std::string_view> names;
  for (const auto& lane : lanes_) names.push_back(lane->controller->name());
  return names;
}

ControllerStats Runtime::stats(std::size_t controller) const {
  ControllerStats stats = lanes_[controller]->stats;
  stats.waiting = lanes_[controller]->queue.waiting();
  return stats;
}

bool Runtime::is_idle() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const auto& lane) { return lane->queue.waiting() == 0 && lane->under_way == 0; });
}

Task<Result<void>> Runtime::lead(registry::Guard term, CancelToken token) {
  TaskGroup group(registry_.executor(), token);
  group.spawn(listen(group.token()));
  for (const auto& lane : lanes_)
    for (std::size_t i = 0; i < options_.workers; ++i) group.spawn(work(*lane, term, group.token()));
  co_return co_await group.join();
}

Task<Result<void>> Runtime::listen(CancelToken token) {
  CO_TRY_VOID(co_await registry_.cache().wait_for(0, token));
  while (true) {
    CO_TRY(auto subscription, registry_.subscribe({"", std::nullopt}, registry_.cache().revision()));
    heartbeats_.clear();
    for (const auto& lane : lanes_) lane->own.clear();
    registry_.cache().for_each("", [this](const store::ObjectPtr& object) {
      notice(store::Change{object->entry.revision, nullptr, object});
      return true;
    });
    while (true) {
      auto changes = co_await subscription->next(token);
      if (changes.is(Errc::expired)) break;  // too much at once: look at everything again
      if (!changes) co_return changes.error();
      for (const store::ChangePtr& change : *changes) notice(*change);
    }
  }
}

namespace {

// Whose look a change calls for, by the rules of a family: none, one key, or the two that it goes between.
template <class Visit>
void for_each_woken(const Wake& wake, const JsonPtr& before, const JsonPtr& after, Visit visit) {
  if (wake.known_only && before == nullptr) return;
  if (wake.digest != nullptr && wake.digest(before.get()) == wake.digest(after.get())) return;
  if (wake.same != nullptr && before != nullptr && after != nullptr && wake.same(*before, *after)) return;
  for (const JsonPtr& side : {before, after}) {
    if (side == nullptr) continue;
    Key key = wake.key(*side);
    if (!key.name.empty()) visit(std::move(key));
  }
}

}  // namespace

void Runtime::notice(const store::Change& change) {
  const registry::KeyParts parts = registry::split_key(change.key());
  if (parts.kind == nullptr) return;
  const JsonPtr before = change.before == nullptr ? nullptr : registry::object_of(*change.before);
  const JsonPtr after = change.after == nullptr ? nullptr : registry::object_of(*change.after);
  if (parts.space == kNodeLeases && parts.kind == &kind_of<model::coordination::Lease>()) {
    const std::string node(parts.name);
    if (after != nullptr) {
      heartbeats_[node] = registry_.executor().clock().now();
    } else {
      heartbeats_.erase(node);
    }
  }
  Writers writers(lanes_.size());
  for (const auto& lane : lanes_) writers[lane->index] = lane->own.take(change);
  if (before != nullptr) decoder_.replace(before.get(), after);
  if (const auto found = wakes_.find(parts.kind); found != wakes_.end()) {
    for (const auto& [lane, wake] : found->second) {
      KeyedQueue& queue = lanes_[lane]->queue;
      for_each_woken(wake, before, after, [&, lane = lane, &wake = wake](const Key& key) {
        if (writers[lane] == key) return;
        if (wake.delay != Duration(0)) {
          queue.add_later(key, wake.delay);
        } else if (wake.begins) {
          queue.add_new(key);
        } else {
          queue.add(key);
        }
      });
    }
  }
  wake_readers(change.key(), before.get(), after.get(), writers);
  // Readers of everything of a kind, in its namespace or in all: the key begins with their prefixes.
  std::string_view prefix = std::string_view(change.key()).substr(0, change.key().size() - parts.name.size());
  wake_readers(prefix, before.get(), after.get(), writers);
  if (parts.space.empty()) return;
  prefix.remove_suffix(parts.space.size() + 1);
  wake_readers(prefix, before.get(), after.get(), writers);
}

void Runtime::wake_readers(std::string_view key, const Json* before, const Json* after,
                           const Writers& writers) {
  const auto found = dependents_.find(key);
  if (found == dependents_.end()) return;
  // Every volume reads its nodes and the settings: each digest is taken once, not once per reader.
  for (const auto& [digest, readers] : found->second) {
    if (digest != nullptr && digest(before) == digest(after)) continue;
    // In the order of their names: what happens next must not hang on where they lie in memory.
    std::vector<Dependent> in_order(readers.begin(), readers.end());
    std::sort(in_order.begin(), in_order.end());
    for (const Dependent& dependent : in_order)
      if (writers[dependent.lane] != dependent.key) lanes_[dependent.lane]->queue.add(dependent.key);
  }
}

void Runtime::forget_read(const Dependent& dependent, const Reads::Read& read) {
  const auto found = dependents_.find(read.key);
  if (found == dependents_.end()) return;
  for (auto& [digest, readers] : found->second)
    if (digest == read.digest) readers.erase(dependent);
  std::erase_if(found->second, [](const auto& group) { return group.second.empty(); });
  if (found->second.empty()) dependents_.erase(found);
}

void Runtime::note_read(const Dependent& dependent, const Reads::Read& read) {
  auto& groups = dependents_[read.key];
  for (auto& [digest, readers] : groups) {
    if (digest != read.digest) continue;
    readers.insert(dependent);
    return;
  }
  groups.push_back({read.digest, {dependent}});
}

void Runtime::remember_reads(Lane& lane, const Key& key, const Reads& reads) {
  std::vector<Reads::Read>& known = lane.reads[key];
  const Dependent dependent{lane.index, key};
  const auto has = [](const std::vector<Reads::Read>& all, const Reads::Read& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  for (const Reads::Read& read : known)
    if (!has(reads.reads, read)) forget_read(dependent, read);
  for (const Reads::Read& read : reads.reads)
    if (!has(known, read)) note_read(dependent, read);
  known = reads.reads;
  if (known.empty()) lane.reads.erase(key);
}

View::Moment Runtime::moment() const {
  const Clock& clock = registry_.executor().clock();
  return {model::Time(clock.wall().since_epoch), clock.now(), &heartbeats_};
}

Task<Result<void>> Runtime::work(Lane& lane, registry::Guard term, CancelToken token) {
  while (true) {
    CO_TRY(const Key key, co_await lane.queue.next(token));
    const TimePoint start = registry_.executor().clock().now();
    ++lane.under_way;
    const auto done = co_await look_at(lane, key, term, token);
    --lane.under_way;
    const Duration took = registry_.executor().clock().now() - start;
    lane.stats.busy += took;
    lane.stats.longest = std::max(lane.stats.longest, took);
    if (!done) {
      if (MOOR_PLANT("control-conflict-forgotten") && done.is(Errc::conflict))
        lane.queue.done(key, {});
      else
        lane.queue.failed(key, done.is(Errc::conflict) ? kConflictPause : kErrorPause);
      if (done.is(Errc::conflict)) CO_TRY_VOID(co_await registry_.catch_up());
    }
    co_await Yield{registry_.executor()};  // a look may have needed no waiting
  }
}

namespace {

std::vector<std::string> written_keys(const Plan& plan) {
  std::vector<std::string> keys;
  for (const registry::Mutation& write : plan.writes) {
    const bool named = !write.what.name.empty();
    keys.push_back(registry::key_of(*write.what.kind, write.what.space,
                                    named ? write.what.name : registry::metadata_text(write.object, "name")));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());  // spec and status of one object
  return keys;
}

}  // namespace

// One look, with what the successor makes of it, until it is written.
struct Runtime::Turn {
  explicit Turn(WriteTurns& turns_) : turns(turns_) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { turns.give_back(keys); }

  WriteTurns& turns;
  std::vector<std::string> keys;  // taken
  Plan plan;                      // of both
  bool settled = false;           // what is written need not wake the lane's own key
  store::Revision seen = 0;       // by the plan
  View::Moment moment = {};       // of the look that made it

  Lane* successor = nullptr;  // whose key is taken too
  std::optional<Plan> next;   // what the successor says, if it was asked; its writes are in the plan
};

namespace {

bool is_same_object(const registry::ResourceName& left, const registry::ResourceName& right) {
  return left.kind == right.kind && left.name == right.name && left.space == right.space;
}

// Whether both write the same part of an object.
bool clash(const std::vector<registry::Mutation>& writes, const std::vector<registry::Mutation>& more) {
  using Type = registry::Mutation::Type;
  for (const registry::Mutation& left : writes)
    for (const registry::Mutation& right : more)
      if (is_same_object(left.what, right.what) && (left.type != Type::update || right.type != Type::update ||
                                                    left.what.subresource == right.what.subresource))
        return true;
  return false;
}

}  // namespace

// Not for what begins and ends objects, which is known only when it is written.
void Runtime::ask_successor(Lane& lane, const Key& key, Turn& turn) {
  turn.settled = turn.plan.settled;
  turn.next.reset();
  if (lane.successor == nullptr || turn.plan.writes.empty() || lane.alone.erase(key) > 0) return;
  Lane& next = *lane.successor;
  const std::optional<Outcome> outcome = Outcome::of(turn.plan, source_);
  if (!outcome) return;
  const auto wakes = [&](const Lane& whom, const std::vector<Outcome::Change>& changes) {
    bool woken = false;
    for (const Outcome::Change& change : changes)
      if (const auto found = wakes_.find(change.kind); found != wakes_.end())
        for (const auto& [index, wake] : found->second)
          if (index == whom.index)
            for_each_woken(wake, change.before, change.after,
                           [&](const Key& whose) { woken = woken || whose == key; });
    return woken;
  };
  if (!wakes(next, outcome->changes())) return;
  if (turn.successor == nullptr && !next.queue.try_take(key)) return;
  turn.successor = &next;
  ++next.stats.reconciles;
  const View view(*outcome, decoder_, turn.moment, {key, &next.family});
  Plan& more = turn.next.emplace(next.controller->reconcile(view, key));
  remember_reads(next, key, view.reads());
  for (const Outcome::Change& change : outcome->changes()) decoder_.forget(change.after.get());
  if (more.writes.empty()) return;
  // Two changes of one thing are no transaction: the successor then hears of the plan as ever.
  if (clash(turn.plan.writes, more.writes)) return turn.next.reset();
  const std::optional<Outcome> end = Outcome::of(more, *outcome);
  turn.settled = turn.settled && end;
  if (turn.settled && wakes(lane, end->changes())) {
    ++lane.stats.reconciles;
    const View last(*end, decoder_, turn.moment, {key, &lane.family});
    const Plan again = lane.controller->reconcile(last, key);
    turn.settled = again.writes.empty();
    if (turn.settled) remember_reads(lane, key, last.reads());
    if (turn.settled) turn.plan.again_after = again.again_after;
  }
  if (end)
    for (const Outcome::Change& change : end->changes()) decoder_.forget(change.after.get());
  // Parts of one object follow each other.
  std::vector<registry::Mutation>& writes = turn.plan.writes;
  for (registry::Mutation& write : more.writes) {
    auto place = std::find_if(writes.begin(), writes.end(), [&](const registry::Mutation& one) {
      return is_same_object(one.what, write.what);
    });
    if (place != writes.end()) ++place;
    writes.insert(place, std::move(write));
  }
  std::move(more.guards.begin(), more.guards.end(), std::back_inserter(turn.plan.guards));
  std::move(more.reasons.begin(), more.reasons.end(), std::back_inserter(turn.plan.reasons));
  std::move(more.events.begin(), more.events.end(), std::back_inserter(turn.plan.events));
}

Task<Result<void>> Runtime::plan_in_turn(Lane& lane, Key key, Turn* turn, CancelToken token) {
  std::string called;  // the object that we waited for
  while (true) {
    ++lane.stats.reconciles;
    turn->moment = moment();
    const View view(source_, decoder_, turn->moment, {key, &lane.family});
    turn->seen = registry_.cache().revision();
    turn->plan = lane.controller->reconcile(view, key);
    remember_reads(lane, key, view.reads());
    ask_successor(lane, key, *turn);
    std::vector<std::string> keys = written_keys(turn->plan);
    const std::string* busy = turns_.take(keys);
    if (busy == nullptr) turn->keys = keys;
    // Nothing when it is taken, by us or by whoever was faster.
    if (!called.empty()) turns_.pass(called);
    if (busy == nullptr) co_return Result<void>();
    called = *busy;
    CO_TRY_VOID(co_await turns_.wait(called, token));
  }
}

Task<Result<void>> Runtime::look_at(Lane& lane, Key key, registry::Guard term, CancelToken token) {
  Turn turn(turns_);
  Result<void> done = co_await plan_in_turn(lane, key, &turn, std::move(token));
  if (done && !turn.plan.writes.empty()) done = co_await write(lane, key, &turn, std::move(term));
  const bool unfinished = turn.next ? turn.next->unfinished : turn.plan.unfinished;
  if (turn.successor != nullptr) {
    KeyedQueue& queue = turn.successor->queue;
    if (done && turn.next) {
      queue.done(key, turn.next->again_after, unfinished);
    } else {
      // The plan was made again without it, or nothing came of it.
      queue.put_back(key);
      if (!done) queue.add(key);
    }
  }
  if (done) lane.queue.done(key, turn.plan.again_after, unfinished);
  co_return done;
}

namespace {

struct OwnWrite {
  std::size_t index = 0;  // among the plan's writes
  std::string object;
  store::Revision base = 0;
};

store::Revision version_of(const Json& object) {
  const std::string text = registry::metadata_text(object, "resourceVersion");
  store::Revision revision = 0;
  std::from_chars(text.data(), text.data() + text.size(), revision);
  return revision;
}

std::vector<OwnWrite> own_writes(const Plan& plan) {
  std::vector<OwnWrite> own;
  for (std::size_t i = 0; i < plan.writes.size(); ++i) {
    const registry::Mutation& write = plan.writes[i];
    if (write.type != registry::Mutation::Type::update) continue;
    own.push_back(
        {i, registry::key_of(*write.what.kind, write.what.space, write.what.name), version_of(write.object)});
  }
  return own;
}

}  // namespace

// At the time of the look: what time alone calls for comes with the plan's own timer.
void Runtime::check_settled(const Lane& lane, const Key& key, const Plan& plan, const View::Moment& moment) {
  const View view(source_, decoder_, moment, {key, &lane.family});
  const Plan again = lane.controller->reconcile(view, key);
  std::string wants;
  for (const registry::Mutation& write : again.writes)
    wants += fmt::format(" {} {}: {}", write.what.kind->kind, write.what.name, to_text(write.object));
  MOOR_ASSERT(wants.empty(), "{} called its plan for {} settled, and wants more:{}", lane.controller->name(),
              key.name, wants);
  MOOR_ASSERT(!again.again_after || plan.again_after, "{} called its plan for {} settled, and now waits",
              lane.controller->name(), key.name);
  const auto known = lane.reads.find(key);
  for (const Reads::Read& read : view.reads().reads) {
    const bool noted = known != lane.reads.end() &&
                       std::find(known->second.begin(), known->second.end(), read) != known->second.end();
    MOOR_ASSERT(noted, "{} called its plan for {} settled, and now reads {}", lane.controller->name(),
                key.name, read.key);
  }
}

namespace {

// Whether nothing but these writes has happened since: what others write may call for more. Nor while the
// cache lags behind a store that others write to as well.
bool is_all_that_happened(const std::vector<Json>& written, store::Revision seen, store::Revision now) {
  std::set<store::Revision> own;
  for (const Json& object : written)
    if (const store::Revision version = version_of(object); version > seen) own.insert(version);
  return now == seen + own.size() && (own.empty() || *own.rbegin() == now);
}

}  // namespace

Task<Result<void>> Runtime::write(Lane& lane, Key key, Turn* turn, registry::Guard term) {
  Plan* plan = &turn->plan;
  const std::size_t count = plan->writes.size();
  registry::WriteOptions options;
  options.field_manager = options_.field_manager;
  options.field_validation = registry::FieldValidation::ignore;
  if (!MOOR_PLANT("control-term-not-guarded")) plan->guards.push_back(std::move(term));
  std::vector<Lane*> settled;  // those that need not hear of it
  if (turn->settled) settled.push_back(&lane);
  if (turn->next && (turn->next->settled || turn->next->writes.empty())) settled.push_back(turn->successor);
  const std::vector<OwnWrite> own = settled.empty() ? std::vector<OwnWrite>() : own_writes(*plan);
  for (Lane* one : settled)
    for (const OwnWrite& write : own) one->own.expect(write.object, write.base, key);
  const auto written =
      co_await registry_.transact(std::move(plan->writes), std::move(plan->guards), std::move(options));
  for (Lane* one : settled)
    for (const OwnWrite& write : own)
      if (!written || version_of((*written)[write.index]) == write.base)
        one->own.withdraw(write.object, write.base);
  if (!written) {
    const bool conflict = written.is(Errc::conflict) || written.is(Errc::not_found);
    ++(conflict ? lane.stats.conflicts : lane.stats.errors);
    if (conflict) co_return make_error(Errc::conflict, written.error().error.message);
    log_warn("a plan could not be written and will be made again", {{"controller", lane.controller->name()},
                                                                    {"namespace", key.space},
                                                                    {"name", key.name},
                                                                    {"reason", written.error().error}});
    if (turn->next) lane.alone.insert(key);
    co_return written.error().error;
  }
  ++lane.stats.commits;
  const std::size_t others = turn->next ? turn->next->writes.size() : 0;
  lane.stats.writes += count - others;
  if (others > 0) turn->successor->stats.writes += others;
  if (options_.check_settled && is_all_that_happened(*written, turn->seen, registry_.cache().revision()))
    for (const Lane* one : settled)
      check_settled(*one, key, one == &lane ? *plan : *turn->next, turn->moment);
  for (const std::string& reason : plan->reasons)
    log_debug(reason, {{"controller", lane.controller->name()}, {"name", key.name}});
  for (registry::EventNote& note : plan->events)
    if (events_ != nullptr) events_->record(std::move(note));
  co_return Result<void>();
}

}  // namespace moor::control
