// A watch: one etcd watch on the root at a time, decoded, filtered and buffered for its reader. It resumes
// after a lost connection from the last complete revision. When the buffer is full it stops reading, and flow
// control holds the rest back in etcd; when the reader stays away for longer than the patience, the watch
// ends.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/assert.h"
#include "base/completion.h"
#include "base/log.h"
#include "store/etcd/core.h"
#include "store/etcd/watch_decoder.h"

namespace moor::store::etcd {
namespace {
using namespace std::chrono_literals;
constexpr Duration kFirstWatchBackOff = 50ms;
constexpr Duration kLongestWatchBackOff = 2s;
constexpr std::size_t kEventBytes = 128;  // an event's own cost, beside its key and value

std::size_t weight(const DecodedTransaction& transaction) {
  std::size_t bytes = 0;
  for (const Event& event : transaction.events)
    bytes += kEventBytes + event.entry.key.size() + (event.entry.value ? event.entry.value->size() : 0);
  return bytes;
}

struct Start {
  std::string prefix;
  Revision after = 0;
  EtcdRevision seen = 0;  // complete up to here; etcd is asked from here on
};

// Shared by the stream, which closes it, and by handlers and timers, which hold it weakly.
class Watching final : public Closeable, public std::enable_shared_from_this<Watching> {
 public:
  Watching(CorePtr core, Start start)
      : core_(std::move(core)),
        prefix_(std::move(start.prefix)),
        after_(start.after),
        reached_(start.after),
        decoder_(core_->layout, start.seen) {
    core_->streams.insert(this);
  }
  ~Watching() override { close(); }

  // From one revision before the first that is wanted: etcd up to 3.4.35 and 3.5.17 forgets the removals at
  // the very revision that it compacts to and still serves a watch from there (etcd-io/etcd issue 19179). So
  // asked, it refuses.
  void connect() {
    WatchHandlers handlers;
    handlers.on_message = [weak = weak_from_this()](WatchMessage message) {
      if (const auto self = weak.lock()) self->on_message(std::move(message));
    };
    handlers.on_end = [weak = weak_from_this()](CallError error) {
      if (const auto self = weak.lock()) self->on_end(error);
    };
    decoder_.restart();
    const std::string root = core_->layout.root();
    call_ = core_->link->watch(root, range_end_of(root), std::max<EtcdRevision>(decoder_.seen(), 1),
                               std::move(handlers));
  }

  void close() override {
    if (core_ == nullptr) return;
    finish(make_error(Errc::cancelled, "the watch was closed"));
    buffer_.clear();
    core_->streams.erase(this);
    core_ = nullptr;
  }

  bool has_events() const { return !buffer_.empty(); }
  const std::optional<Error>& ended() const { return ended_; }
  Completion<bool> wait(Executor& executor) {
    MOOR_ASSERT(!waiting_, "one next() at a time");
    waiting_.emplace(executor);
    return *waiting_;
  }
  void woken() { waiting_.reset(); }
  Executor& executor() { return core_->executor; }

  WatchBatch take() {
    WatchBatch batch;
    while (!buffer_.empty() && batch.events.size() < kMaxWatchBatch) {
      DecodedTransaction& next = buffer_.front();
      buffered_bytes_ -= weight(next);
      buffered_events_ -= next.events.size();
      batch.revision = next.last;
      std::move(next.events.begin(), next.events.end(), std::back_inserter(batch.events));
      buffer_.pop_front();
    }
    // What came later and did not concern this reader counts as delivered.
    if (buffer_.empty()) batch.revision = std::max(batch.revision, reached_);
    if (paused_ && !is_full()) {
      paused_ = false;
      core_->executor.stop_timer(timer_);
      if (call_ != nullptr) call_->read_more();
    }
    return batch;
  }

 private:
  bool is_full() const {
    return buffered_bytes_ >= core_->options.watch_buffer_bytes ||
           buffered_events_ >= core_->options.watch_buffer_events;
  }

  void on_message(WatchMessage message) {
    if (ended_) return;
    if (message.cancelled) {
      if (message.compacted > 0) {
        core_->compacted_at_least = std::max(core_->compacted_at_least, message.compacted);
        finish(
            compacted_error(make_revision(decoder_.seen(), kLastIndex), make_revision(message.compacted, 0)));
      } else {
        log_info("etcd ended a watch; it resumes", {{"reason", message.reason}});
        call_->cancel();
      }
      return;
    }
    back_off_ = kFirstWatchBackOff;
    std::vector<DecodedTransaction> decoded;
    const Result<void> good = decoder_.add(std::move(message), decoded);
    for (DecodedTransaction& transaction : decoded) keep(std::move(transaction));
    if (!good) {
      finish(good.error());
    } else if (is_full()) {
      pause();
    } else {
      call_->read_more();
    }
    if (has_events()) wake();
  }

