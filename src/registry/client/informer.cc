#include "registry/client/informer.h"

#include <algorithm>

#include "base/log.h"
#include "base/plant.h"
#include "registry/prepare.h"

namespace moor::registry {
namespace {

// The server has been set back (restored from a backup, say): what we know is of another history.
bool is_from_the_future(const Refusal& refusal) {
  return std::any_of(refusal.causes.begin(), refusal.causes.end(),
                     [](const model::Cause& cause) { return cause.reason == "ResourceVersionTooLarge"; });
}

}  // namespace

Informer::Informer(Executor& executor, Registry& registry, ResourceName what, InformerOptions options)
    : executor_(executor), registry_(registry), what_(std::move(what)), options_(std::move(options)) {}

Informer::~Informer() {
  for (const Completion<bool>& waiter : waiting_) waiter.set(false);
}

Informer::Key Informer::key_of(const Json& object) {
  return {metadata_text(object, "namespace"), metadata_text(object, "name")};
}

Informer::Object Informer::find(std::string_view space, std::string_view name) const {
  const auto found = objects_.find(Key(space, name));
  return found == objects_.end() ? nullptr : found->second;
}

void Informer::for_each(const std::function<bool(const Object&)>& visit) const {
  for (const auto& [key, object] : objects_)
    if (!visit(object)) return;
}

void Informer::tell(Event event) {
  for (const Listener& listener : listeners_) listener(event);
}

void Informer::put(Key key, Object object) {
  Object& place = objects_[std::move(key)];
  Object before = std::exchange(place, object);
  // One of the same name that came after the other was gone is another object.
  if (before != nullptr && metadata_text(*before, "uid") != metadata_text(*object, "uid"))
    tell({std::exchange(before, nullptr), nullptr});
  if (before == nullptr ||
      metadata_text(*before, "resourceVersion") != metadata_text(*object, "resourceVersion"))
    tell({before, object});
}

void Informer::drop(const Key& key) {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return;
  Object before = std::move(found->second);
  objects_.erase(found);
  tell({std::move(before), nullptr});
}

// The difference between what we had and what is there, as events.
void Informer::replace(std::vector<Object> objects) {
  std::map<Key, Object> found;
  for (Object& object : objects) found[key_of(*object)] = std::move(object);
  std::vector<Key> gone;
  for (const auto& [key, object] : objects_)
    if (!found.contains(key) && !MOOR_PLANT("informer-keeps-gone")) gone.push_back(key);
  for (const Key& key : gone) drop(key);
  for (auto& [key, object] : found) put(key, std::move(object));
}

Task<Answer<void>> Informer::relist() {
  std::vector<Object> objects;
  ListOptions options;
  options.labels = options_.labels;
  options.fields = options_.fields;
  options.limit = options_.page_size;
  std::string version;
  do {
    CO_TRY(Listed page, co_await registry_.list(what_, options));
    objects.insert(objects.end(), page.items.begin(), page.items.end());
    version = page.resource_version;
    options.continue_token = page.continue_token;
  } while (!options.continue_token.empty());
  ++relists_;
  version_ = version;
  replace(std::move(objects));
  synced_ = true;
  for (const Completion<bool>& waiter : waiting_) waiter.set(true);
  waiting_.clear();
  co_return Answer<void>();
}

Task<Answer<void>> Informer::follow(CancelToken token) {
  WatchOptions options;
  options.labels = options_.labels;
  options.fields = options_.fields;
  options.resource_version = version_;
  CO_TRY(auto watcher, co_await registry_.watch(what_, options));
  while (true) {
    CO_TRY(const auto events, co_await watcher->next(token));
    for (const WatchEvent& event : events) {
      if (event.type == WatchEvent::Type::deleted) {
        drop(key_of(*event.object));
      } else if (event.type != WatchEvent::Type::bookmark) {
        put(key_of(*event.object), event.object);
      }
      version_ = event.resource_version;
    }
  }
}

Task<Result<void>> Informer::run(CancelToken token) {
  Duration pause = options_.shortest_pause;
  bool must_list = true;
  while (true) {
    CO_TRY_VOID(token.check());
    Answer<void> result;
    if (must_list) result = co_await relist();
    if (result) {
      must_list = false;
      const std::string before = version_;
      result = co_await follow(token);
      if (version_ != before) pause = options_.shortest_pause;
    }
    CO_TRY_VOID(token.check());
    if ((result.is(Errc::expired) && !MOOR_PLANT("informer-expired-not-listed")) ||
        is_from_the_future(result.error()))
      must_list = true;
    log_debug("a watch ended and is taken up again",
              {{"kind", what_.kind->kind}, {"from", version_}, {"reason", result.error().error}});
    Duration wait = pause;
    if (result.error().retry_after_seconds)
      wait = std::max<Duration>(wait, std::chrono::seconds(*result.error().retry_after_seconds));
    CO_TRY_VOID(co_await sleep_for(executor_, wait, token));
    pause = std::min(pause * 2, options_.longest_pause);
  }
}

Task<Result<void>> Informer::wait_synced(CancelToken token) {
  if (synced_) co_return Result<void>();
  const Completion<bool> synced(executor_);
  waiting_.push_back(synced);
  const CancelCallback on_cancel(token, [synced] { synced.set(false); });
  if (co_await synced) co_return Result<void>();
  CO_TRY_VOID(token.check());
  co_return make_error(Errc::cancelled, "the informer is gone");
}

}  // namespace moor::registry
