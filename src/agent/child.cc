#include "agent/child.h"

#include <utility>

#include "base/log.h"

namespace moor::agent {

using State = ProcessFacts::State;

namespace {
// Events are rare: so many in a row means that the last of them has said it all.
constexpr int kMostAsked = 16;
}  // namespace

Task<Result<void>> Child::start(std::vector<std::string> arguments, Json record) {
  ProcessSpec spec{key_, std::move(arguments), std::move(record)};
  ProcessFacts before = std::exchange(facts_, {State::starting, false, ""});
  auto started = co_await host_.start(std::move(spec));
  if (!started) {
    facts_ = std::move(before);
    co_return started.error();
  }
  found_at_.reset();
  begin(*std::move(started));
  co_return Result<void>();
}

void Child::adopt(std::unique_ptr<Process> process) {
  found_at_ = executor_.clock().now();
  begin(std::move(process));
  // When the patience is over its owner looks again.
  group_.spawn(look_later(alive_));
}

Task<Result<void>> Child::look_later(std::shared_ptr<bool> alive) {
  const CancelToken token = life_->token();
  const auto waited = co_await sleep_for(executor_, kPatience, token);
  if (waited && *alive) listener_.changed();
  co_return Result<void>();
}

void Child::begin(std::unique_ptr<Process> process) {
  process_ = std::move(process);
  facts_ = {};
  facts_.state = State::running;
  status_ = Json();
  last_word_.clear();
  clean_word_ = false;
  expected_ = false;
  life_ = std::make_unique<CancelSource>(group_.token());
  group_.spawn(await_end(alive_));
  group_.spawn(follow(alive_));
}

Task<Result<void>> Child::await_end(std::shared_ptr<bool> alive) {
  const std::shared_ptr<Process> process = process_;
  const CancelToken token = life_->token();
  auto ended = co_await process->wait(token);
  if (!ended || !*alive) co_return Result<void>();
  const std::string words = co_await host_.last_words(key_);
  if (!*alive) co_return Result<void>();
  facts_.state = State::ended;
  facts_.clean = clean_word_ || (ended->code ? *ended->code == 0 : expected_);
  facts_.cause = !last_word_.empty() ? last_word_ : ended->text();
  // One that failed says why as the last thing; of one that was killed the log tells nothing.
  if (last_word_.empty() && ended->code && *ended->code != 0 && !words.empty()) facts_.cause += ": " + words;
  control_.reset();
  life_->cancel();
  listener_.changed();
  co_return Result<void>();
}

Task<Result<void>> Child::follow(std::shared_ptr<bool> alive) {
  const CancelToken token = life_->token();
  constexpr Duration kPause = std::chrono::milliseconds(50);
  while (*alive && !token.is_cancelled()) {
    auto control = co_await host_.connect(key_, token);
    if (!*alive || token.is_cancelled()) break;
    if (control) {
      const std::shared_ptr<Control> mine = *std::move(control);
      control_ = mine;
      group_.spawn(first_status(alive, mine, token));
      (void)co_await listen(alive, mine, token);
      if (!*alive) break;
      if (control_ == mine) control_.reset();
    } else {
      log_warn("cannot reach a process", {{"process", key_}, {"error", control.error()}});
    }
    if (!co_await sleep_for(executor_, kPause, token)) break;
  }
  co_return Result<void>();
}

// Until it has answered once: one that was stopped for a while tells nothing by itself when it goes on.
Task<Result<void>> Child::first_status(std::shared_ptr<bool> alive, std::shared_ptr<Control> control,
                                       CancelToken token) {
  constexpr Duration kPause = std::chrono::seconds(1);
  while (control_ == control) {
    const auto done = co_await refresh();
    if (!*alive || done) break;
    log_debug("no status", {{"process", key_}, {"error", done.error()}});
    if (!co_await sleep_for(executor_, kPause, token) || !*alive) break;
  }
  co_return Result<void>();
}

Task<Result<void>> Child::listen(std::shared_ptr<bool> alive, std::shared_ptr<Control> control,
                                 CancelToken token) {
  while (true) {
    auto event = co_await control->next(token);
    if (!*alive) co_return Result<void>();
    if (!event) co_return event.error();
    if (event->name == "stopping") {
      const std::string reason(event->data.get_string("reason").value_or(""));
      const std::string message(event->data.get_string("message").value_or(""));
      clean_word_ = reason == "drained" || reason == "forced";
      last_word_ = message.empty() ? reason : reason + ": " + message;
    } else if (event->name == "state") {
      status_ = event->data;
    }
    ++heard_;
    if (listener_.heard) listener_.heard(*event);
    listener_.changed();
  }
}

Task<Result<Json>> Child::call(std::string op, Json arguments) {
  const std::shared_ptr<Control> control = control_;
  if (control == nullptr) co_return make_error(Errc::unavailable, "the process cannot be reached now");
  auto answer = co_await control->call(std::move(op), std::move(arguments));
  co_return answer;
}

Task<Result<void>> Child::refresh() {
  const std::shared_ptr<bool> alive = alive_;
  for (int attempt = 0; attempt < kMostAsked; ++attempt) {
    const std::uint64_t before = heard_;
    Json none = Json::object();
    auto answer = co_await call("status", std::move(none));
    if (!*alive) co_return make_error(Errc::cancelled, "the child is gone");
    if (!answer) co_return answer.error();
    // An event that came meanwhile may be newer than this answer, and was taken first: ask again.
    if (heard_ != before) continue;
    status_ = *std::move(answer);
    listener_.changed();
    break;
  }
  co_return Result<void>();
}

}  // namespace moor::agent
