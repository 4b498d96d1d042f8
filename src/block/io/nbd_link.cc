#include "block/io/nbd_link.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "block/io/connection.h"
#include "block/io/tls.h"

namespace moor::block::io {

namespace {

// The connect operation outlives a link that is given up early.
class Connecting final : public Retired, public Completion {
 public:
  Connecting(Loop& loop, Address address, std::function<void(Result<Descriptor>)> done)
      : loop_(loop), address_(std::move(address)), done_(std::move(done)) {}

  Result<void> start() {
    TRY(socket_, new_socket(address_));
    loop_.connect(*this, socket_.get(), address_.raw(), address_.size);
    return {};
  }
  void give_up() {
    done_ = nullptr;
    loop_.cancel(*this);
  }
  void on_complete(int result) override {
    const auto done = std::exchange(done_, nullptr);
    if (done && result == 0) done(std::move(socket_));
    if (done && result < 0) done(errno_error(-result, fmt::format("connect {}", address_.text)));
    loop_.retired_done(*this);
  }

 private:
  Loop& loop_;
  Address address_;
  std::function<void(Result<Descriptor>)> done_;
  Descriptor socket_;
};

}  // namespace

class NbdLink::Core final : public StreamHandler {
 public:
  Core(Loop& loop, BufferPool& pool, const Address& address, NbdLinkOptions options, NbdLinkHandler& handler)
      : loop_(loop),
        pool_(pool),
        options_(std::move(options)),
        handler_(handler),
        client_(pool, options_.client),
        timeout_(loop, [this] { timed_out(); }) {
    auto connecting = std::make_unique<Connecting>(
        loop, address, [this](Result<Descriptor> socket) { connected(std::move(socket)); });
    if (const auto started = connecting->start(); !started) {
      failure_ = started.error();
      timeout_.start(std::chrono::nanoseconds(0));  // never call back from a constructor
      return;
    }
    connecting_ = connecting.get();
    loop_.retire(std::move(connecting));
    timeout_.start(options_.connect_timeout);
  }
  ~Core() {
    if (connecting_ != nullptr) connecting_->give_up();
  }

  std::size_t on_bytes(Bytes bytes) override {
    const std::size_t taken = client_.feed(bytes);
    handle_events();
    return taken;
  }
  bool wants_bytes() const override { return true; }
  Slice direct_space() const override { return client_.direct_space(); }
  void direct_filled(std::size_t bytes) override {
    client_.direct_filled(bytes);
    handle_events();
  }
  OutQueue& out() override { return client_.out(); }
  void on_closed(std::optional<Error> why) override {
    timeout_.stop();
    if (failure_) why = std::move(failure_);
    handler_.on_closed(std::move(why));
  }

  bool can_send() const { return connection_ != nullptr && client_.can_send(); }
  void send(nbd::ClientRequest request) {
    client_.send(std::move(request));
    connection_->stir();
  }
  void disconnect() {
    client_.disconnect();
    if (connection_ != nullptr) return connection_->close_after_send();
    timeout_.start(std::chrono::nanoseconds(0));
    failure_ = make_error(Errc::cancelled, "disconnected before it was connected");
  }

 private:
  void connected(Result<Descriptor> socket) {
    connecting_ = nullptr;
    if (!socket) {
      timeout_.stop();
      return handler_.on_closed(std::move(socket).error());
    }
    connection_ = std::make_unique<Connection>(loop_, pool_, std::move(*socket), *this);
  }

  void handle_events() {
    // The handler may destroy this link in any call: what is still to be delivered then dies with it.
    std::vector<nbd::ClientEvent> events;
    client_.swap_events(events);
    const std::weak_ptr<bool> alive = alive_;
    for (auto& event : events) {
      if (std::holds_alternative<nbd::TlsReady>(event)) {
        start_tls();
        continue;
      }
      const bool ends = std::holds_alternative<nbd::ClientFailed>(event) ||
                        std::holds_alternative<nbd::Refused>(event) ||
                        std::holds_alternative<nbd::Farewell>(event);
      if (ends || std::holds_alternative<nbd::Ready>(event)) timeout_.stop();
      handler_.on_event(std::move(event));
      if (alive.expired()) return;
      if (ends) connection_->close_after_send();
    }
  }

  void start_tls() {
    if (options_.tls == nullptr) {
      failure_ = make_error(Errc::invalid, "TLS without a context");
      return connection_->close_after_send();
    }
    auto session = options_.tls->session(options_.tls_host);
    if (!session) {
      failure_ = std::move(session).error();
      return connection_->close_after_send();
    }
    connection_->start_tls(std::move(*session));
    client_.tls_started();
  }

  void timed_out() {
    if (!failure_) failure_ = make_error(Errc::timed_out, "no NBD session in time");
    if (connecting_ != nullptr) std::exchange(connecting_, nullptr)->give_up();
    connection_.reset();
    handler_.on_closed(std::exchange(failure_, std::nullopt));
  }

  Loop& loop_;
  BufferPool& pool_;
  NbdLinkOptions options_;
  NbdLinkHandler& handler_;
  nbd::Client client_;
  Timer timeout_;
  Connecting* connecting_ = nullptr;
  std::unique_ptr<Connection> connection_;
  std::optional<Error> failure_;
  // Shared only as a sign of life, for the loop above.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

NbdLink::NbdLink(Loop& loop, BufferPool& pool, const Address& address, NbdLinkOptions options,
                 NbdLinkHandler& handler)
    : core_(std::make_unique<Core>(loop, pool, address, std::move(options), handler)) {}
NbdLink::~NbdLink() = default;
bool NbdLink::can_send() const {
  return core_->can_send();
}
void NbdLink::send(nbd::ClientRequest request) {
  core_->send(std::move(request));
}
void NbdLink::disconnect() {
  core_->disconnect();
}

}  // namespace moor::block::io
