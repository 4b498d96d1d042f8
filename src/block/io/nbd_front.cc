#include "block/io/nbd_front.h"

#include "base/assert.h"
#include "base/log.h"
#include "block/io/acceptor.h"
#include "block/io/connection.h"
#include "block/io/tls.h"

namespace moor::block::io {

class NbdFront::Link final : public StreamHandler, public Retired {
 public:
  Link(NbdFront& front, ConnectionId id, Descriptor socket, nbd::TlsMode tls)
      : front_(front),
        id_(id),
        server_(front.pool_, tls, front.options_.limits),
        connection_(std::make_unique<Connection>(front.loop_, front.pool_, std::move(socket), *this)),
        handshake_(front.loop_, [this] { handshake_timed_out(); }) {
    handshake_.start(front_.options_.handshake_timeout);
  }

  std::size_t on_bytes(Bytes bytes) override {
    if (!is_welcome()) return 0;
    const std::size_t taken = server_.feed(bytes);
    handle_events();
    return taken;
  }
  bool wants_bytes() const override { return !server_.paused() && !ending_ && is_welcome(); }
  Slice direct_space() const override { return server_.direct_space(); }
  void direct_filled(std::size_t bytes) override {
    server_.direct_filled(bytes);
    handle_events();
  }
  OutQueue& out() override { return server_.out(); }
  void on_closed(std::optional<Error> why) override {
    if (why) log_debug("NBD connection broke", {{"connection", id_}, {"error", *why}});
    front_.ended(id_);
  }

  // For the backend: whatever it does with the machine is seen at the end of the turn.
  nbd::Server& touched() {
    connection_->stir();
    return server_;
  }
  // Ends the calls from below; the object itself lives to the end of the turn, for it may be on the stack.
  void bury() {
    handshake_.stop();
    connection_.reset();
  }

  void drop(std::string_view farewell) {
    server_.farewell(farewell);
    end();
  }

  void stir() { connection_->stir(); }

 private:
  // Negotiations always go on: they bring no requests.
  bool is_welcome() const { return !server_.in_transmission() || front_.backend_.wants_requests(); }

  void handle_events() {
    // Replies given inside request() can bring further events (the end of a drain); hence the loop. Each
    // round takes at least one event of a finite input.
    std::vector<nbd::ServerEvent> events;
    server_.swap_events(events);
    while (!events.empty()) {
      for (auto& event : events) {
        if (connection_ != nullptr) handle(event);
      }
      events.clear();
      server_.swap_events(events);
    }
  }

  void handle(nbd::ServerEvent& event) {
    if (auto* request = std::get_if<nbd::Request>(&event)) {
      front_.backend_.request(id_, std::move(*request));
    } else if (std::holds_alternative<nbd::ListRequested>(event)) {
      server_.list(front_.backend_.list());
    } else if (const auto* open = std::get_if<nbd::OpenRequested>(&event)) {
      front_.backend_.open(id_, *open);
    } else if (std::holds_alternative<nbd::TlsRequested>(event)) {
      start_tls();
    } else if (const auto* failed = std::get_if<nbd::Failed>(&event)) {
      log_info("NBD connection ended", {{"connection", id_}, {"reason", failed->why}});
      end();
    } else {
      end();
    }
  }

  void start_tls() {
    auto session = front_.options_.tls->session();
    if (!session) {
      log_warn("no TLS session", {{"error", session.error()}});
      return end();
    }
    connection_->start_tls(std::move(*session));
    server_.tls_started();
  }

  void end() {
    if (std::exchange(ending_, true)) return;
    handshake_.stop();
    connection_->close_after_send();
  }

  void handshake_timed_out() {
    if (server_.in_transmission() || ending_) return;
    // An open that the backend still thinks about is our delay and not the client's.
    if (server_.paused()) return handshake_.start(front_.options_.handshake_timeout);
    log_info("NBD handshake timed out", {{"connection", id_}});
    end();
  }

  NbdFront& front_;
  ConnectionId id_;
  nbd::Server server_;
  std::unique_ptr<Connection> connection_;
  Timer handshake_;
  bool ending_ = false;
};

NbdFront::NbdFront(Loop& loop, BufferPool& pool, NbdBackend& backend, NbdFrontOptions options)
    : loop_(loop), pool_(pool), backend_(backend), options_(options) {}

NbdFront::~NbdFront() = default;

Result<Address> NbdFront::listen(const Address& address) {
  TRY(auto socket, listen_on(address));
  TRY(auto bound, bound_address(socket.get()));
  const bool is_unix = address.is_unix();
  acceptors_.push_back(std::make_unique<Acceptor>(
      loop_, std::move(socket),
      [this, is_unix](Descriptor accepted_socket) { accepted(std::move(accepted_socket), is_unix); }));
  return bound;
}

void NbdFront::stop_listening() {
  acceptors_.clear();
}

void NbdFront::accepted(Descriptor socket, bool is_unix) {
  if (links_.size() >= options_.max_connections) {
    log_warn("too many NBD connections", {{"limit", options_.max_connections}});
    return;  // the descriptor closes
  }
  auto tls = nbd::TlsMode::none;
  if (options_.tls != nullptr) tls = is_unix ? nbd::TlsMode::offered : nbd::TlsMode::required;
  const ConnectionId id = next_++;
  links_.emplace(id, std::make_unique<Link>(*this, id, std::move(socket), tls));
}

nbd::Server* NbdFront::server(ConnectionId connection) {
  const auto found = links_.find(connection);
  return found == links_.end() ? nullptr : &found->second->touched();
}

void NbdFront::stir() {
  for (auto& [id, link] : links_) link->stir();
}

void NbdFront::drop(ConnectionId connection, std::string_view farewell) {
  const auto found = links_.find(connection);
  if (found != links_.end()) found->second->drop(farewell);
}

void NbdFront::cut(ConnectionId connection) {
  if (links_.contains(connection)) ended(connection);
}

void NbdFront::ended(ConnectionId connection) {
  const auto found = links_.find(connection);
  MOOR_ASSERT(found != links_.end(), "connection {} has ended before", connection);
  found->second->bury();
  Link& link = *found->second;
  loop_.retire(std::move(found->second));
  loop_.retired_done(link);
  links_.erase(found);
  backend_.closed(connection);
}

}  // namespace moor::block::io
