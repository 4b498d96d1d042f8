#include "registry/housekeeper.h"

#include "base/log.h"

namespace moor::registry {
namespace {
constexpr int kWorkers = 4;
}

Task<Result<void>> Housekeeper::run(CancelToken token) {
  TaskGroup group(registry_.executor(), token);
  group.spawn(listen(group.token()));
  for (int i = 0; i < kWorkers; ++i) group.spawn(work(group.token()));
  co_return co_await group.join();
}

Task<Result<void>> Housekeeper::listen(CancelToken token) {
  CO_TRY_VOID(co_await registry_.cache().wait_for(0, token));
  while (true) {
    CO_TRY(auto subscription, registry_.subscribe({"", std::nullopt}, registry_.cache().revision()));
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

Task<Result<void>> Housekeeper::work(CancelToken token) {
  while (true) {
    CO_TRY(std::string key, co_await queue_.next(token));
    const auto done = co_await look_at(key);
    if (done) {
      queue_.forget(key);
      continue;
    }
    // A conflict is normal: somebody else wrote, look again.
    if (!done.is(Errc::conflict))
      log_warn("housekeeping failed and will be tried again",
               {{"task", name()}, {"key", key}, {"reason", done.error().error}});
    queue_.retry(std::move(key));
  }
}

}  // namespace moor::registry
