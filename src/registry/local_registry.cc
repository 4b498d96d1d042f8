#include "registry/local_registry.h"

#include "base/timestamp.h"
#include "registry/keys.h"

namespace moor::registry {

LocalRegistry::LocalRegistry(Executor& executor, store::Store& store, Random& random,
                             LocalRegistryOptions options)
    : executor_(executor),
      store_(store),
      random_(random),
      options_(std::move(options)),
      cache_(
          executor, store,
          [this](store::CachedObject& cached) {
            const auto written = written_.find(cached.entry.value.get());
            Json object = written == written_.end() ? Json() : std::exchange(written->second, Json());
            recent_.keep(project(cached, std::move(object)), cached.entry.value->size());
          },
          options_.cache) {}

LocalRegistry::~LocalRegistry() = default;

Task<Result<void>> LocalRegistry::run(CancelToken token) {
  return cache_.run(std::move(token));
}

std::string LocalRegistry::now() const {
  return format_timestamp(executor_.clock().wall());
}

Task<Result<void>> LocalRegistry::catch_up() {
  CO_TRY(const store::StoreStatus status, co_await store_.status());
  if (cache_.is_synced() && cache_.revision() >= status.revision) co_return Result<void>();
  CancelSource limit;
  limit.set_deadline(executor_, executor_.clock().now() + options_.wait_limit,
                     "the cache did not reach the store's newest revision");
  co_return co_await cache_.wait_for(status.revision, limit.token());
}

JsonPtr LocalRegistry::find(const model::KindInfo& kind, std::string_view space,
                            std::string_view name) const {
  const store::ObjectPtr found = cache_.get(put_key(wanted_, kind, space, name));
  return found == nullptr ? nullptr : object_of(*found);
}

void LocalRegistry::for_each(const model::KindInfo& kind, std::string_view space,
                             const std::function<bool(const JsonPtr&)>& visit) const {
  cache_.for_each(prefix_of(kind, space), [&](const store::ObjectPtr& cached) {
    const JsonPtr object = object_of(*cached);
    return object == nullptr || visit(object);
  });
}

}  // namespace moor::registry
