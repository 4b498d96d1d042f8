#include "agent/real/control_link.h"

#include <array>
#include <deque>
#include <map>

#include "base/completion.h"
#include "base/task_group.h"
#include "block/core/control_protocol.h"
#include "http/sockets.h"
#include "http/transport.h"

namespace moor::agent {
namespace {

namespace control = block::control;
using namespace std::chrono_literals;

constexpr Duration kAnswerWithin = 30s;

class ControlLink final : public Control {
 public:
  ControlLink(Loop& loop, std::shared_ptr<http::Transport> transport)
      : loop_(loop), transport_(std::move(transport)) {}
  ~ControlLink() override {
    transport_->close();
    fail_all(make_error(Errc::unavailable, "the connection is closed"));
  }

  Task<Result<Json>> call(std::string op, Json arguments) override {
    const std::uint64_t id = next_id_++;
    const Completion<Result<Json>> answer(loop_);
    CO_TRY_VOID(lost_ ? Result<void>(*lost_) : Result<void>());
    waiting_.emplace(id, answer);
    const Executor::TimerId timer = loop_.start_timer(loop_.clock().now() + kAnswerWithin, [answer] {
      answer.set(make_error(Errc::timed_out, "a process does not answer on its control socket"));
    });
    Loop& loop = loop_;
    control::Call call{id, std::move(op), std::move(arguments)};
    std::string text = control::encode_call(call);
    auto sent = co_await send(std::move(text));
    if (!sent) answer.set(sent.error());
    Result<Json> result = co_await answer;
    loop.stop_timer(timer);
    co_return result;
  }

  Task<Result<Event>> next(CancelToken token) override {
    const std::shared_ptr<http::Transport> transport = transport_;
    const CancelCallback on_cancel(token, [transport] { transport->interrupt(); });
    std::array<char, 16 * 1024> buffer;
    while (true) {
      CO_TRY_VOID(token.check());
      if (!events_.empty()) {
        Event event = std::move(events_.front());
        events_.pop_front();
        co_return event;
      }
      if (lost_) co_return *lost_;
      const auto got = transport->read_some(buffer.data(), buffer.size());
      if (got.status == http::Transport::Status::again) {
        co_await transport->readable();
      } else if (got.status == http::Transport::Status::done) {
        take({buffer.data(), got.bytes});
      } else {
        lose(make_error(Errc::unavailable, "a process closed its control socket"));
      }
    }
  }

 private:
  void lose(Error why) {
    lost_ = why;
    fail_all(why);
  }
  void fail_all(const Error& why) {
    for (const auto& [id, answer] : std::exchange(waiting_, {})) answer.set(why);
  }

  void take(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
      const auto taken = reader_.feed({data, bytes.size()});
      if (!taken) return lose(taken.error());
      bytes.remove_prefix(*taken);
      if (!reader_.complete()) continue;
      auto message = control::decode_message(reader_.take());
      if (!message) return lose(message.error());
      if (auto* reply = std::get_if<control::Reply>(&*message)) {
        const auto found = waiting_.find(reply->id);
        if (found == waiting_.end()) continue;  // answered too late
        found->second.set(std::move(reply->result));
        waiting_.erase(found);
      } else {
        auto& event = std::get<control::Event>(*message);
        events_.push_back({std::move(event.name), std::move(event.data)});
      }
    }
  }

  Task<Result<void>> send(std::string text) {
    const auto size = static_cast<std::uint32_t>(text.size());
    for (int shift = 24; shift >= 0; shift -= 8) out_ += static_cast<char>(size >> shift & 0xff);
    out_ += text;
    if (writing_) co_return Result<void>();  // whoever writes takes this along
    writing_ = true;
    const std::shared_ptr<http::Transport> transport = transport_;
    while (!out_.empty() && !lost_) {
      const http::Slice slice{out_.data(), out_.size()};
      const auto put = transport->write_some(&slice, 1);
      if (put.status == http::Transport::Status::again) {
        co_await transport->writable();
        if (transport->is_closed()) co_return make_error(Errc::unavailable, "the connection is closed");
      } else if (put.status == http::Transport::Status::done) {
        out_.erase(0, put.bytes);
      } else {
        lose(make_error(Errc::unavailable, "a process closed its control socket"));
      }
    }
    writing_ = false;
    co_return lost_ ? Result<void>(*lost_) : Result<void>();
  }

  Loop& loop_;
  // Shared with waits under way.
  std::shared_ptr<http::Transport> transport_;
  control::FrameReader reader_;
  std::map<std::uint64_t, Completion<Result<Json>>> waiting_;
  std::deque<Event> events_;
  std::string out_;
  bool writing_ = false;
  std::uint64_t next_id_ = 1;
  std::optional<Error> lost_;
};

Task<Result<void>> greet(std::shared_ptr<ControlLink> link, std::shared_ptr<CancelSource> over) {
  Json version = Json::object({{"version", control::kVersion}});
  auto hello = co_await link->call("hello", std::move(version));
  Result<void> result;
  if (hello) {
    Json all = Json::object({{"events", Json::array({"*"})}});
    auto subscribed = co_await link->call("subscribe", std::move(all));
    if (!subscribed) result = subscribed.error();
  } else {
    result = hello.error();
  }
  over->cancel();
  co_return result;
}

// A connection that is greeted is handed out; the events that came meanwhile are kept in it.
class Greeted final : public Control {
 public:
  // Shared with the task that greets, which may end a moment later.
  explicit Greeted(std::shared_ptr<ControlLink> link) : link_(std::move(link)) {}
  Task<Result<Json>> call(std::string op, Json arguments) override {
    const std::shared_ptr<ControlLink> link = link_;
    auto answer = co_await link->call(std::move(op), std::move(arguments));
    co_return answer;
  }
  Task<Result<Event>> next(CancelToken token) override {
    const std::shared_ptr<ControlLink> link = link_;
    if (early_ && !early_->empty()) {
      Event event = std::move(early_->front());
      early_->pop_front();
      co_return event;
    }
    auto event = co_await link->next(std::move(token));
    co_return event;
  }
  std::shared_ptr<std::deque<Event>> early_;

 private:
  std::shared_ptr<ControlLink> link_;
};

Task<Result<void>> listen_until(std::shared_ptr<ControlLink> link, CancelToken token,
                                std::shared_ptr<std::deque<Control::Event>> early) {
  while (true) {
    auto event = co_await link->next(token);
    if (!event) break;
    early->push_back(*std::move(event));
  }
  co_return Result<void>();
}

}  // namespace

Task<Result<std::unique_ptr<Control>>> open_control(Loop& loop, std::string path, CancelToken token) {
  CO_TRY(const http::SocketAddress address, http::unix_address(path));
  CO_TRY(const int socket, http::start_connect(address));
  CO_TRY(auto transport, http::Transport::adopt(loop, socket));
  CO_TRY_VOID(http::connect_result(socket));
  auto link = std::make_shared<ControlLink>(loop, transport);   // shared by the two tasks below
  auto over = std::make_shared<CancelSource>(token);            // likewise
  auto early = std::make_shared<std::deque<Control::Event>>();  // likewise
  TaskGroup group(loop, token);
  group.spawn(listen_until(link, over->token(), early));
  group.spawn(greet(link, over));
  auto joined = co_await group.join();
  if (!joined) co_return joined.error();
  CO_TRY_VOID(token.check());
  auto greeted = std::make_unique<Greeted>(std::move(link));
  greeted->early_ = std::move(early);
  co_return std::unique_ptr<Control>(std::move(greeted));
}

}  // namespace moor::agent
