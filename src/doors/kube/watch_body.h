// A watch on the wire: JSON lines until its time is up, its client goes, the server stops or its history is
// gone. It lives in the server's stream and dies with it; the door outlives it.
#pragma once

#include <memory>

#include "base/cancel.h"
#include "base/executor.h"
#include "doors/kube/render.h"
#include "http/stream.h"
#include "registry/registry.h"

namespace moor::doors::kube {

struct WatchPlan {
  std::unique_ptr<registry::Watcher> watcher;
  Rendering rendering;
  bool bookmarks = false;
  bool initial_end = false;  // the end of the initial events is told even without bookmarks
  Duration lasts{0};
  Duration bookmark_every = std::chrono::minutes(1);
  CancelToken cancel;  // the request's
};

class WatchBody final : public http::StreamBody {
 public:
  // `open` counts the watches that are on; it is decremented when this one ends.
  WatchBody(Executor& executor, EventTexts& texts, std::size_t& open, WatchPlan plan);
  ~WatchBody() override;

  Task<Result<void>> run(http::StreamWriter& writer) override;

 private:
  enum class Woken { bookmark, over, lost };
  Task<Result<void>> send(http::StreamWriter& writer, std::vector<registry::WatchEvent> events);
  Task<Result<void>> send_bookmark(http::StreamWriter& writer);
  Woken why_woken(const registry::Refusal& refusal) const;

  Executor& executor_;
  std::size_t& open_;
  WatchPlan plan_;
  EventRenderer renderer_;
  TimePoint end_;
};

}  // namespace moor::doors::kube
