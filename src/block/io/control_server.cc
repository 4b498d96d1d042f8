#include "block/io/control_server.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "base/log.h"
#include "block/core/control_protocol.h"
#include "block/io/acceptor.h"
#include "block/io/connection.h"

namespace moor::block::io {

namespace {

constexpr std::size_t kMaxSessions = 64;

}  // namespace

Responder::Responder(std::weak_ptr<ControlServer*> server, std::uint64_t session, std::uint64_t call)
    : server_(std::move(server)), session_(session), call_(call) {}

Responder::Responder(Responder&& other) noexcept
    : server_(std::move(other.server_)),
      session_(other.session_),
      call_(other.call_),
      open_(std::exchange(other.open_, false)) {}

Responder& Responder::operator=(Responder&& other) noexcept {
  std::swap(server_, other.server_);
  std::swap(session_, other.session_);
  std::swap(call_, other.call_);
  std::swap(open_, other.open_);
  return *this;
}

Responder::~Responder() {
  if (open_) fail(make_error(Errc::internal, "the call was given up without an answer"));
}

void Responder::reply(Json result) {
  finish(std::move(result));
}
void Responder::fail(const Error& error) {
  finish(error);
}

void Responder::finish(Result<Json> result) {
  MOOR_ASSERT(open_, "a call answered twice");
  open_ = false;
  if (const auto server = server_.lock()) (*server)->answer(session_, call_, std::move(result));
}

class ControlServer::Link final : public StreamHandler, public Retired {
 public:
  Link(ControlServer& server, std::uint64_t id, Descriptor socket)
      : server_(server),
        id_(id),
        session_(server.pool_, server.about_),
        connection_(std::make_unique<Connection>(server.loop_, server.pool_, std::move(socket), *this)) {}

  std::size_t on_bytes(Bytes bytes) override {
    const std::size_t taken = session_.feed(bytes);
    handle_events();
    return taken;
  }
  bool wants_bytes() const override { return !session_.paused() && !ending_; }
  OutQueue& out() override { return session_.out(); }
  void on_closed(std::optional<Error>) override { server_.ended(id_); }
  void bury() { connection_.reset(); }

  void answer(std::uint64_t call, Result<Json> result) {
    if (result) {
      session_.reply(call, std::move(*result));
    } else {
      session_.reply_error(call, result.error());
    }
    connection_->stir();
  }
  void publish(std::string_view name, const Json& data) {
    session_.event(name, data);
    handle_events();  // perhaps the end of one that does not keep up
    if (connection_ != nullptr) connection_->stir();
  }

 private:
  void handle_events() {
    for (auto& event : session_.take_events()) {
      if (connection_ == nullptr) return;
      if (const auto* ended = std::get_if<control::Ended>(&event)) {
        log_info("control session ended", {{"session", id_}, {"reason", ended->why}});
        if (!std::exchange(ending_, true)) connection_->close_after_send();
        continue;
      }
      const auto& call = std::get<control::Call>(event);
      Responder responder(server_.self_, id_, call.id);
      const auto handler = server_.handlers_.find(call.op);
      if (handler == server_.handlers_.end()) {
        responder.fail(make_error(Errc::unsupported, fmt::format("\"{}\" is not known here", call.op)));
      } else {
        handler->second(call.arguments, std::move(responder));
      }
    }
  }

  ControlServer& server_;
  std::uint64_t id_;
  control::Session session_;
  std::unique_ptr<Connection> connection_;
  bool ending_ = false;
};

ControlServer::ControlServer(Loop& loop, BufferPool& pool, Json about)
    : loop_(loop), pool_(pool), about_(std::move(about)), self_(std::make_shared<ControlServer*>(this)) {}

ControlServer::~ControlServer() = default;

void ControlServer::on(std::string op, Handler handler) {
  const bool added = handlers_.emplace(std::move(op), std::move(handler)).second;
  MOOR_ASSERT(added, "two handlers for one op");
}

Result<void> ControlServer::listen(const Address& address) {
  if (!address.is_unix())
    return make_error(Errc::invalid, "the control protocol is served on unix sockets only");
  TRY(auto socket, listen_on(address));
  acceptor_ = std::make_unique<Acceptor>(
      loop_, std::move(socket), [this](Descriptor accepted_socket) { accepted(std::move(accepted_socket)); });
  return {};
}

void ControlServer::accepted(Descriptor socket) {
  if (links_.size() >= kMaxSessions) {
    log_warn("too many control sessions", {{"limit", kMaxSessions}});
    return;
  }
  const auto id = next_++;
  links_.emplace(id, std::make_unique<Link>(*this, id, std::move(socket)));
}

void ControlServer::publish(std::string_view event, const Json& data) {
  for (auto& [id, link] : links_) link->publish(event, data);
}

void ControlServer::answer(std::uint64_t session, std::uint64_t call, Result<Json> result) {
  const auto found = links_.find(session);
  if (found != links_.end()) found->second->answer(call, std::move(result));
}

void ControlServer::ended(std::uint64_t session) {
  const auto found = links_.find(session);
  MOOR_ASSERT(found != links_.end());
  Link& link = *found->second;
  link.bury();
  loop_.retire(std::move(found->second));
  loop_.retired_done(link);
  links_.erase(found);
}

}  // namespace moor::block::io
