#include "doors/kube/watch_body.h"

#include <algorithm>

#include "doors/kube/status.h"

namespace moor::doors::kube {
namespace {

// One chunk on the wire; a long backlog goes out in several, so that a slow reader is noticed early.
constexpr std::size_t kEventsPerChunk = 64;

}  // namespace

WatchBody::WatchBody(Executor& executor, EventTexts& texts, std::size_t& open, WatchPlan plan)
    : executor_(executor),
      open_(open),
      plan_(std::move(plan)),
      renderer_(plan_.rendering, texts),
      end_(executor.clock().now() + plan_.lasts) {
  ++open_;
}

WatchBody::~WatchBody() {
  --open_;
}

WatchBody::Woken WatchBody::why_woken(const registry::Refusal& refusal) const {
  const Errc code = refusal.error.code;
  if (plan_.cancel.is_cancelled()) return Woken::over;
  if (code != Errc::timed_out && code != Errc::cancelled) return Woken::lost;
  return executor_.clock().now() >= end_ ? Woken::over : Woken::bookmark;
}

Task<Result<void>> WatchBody::send_bookmark(http::StreamWriter& writer) {
  if (!plan_.bookmarks) co_return Result<void>();
  std::vector<registry::WatchEvent> events(1);
  events[0].type = registry::WatchEvent::Type::bookmark;
  events[0].resource_version = plan_.watcher->progress();
  co_return co_await send(writer, std::move(events));
}

Task<Result<void>> WatchBody::send(http::StreamWriter& writer, std::vector<registry::WatchEvent> events) {
  const WallTime now = executor_.clock().wall();
  std::vector<http::SharedText> parts;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool wanted = events[i].type != registry::WatchEvent::Type::bookmark || plan_.bookmarks ||
                        (plan_.initial_end && events[i].initial_end);
    if (wanted) renderer_.add(events[i], now, parts);
    const bool last = i + 1 == events.size();
    if (parts.empty() || (!last && (i + 1) % kEventsPerChunk != 0)) continue;
    CO_TRY_VOID(co_await writer.write(std::exchange(parts, {})));
  }
  co_return Result<void>();
}

Task<Result<void>> WatchBody::run(http::StreamWriter& writer) {
  // Ends with its time, its client or its server: each pass waits, at most until the next bookmark is due.
  TimePoint bookmark_due = executor_.clock().now() + plan_.bookmark_every;
  auto period = std::make_unique<CancelSource>(plan_.cancel);
  period->set_deadline(executor_, std::min(bookmark_due, end_), "watch");
  while (true) {
    auto events = co_await plan_.watcher->next(period->token());
    if (events) {
      CO_TRY_VOID(co_await send(writer, std::move(*events)));
      // Events that never pause must not keep a watch beyond its time or its server.
      if (!period->token().is_cancelled()) continue;
    }
    const Woken woken =
        events ? why_woken({period->token().reason(), {}, {}, {}}) : why_woken(events.error());
    if (woken == Woken::lost) {
      std::string line = error_line(status_of(events.error()));
      co_return co_await writer.write(std::move(line));
    }
    CO_TRY_VOID(co_await send_bookmark(writer));
    if (woken == Woken::over) co_return Result<void>();
    bookmark_due = executor_.clock().now() + plan_.bookmark_every;
    period = std::make_unique<CancelSource>(plan_.cancel);
    period->set_deadline(executor_, std::min(bookmark_due, end_), "watch");
  }
}

}  // namespace moor::doors::kube