  void keep(DecodedTransaction transaction) {
    reached_ = std::max(reached_, transaction.last);
    std::erase_if(transaction.events, [this](const Event& event) {
      return event.entry.revision <= after_ || event.entry.key.compare(0, prefix_.size(), prefix_) != 0;
    });
    if (transaction.events.empty()) return;
    buffered_bytes_ += weight(transaction);
    buffered_events_ += transaction.events.size();
    buffer_.push_back(std::move(transaction));
  }

  void pause() {
    paused_ = true;
    timer_ = core_->executor.start_timer(
        core_->executor.clock().now() + core_->options.watch_patience, [weak = weak_from_this()] {
          const auto self = weak.lock();
          if (self == nullptr || self->ended_) return;
          self->buffer_.clear();
          self->finish(make_error(Errc::expired, "the reader of this watch is too slow: list again"));
        });
  }

  void on_end(const CallError& error) {
    call_ = nullptr;
    if (ended_) return;
    if (!error.retry) return finish(error.error);
    if (paused_) {
      // What is buffered stands; the rest comes again after the reconnect.
      core_->executor.stop_timer(timer_);
      paused_ = false;
    }
    timer_ =
        core_->executor.start_timer(core_->executor.clock().now() + back_off_, [weak = weak_from_this()] {
          const auto self = weak.lock();
          if (self != nullptr && !self->ended_) self->connect();
        });
    back_off_ = std::min(back_off_ * 2, Duration(kLongestWatchBackOff));
  }

  void finish(Error error) {
    if (ended_) return;
    ended_ = std::move(error);
    core_->executor.stop_timer(timer_);
    if (call_ != nullptr) call_->cancel();
    wake();
  }

  void wake() {
    if (waiting_) waiting_->set(true);
  }

  CorePtr core_;  // null: closed
  const std::string prefix_;
  const Revision after_;
  Revision reached_;
  WatchDecoder decoder_;
  std::deque<DecodedTransaction> buffer_;
  std::size_t buffered_bytes_ = 0;
  std::size_t buffered_events_ = 0;
  std::shared_ptr<WatchCall> call_;
  bool paused_ = false;
  Executor::TimerId timer_ = 0;  // of the patience or of the next connect, never both
  Duration back_off_ = kFirstWatchBackOff;
  std::optional<Error> ended_;
  std::optional<Completion<bool>> waiting_;
};

class Stream final : public WatchStream {
 public:
  explicit Stream(std::shared_ptr<Watching> watching) : watching_(std::move(watching)) {}
  ~Stream() override { watching_->close(); }
  Task<Result<WatchBatch>> next() override { return next_of(watching_); }
  void close() override { watching_->close(); }

 private:
  static Task<Result<WatchBatch>> next_of(std::shared_ptr<Watching> watching) {
    while (true) {
      if (watching->has_events()) co_return watching->take();
      if (watching->ended()) co_return *watching->ended();
      const Completion<bool> wake = watching->wait(watching->executor());
      co_await wake;
      watching->woken();
    }
  }
  std::shared_ptr<Watching> watching_;
};
}  // namespace

Task<Result<std::unique_ptr<WatchStream>>> watch(CorePtr core, std::string prefix, Revision after) {
  Start start{std::move(prefix), after, etcd_revision(after)};
  if (start.seen < core->created) {
    start.seen = core->created;  // before its marker the store was empty
  } else {
    const auto then = co_await read(core, {}, start.seen);
    if (then.is(Errc::expired)) co_return then.error();
    // Not there yet, or inside a transaction: the rest of this etcd revision is wanted too.
    const bool later = then.is(Errc::unavailable) && then.error().message.find("future") != std::string::npos;
    if (!then && !later) co_return then.error();
    if (later || after < then->end_of(start.seen)) --start.seen;
  }
  // Whether etcd can still serve it. The stream finds out by itself what changes from here on.
  const auto served = co_await read(core, {}, start.seen);
  if (served.is(Errc::expired)) co_return served.error();
  const auto watching = std::make_shared<Watching>(core, std::move(start));
  if (core->closed) co_return make_error(Errc::cancelled, "the store was closed");
  watching->connect();
  co_return std::make_unique<Stream>(watching);
}

}  // namespace moor::store::etcd
