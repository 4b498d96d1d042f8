#include "store/cache/cache.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace moor::store {
namespace {
bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

const ObjectPtr& object_at(const ObjectPtr& place) {
  return place;
}
const ObjectPtr& object_at(const ObjectPtr* place) {
  return *place;
}

template <class Map>
void visit_below(const Map& map, std::string_view prefix,
                 const std::function<bool(const ObjectPtr&)>& visit) {
  for (auto found = map.lower_bound(prefix); found != map.end() && starts_with(found->first, prefix);
       ++found) {
    if (!visit(object_at(found->second))) return;
  }
}
}  // namespace

Cache::Cache(Executor& executor, Store& store, Projector projector, CacheOptions options)
    : executor_(executor),
      store_(store),
      projector_(std::move(projector)),
      options_(std::move(options)),
      hub_(executor, options_.hub) {}

Cache::~Cache() {
  for (const auto& [revision, waiter] : waiters_) waiter.set(false);
}

ObjectPtr Cache::project(Entry entry) const {
  auto object = std::make_shared<CachedObject>();
  object->entry = std::move(entry);
  if (projector_) projector_(*object);
  std::sort(object->terms.begin(), object->terms.end());
  object->terms.erase(std::unique(object->terms.begin(), object->terms.end()), object->terms.end());
  return object;
}

void Cache::index(const Term& term, const Objects::value_type& place) {
  indexes_[term].emplace(place.first, &place.second);
}

void Cache::unindex(const Term& term, std::string_view key) {
  const auto found = indexes_.find(term);
  found->second.erase(found->second.find(key));
  if (found->second.empty()) indexes_.erase(found);
}

// Most changes leave most terms as they are. Both lists are sorted.
void Cache::reindex(const CachedObject& before, const Objects::value_type& place) {
  auto old = before.terms.begin();
  for (const Term& term : place.second->terms) {
    for (; old != before.terms.end() && *old < term; ++old) unindex(*old, place.first);
    if (old != before.terms.end() && *old == term) {
      ++old;
    } else {
      index(term, place);
    }
  }
  for (; old != before.terms.end(); ++old) unindex(*old, place.first);
}

ObjectPtr Cache::erase(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  const Objects::iterator place = found->second;
  ObjectPtr before = std::move(place->second);
  for (const Term& term : before->terms) unindex(term, place->first);
  by_key_.erase(found);  // before the place, which has its key
  objects_.erase(place);
  return before;
}

ObjectPtr Cache::put(ObjectPtr object) {
  const auto found = by_key_.find(object->entry.key);
  if (found != by_key_.end()) {
    Objects::value_type& place = *found->second;
    ObjectPtr before = std::exchange(place.second, std::move(object));
    reindex(*before, place);
    return before;
  }
  std::string key = object->entry.key;
  const auto place = objects_.add(std::move(key), std::move(object));
  by_key_.emplace(place->first, place);
  for (const Term& term : place->second->terms) index(term, *place);
  return nullptr;
}

ObjectPtr Cache::get(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second->second;
}

void Cache::for_each(std::string_view prefix, const std::function<bool(const ObjectPtr&)>& visit) const {
  visit_below(objects_.in_order(), prefix, visit);
}

void Cache::for_each(std::string_view prefix, const Term& term,
                     const std::function<bool(const ObjectPtr&)>& visit) const {
  if (const auto found = indexes_.find(term); found != indexes_.end())
    visit_below(found->second, prefix, visit);
}

void Cache::for_each_after(std::string_view prefix, std::string_view after,
                           const std::function<bool(const ObjectPtr&)>& visit) const {
  const std::string_view from = std::max(prefix, after);
  const Objects::Map& objects = objects_.in_order();
  for (auto object = objects.lower_bound(from); object != objects.end() && starts_with(object->first, prefix);
       ++object) {
    if (object->first != after && !visit(object->second)) return;
  }
}

std::size_t Cache::count(const Term& term) const {
  const auto found = indexes_.find(term);
  return found == indexes_.end() ? 0 : found->second.size();
}

void Cache::replace_all(std::vector<ObjectPtr> objects, Revision revision) {
  indexes_.clear();
  by_key_.clear();
  objects_.clear();
  for (ObjectPtr& object : objects) put(std::move(object));
  hub_.reset(revision);
  synced_ = true;
  wake_waiters();
}

void Cache::apply(const WatchBatch& batch) {
  for (const Event& event : batch.events) {
    Change change;
    change.revision = event.entry.revision;
    if (event.kind == Event::Kind::put) {
      change.after = project(event.entry);
      change.before = put(change.after);
    } else {
      change.before = erase(event.entry.key);
      // The store removes only what is there, and the cache has all that is there.
      MOOR_ASSERT(change.before != nullptr, "removal of '{}', which the cache does not have",
                  event.entry.key);
    }
    hub_.publish(std::make_shared<const Change>(std::move(change)));
  }
  hub_.advance(batch.revision);
  wake_waiters();
}

void Cache::wake_waiters() {
  const auto end = waiters_.upper_bound(hub_.revision());
  for (auto waiter = waiters_.begin(); waiter != end; ++waiter) waiter->second.set(true);
  waiters_.erase(waiters_.begin(), end);
}

Task<Result<void>> Cache::load(CancelToken token) {
  std::vector<ObjectPtr> objects;
  ListRequest request{.prefix = options_.prefix, .limit = options_.page_size};
  bool more = true;
  while (more) {
    CO_TRY_VOID(token.check());
    CO_TRY(ListPage page, co_await store_.list(request));
    for (Entry& entry : page.entries) objects.push_back(project(std::move(entry)));
    more = page.more;
    request.revision = page.revision;
    if (more) request.after = objects.back()->entry.key;
  }
  replace_all(std::move(objects), request.revision);
  co_return Result<void>();
}

Task<Result<void>> Cache::follow(CancelToken token) {
  CO_TRY(auto stream, co_await store_.watch(options_.prefix, hub_.revision()));
  const CancelCallback on_cancel(token, [&stream] { stream->close(); });
  while (true) {
    CO_TRY(const WatchBatch batch, co_await stream->next());
    apply(batch);
  }
}

Task<Result<void>> Cache::run(CancelToken token) {
  Duration pause = options_.shortest_retry;
  bool must_load = true;
  while (true) {
    CO_TRY_VOID(token.check());
    Result<void> result;
    if (must_load) result = co_await load(token);
    if (result.ok()) {
      must_load = false;
      const Revision before = hub_.revision();
      result = co_await follow(token);
      if (hub_.revision() != before) pause = options_.shortest_retry;
    }
    CO_TRY_VOID(token.check());
    if (result.is(Errc::expired)) must_load = true;
    log_warn("the cache lost its watch and starts again",
             {{"prefix", options_.prefix}, {"reason", result.error()}});
    CO_TRY_VOID(co_await sleep_for(executor_, pause, token));
    pause = std::min(pause * 2, options_.longest_retry);
  }
}

Task<Result<void>> Cache::wait_for(Revision revision, CancelToken token) {
  if (synced_ && hub_.revision() >= revision) co_return Result<void>();
  const Completion<bool> reached(executor_);
  const auto waiter = waiters_.emplace(std::max<Revision>(revision, 0), reached);
  // Whoever sets it first takes it from the waiters: what happens before this task goes on finds it gone.
  const CancelCallback on_cancel(token, [this, reached, waiter] {
    if (reached.set(false)) waiters_.erase(waiter);
  });
  if (co_await reached) co_return Result<void>();
  co_return token.is_cancelled() ? token.reason() : make_error(Errc::cancelled, "the cache is gone");
}

}  // namespace moor::store
