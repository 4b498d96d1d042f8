// LocalRegistry: watches over the hub's subscriptions.
#include <fmt/format.h>
#include <charconv>

#include "registry/local_registry_inside.h"
#include "registry/refusal.h"

namespace moor::registry {
namespace {

using Type = WatchEvent::Type;

class LocalWatcher final : public Watcher {
 public:
  LocalWatcher(Selection selection, std::unique_ptr<store::Subscription> subscription, store::Revision start)
      : selection_(std::move(selection)), subscription_(std::move(subscription)), start_(start) {}

  void begin_with(std::vector<WatchEvent> events) {
    initial_ = std::move(events);
    has_initial_ = !initial_.empty();
  }

  Task<Answer<std::vector<WatchEvent>>> next(CancelToken token) override {
    if (has_initial_) {
      has_initial_ = false;
      co_return std::move(initial_);
    }
    while (true) {
      auto changes = co_await subscription_->next(token);
      if (changes.is(Errc::expired)) co_return refuse_expired(changes.error().message);
      if (!changes) co_return changes.error();
      std::vector<WatchEvent> events;
      for (const store::ChangePtr& change : *changes) add_event(*change, events);
      if (!events.empty()) co_return events;
    }
  }

  std::string progress() const override {
    return std::to_string(has_initial_ ? start_ : std::max(start_, subscription_->delivered()));
  }

 private:
  bool is_in_view(const store::ObjectPtr& cached) const {
    return cached != nullptr && selection_.matches(*cached);
  }

  // What the change means to whoever sees only what the selectors let through.
  void add_event(const store::Change& change, std::vector<WatchEvent>& events) const {
    const bool was = is_in_view(change.before);
    const bool is = is_in_view(change.after);
    if (!was && !is) return;
    WatchEvent event;
    event.resource_version = std::to_string(change.revision);
    if (is) {
      event.type = was ? Type::modified : Type::added;
      event.object = Item(change.after);
    } else {
      // The last state that was in view, at the revision of the change: a watcher that goes on from it
      // misses nothing.
      event.type = Type::deleted;
      event.object = Item(change.before, change.revision);
    }
    events.push_back(std::move(event));
  }

  Selection selection_;
  std::unique_ptr<store::Subscription> subscription_;
  store::Revision start_;
  std::vector<WatchEvent> initial_;
  bool has_initial_ = false;
};

}  // namespace

Task<Answer<std::unique_ptr<Watcher>>> LocalRegistry::watch(ResourceName what, WatchOptions options) {
  CO_TRY(Selection selection, Selection::make(what, options.labels, options.fields));
  CO_TRY_VOID(co_await reach(options.resource_version));
  const std::string& asked = options.resource_version;
  const bool from_now = asked.empty() || asked == "0" || options.send_initial_events;
  store::Revision start = cache_.revision();
  if (!from_now) std::from_chars(asked.data(), asked.data() + asked.size(), start);  // reach() has read it
  auto subscription = cache_.subscribe(interest_of(selection), start);
  if (subscription.is(Errc::expired))
    co_return refuse_expired(fmt::format("too old resource version: {}", asked));
  if (!subscription) co_return subscription.error();
  std::vector<WatchEvent> initial;
  if (from_now) {
    // Nothing runs between the subscription and this: the state and the changes after it fit together.
    visit_selected(selection, [&initial](const store::ObjectPtr& object) {
      initial.push_back({Type::added, Item(object), std::to_string(object->entry.revision), false});
      return true;
    });
  }
  if (options.send_initial_events) initial.push_back({Type::bookmark, Item(), std::to_string(start), true});
  auto watcher = std::make_unique<LocalWatcher>(std::move(selection), std::move(*subscription), start);
  watcher->begin_with(std::move(initial));
  co_return std::unique_ptr<Watcher>(std::move(watcher));
}

}  // namespace moor::registry
