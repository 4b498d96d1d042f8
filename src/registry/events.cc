#include "registry/events.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/timestamp.h"
#include "model/kinds.h"
#include "registry/prepare.h"

namespace moor::registry {
namespace {

constexpr std::size_t kLongestMessage = 1024;
constexpr std::size_t kLongestNameBase = 200;

const model::KindInfo& events() {
  static const model::KindInfo& kind = *model::find_kind("", "v1", "events");
  return kind;
}

std::string text_of(const Json& object, std::string_view field) {
  return std::string(object.get_string(field).value_or(""));
}

// What makes two notes the same event.
std::string identity_of(const EventNote& note) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}", text_of(note.involved, "kind"),
                     text_of(note.involved, "namespace"), text_of(note.involved, "name"),
                     text_of(note.involved, "uid"), note.type, note.reason, note.message);
}

}  // namespace

Json reference_to(const model::KindInfo& kind, const Json& object) {
  Json reference = Json::object({{"apiVersion", kind.api_version()}, {"kind", kind.kind}});
  for (const std::string_view field : {"namespace", "name", "uid", "resourceVersion"}) {
    const std::string text = metadata_text(object, field);
    if (!text.empty()) reference.set(field, text);
  }
  return reference;
}

EventRecorder::EventRecorder(Executor& executor, Registry& registry, Random& random,
                             EventRecorderOptions options)
    : executor_(executor), registry_(registry), random_(random), options_(std::move(options)) {}

void EventRecorder::record(EventNote note) {
  if (waiting_.size() >= options_.max_waiting) {
    ++dropped_;
    return;
  }
  if (note.message.size() > kLongestMessage) note.message.resize(kLongestMessage);
  waiting_.push_back(std::move(note));
  if (wake_) wake_->set(true);
}

Task<Result<void>> EventRecorder::run(CancelToken token) {
  while (true) {
    CO_TRY_VOID(token.check());
    if (waiting_.empty()) {
      wake_.emplace(executor_);
      const Completion<bool> wake = *wake_;
      const CancelCallback on_cancel(token, [wake] { wake.set(false); });
      co_await wake;
      wake_.reset();
      continue;
    }
    EventNote note = std::move(waiting_.front());
    waiting_.pop_front();
    const std::string reason = note.reason;
    const auto written = co_await write(std::move(note));
    // Events are best effort: the object they speak of may be gone with its namespace.
    if (!written)
      log_warn("an event was not written", {{"event", reason}, {"reason", written.error().error}});
  }
}

Task<Answer<void>> EventRecorder::write(EventNote note) {
  const std::string key = identity_of(note);
  const auto known = known_.find(key);
  if (known != known_.end() && executor_.clock().now() - known->second.last <= options_.window) {
    const ResourceName where{&events(), known->second.space, known->second.name, ""};
    const auto counted = co_await count_again(key, where);
    if (!counted.is(Errc::not_found)) co_return counted;
  }
  forget(key);
  co_return co_await write_new(key, std::move(note));
}

Task<Answer<void>> EventRecorder::count_again(std::string key, ResourceName where) {
  Known& known = known_.at(key);
  const std::int64_t count = ++known.count;
  known.last = executor_.clock().now();
  by_age_.splice(by_age_.end(), by_age_, known.age);
  const std::string now = format_timestamp(executor_.clock().wall());
  WriteOptions options;
  options.field_manager = options_.component;
  options.identity.node = options_.host;
  Json patch = Json::object({{"count", count}, {"lastTimestamp", now}});
  CO_TRY_VOID(
      co_await registry_.patch(std::move(where), PatchType::merge, std::move(patch), std::move(options)));
  co_return Answer<void>();
}

Task<Answer<void>> EventRecorder::write_new(std::string key, EventNote note) {
  const std::string now = format_timestamp(executor_.clock().wall());
  std::string space = text_of(note.involved, "namespace");
  if (space.empty()) space = "default";  // events of cluster-scoped objects live there, as in Kubernetes
  const std::string name =
      fmt::format("{}.{:016x}", text_of(note.involved, "name").substr(0, kLongestNameBase), random_.next());
  Json source = Json::object({{"component", options_.component}});
  if (!options_.host.empty()) source.set("host", options_.host);
  Json event = Json::object({{"metadata", Json::object({{"name", name}})},
                             {"involvedObject", std::move(note.involved)},
                             {"reason", note.reason},
                             {"message", note.message},
                             {"type", note.type},
                             {"source", std::move(source)},
                             {"reportingComponent", options_.component},
                             {"reportingInstance", options_.host},
                             {"firstTimestamp", now},
                             {"lastTimestamp", now},
                             {"count", 1}});
  WriteOptions options;
  options.field_manager = options_.component;
  options.identity.node = options_.host;
  const ResourceName where{&events(), space, "", ""};
  CO_TRY_VOID(co_await registry_.create(where, std::move(event), options));
  remember(key, {space, name, 1, executor_.clock().now(), {}});
  co_return Answer<void>();
}

void EventRecorder::remember(const std::string& key, Known known) {
  if (known_.size() >= options_.max_known) forget(std::string(by_age_.front()));
  known.age = by_age_.insert(by_age_.end(), key);
  known_[key] = std::move(known);
}

void EventRecorder::forget(const std::string& key) {
  const auto found = known_.find(key);
  if (found == known_.end()) return;
  by_age_.erase(found->second.age);
  known_.erase(found);
}

namespace {

std::optional<WallTime> last_seen(const Json& event) {
  std::string text;
  if (const Json* series = event.find("series")) text = text_of(*series, "lastObservedTime");
  for (const std::string_view field : {"lastTimestamp", "eventTime", "firstTimestamp"})
    if (text.empty()) text = text_of(event, field);
  if (text.empty()) text = metadata_text(event, "creationTimestamp");
  const auto time = parse_timestamp(text);
  return time ? std::optional(*time) : std::nullopt;
}

}  // namespace

Task<Result<void>> expire_events(LocalRegistry& registry, EventExpiryOptions options, CancelToken token) {
  while (true) {
    CO_TRY_VOID(co_await sleep_for(registry.executor(), options.pause, token));
    const WallTime now = registry.executor().clock().wall();
    const auto life = std::chrono::duration_cast<std::chrono::microseconds>(options.time_to_live);
    std::vector<JsonPtr> old;
    registry.for_each(events(), "", [&](const JsonPtr& event) {
      const auto seen = last_seen(*event);
      if (seen && seen->since_epoch + life <= now.since_epoch) old.push_back(event);
      return old.size() < options.per_turn;
    });
    for (const JsonPtr& event : old) {
      DeleteOptions delete_options;
      // Counted again in the meantime: then it is not old.
      delete_options.resource_version = metadata_text(*event, "resourceVersion");
      ResourceName what{&events(), metadata_text(*event, "namespace"), metadata_text(*event, "name"), ""};
      const auto removed = co_await registry.remove(std::move(what), std::move(delete_options));
      if (!removed && !removed.is(Errc::not_found) && !removed.is(Errc::conflict))
        log_warn("an old event was not removed", {{"reason", removed.error().error}});
    }
  }
}

}  // namespace moor::registry
