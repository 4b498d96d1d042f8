#include "store/cache/cache.h"

#include <algorithm>

#include "base/assert.h"
#include "base/log.h"

namespace moor::store {
namespace {
bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

void visit_below(const std::map<std::string_view, ObjectPtr>& objects, std::string_view prefix,
                 const std::function<bool(const ObjectPtr&)>& visit) {
  for (auto object = objects.lower_bound(prefix);
       object != objects.end() && starts_with(object->first, prefix); ++object) {
    if (!visit(object->second)) return;
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

void Cache::index(const Term& term, const ObjectPtr& object) {
  indexes_[term].emplace(object->entry.key, object);
}

void Cache::unindex(const Term& term, std::string_view key) {
  const auto found = indexes_.find(term);
  found->second.erase(found->second.find(key));
  if (found->second.empty()) indexes_.erase(found);
}

// Puts the new version into the old one's place. The map's key is a view into the old one, which may go away.
void Cache::replace(Objects& objects, const ObjectPtr& object) {
  const auto found = objects.find(object->entry.key);
  const auto next = std::next(found);
  auto node = objects.extract(found);
  node.key() = object->entry.key;
  node.mapped() = object;
  objects.insert(next, std::move(node));
}

// Most changes leave most terms as they are. Both lists are sorted.
void Cache::reindex(const ObjectPtr& before, const ObjectPtr& after) {
  auto old = before->terms.begin();
  for (const Term& term : after->terms) {
    for (; old != before->terms.end() && *old < term; ++old) unindex(*old, before->entry.key);
    if (old != before->terms.end() && *old == term) {
      replace(indexes_.find(term)->second, after);
      ++old;
    } else {
      index(term, after);
    }
  }
  for (; old != before->terms.end(); ++old) unindex(*old, before->entry.key);
}

ObjectPtr Cache::erase(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  ObjectPtr before = std::move(found->second);  // keeps the key that the maps point to
  by_key_.erase(found);
  objects_.erase(objects_.find(before->entry.key));
  for (const Term& term : before->terms) unindex(term, before->entry.key);
  return before;
}

ObjectPtr Cache::put(ObjectPtr object) {
  const std::string_view key = object->entry.key;
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    for (const Term& term : object->terms) index(term, object);
    objects_.emplace(key, object);
    by_key_.emplace(key, std::move(object));
    return nullptr;
  }
  ObjectPtr before = found->second;
  reindex(before, object);
  replace(objects_, object);
  auto node = by_key_.extract(found);
  node.key() = key;
  node.mapped() = std::move(object);
  by_key_.insert(std::move(node));
  return before;
}

ObjectPtr Cache::get(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

void Cache::for_each(std::string_view prefix, const std::function<bool(const ObjectPtr&)>& visit) const {
  visit_below(objects_, prefix, visit);
}

void Cache::for_each(std::string_view prefix, const Term& term,
                     const std::function<bool(const ObjectPtr&)>& visit) const {
  if (const auto found = indexes_.find(term); found != indexes_.end())
    visit_below(found->second, prefix, visit);
}

void Cache::for_each_after(std::string_view prefix, std::string_view after,
                           const std::function<bool(const ObjectPtr&)>& visit) const {
  const std::string_view from = std::max(prefix, after);
  for (auto object = objects_.lower_bound(from);
       object != objects_.end() && starts_with(object->first, prefix); ++object) {
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
  const CancelCallback on_cancel(token, [reached] { reached.set(false); });
  if (co_await reached) co_return Result<void>();
  if (!token.is_cancelled()) co_return make_error(Errc::cancelled, "the cache is gone");
  waiters_.erase(waiter);
  co_return token.reason();
}

}  // namespace moor::store
