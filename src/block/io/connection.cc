#include "block/io/connection.h"

#include <sys/socket.h>

#include <array>
#include <limits>

#include "base/assert.h"
#include "block/io/tls.h"

namespace moor::block::io {

namespace {

constexpr std::size_t kStagingBytes = 64u << 10;
// After a large payload another is likely: little is received with its header, the rest into its place.
constexpr std::size_t kHeaderBytes = 4u << 10;
constexpr std::size_t kPlainBytes = 16u << 10;  // one TLS record
constexpr std::size_t kSendBytes = 1u << 20;    // about this much per send
constexpr std::size_t kSendPieces = 256;
constexpr auto kLinger = std::chrono::seconds(10);

}  // namespace

class Connection::Stream final : public Retired, public TurnTask {
 public:
  Stream(Loop& loop, BufferPool& pool, Descriptor socket, StreamHandler& handler)
      : loop_(loop),
        pool_(pool),
        socket_(std::move(socket)),
        handler_(&handler),
        outgoing_(pool),
        linger_(loop, [this] {
          close(make_error(Errc::timed_out, "the other side does not take our last bytes"));
        }) {
    receive_.stream = this;
    send_.stream = this;
    loop_.at_turn_end(*this);
  }
  ~Stream() override { loop_.forget(*this); }

  void stir() {
    // While our own turn end runs, everything that is due still comes: another turn would find nothing.
    if (!in_turn_end_) loop_.at_turn_end(*this);
  }

  void close_after_send() {
    closing_ = true;
    linger_.start(kLinger);
    stir();
  }

  void start_tls(std::unique_ptr<TlsSession> session) {
    MOOR_ASSERT(!is_tls(), "TLS is already in use");
    // What is queued now goes out in the clear; what comes later is encrypted. The switch itself waits until
    // the machine has told how many of the received bytes were its own.
    if (handler_ != nullptr) handler_->out().move_to(outgoing_, kUnlimited, kUnlimited);
    next_tls_ = std::move(session);
    stir();
  }
  bool is_tls() const { return tls_ != nullptr || next_tls_ != nullptr; }

  // The owner has gone: no more calls to it; ends when the kernel is done with our memory.
  void detach() {
    handler_ = nullptr;
    linger_.stop();
    shut_down();
    if (is_idle()) loop_.retired_done(*this);
  }

  void on_turn_end() override {
    if (handler_ == nullptr) return;
    if (tls_failure_) return close(std::exchange(tls_failure_, std::nullopt));
    in_turn_end_ = true;
    offer();
    if (handler_ != nullptr) start_send();
    if (handler_ != nullptr) start_receive();
    in_turn_end_ = false;
    if (handler_ != nullptr && send_failure_ && !receiving_)
      close(std::exchange(send_failure_, std::nullopt));
  }

 private:
  static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
  struct Receive final : Completion {
    Stream* stream = nullptr;
    void on_complete(int result) override { stream->received(result); }
  };
  struct Send final : Completion {
    Stream* stream = nullptr;
    void on_complete(int result) override { stream->sent(result); }
  };

  bool is_idle() const { return !receiving_ && !sending_; }
  Bytes staged() const { return staging_.span().subspan(staged_begin_, staged_end_ - staged_begin_); }

  void shut_down() {
    if (std::exchange(is_shut_, true)) return;
    ::shutdown(socket_.get(), SHUT_RDWR);
  }

  void close(std::optional<Error> why) {
    shut_down();
    linger_.stop();
    StreamHandler* handler = std::exchange(handler_, nullptr);
    if (handler != nullptr) handler->on_closed(std::move(why));
  }

  // Gives the machine what is there, at least an empty range: it may hold a request that waited for room.
  void offer() {
    while (handler_ != nullptr && !closing_ && handler_->wants_bytes()) {
      if (tls_ != nullptr && plain_begin_ == plain_end_ && !decrypt()) return;
      const Bytes bytes =
          tls_ ? Bytes(plain_.span().subspan(plain_begin_, plain_end_ - plain_begin_)) : staged();
      const std::size_t taken = handler_->on_bytes(bytes);
      MOOR_ASSERT(taken <= bytes.size());
      (tls_ ? plain_begin_ : staged_begin_) += taken;
      if (next_tls_ != nullptr && !begin_tls()) return;
      if (staged_begin_ == staged_end_) staged_begin_ = staged_end_ = 0;
      const bool may_have_more = tls_ != nullptr || staged_begin_ != staged_end_;
      if (bytes.empty() || taken == 0 || !may_have_more) return;
    }
  }

  bool begin_tls() {
    tls_ = std::move(next_tls_);
    const auto fed = tls_->feed(staged());
    staged_begin_ = staged_end_ = 0;
    if (fed) return true;
    tls_failure_ = fed.error();
    loop_.at_turn_end(*this);
    return false;
  }

  bool decrypt() {
    if (plain_.empty()) plain_ = pool_.allocate(kPlainBytes);
    auto got = tls_->read(plain_.span());
    if (!got) {
      close(std::move(got).error());
      return false;
    }
    plain_begin_ = 0;
    plain_end_ = *got;
    if (*got == 0 && tls_->has_ended()) {
      close(std::nullopt);
      return false;
    }
    return true;
  }

  void start_receive() {
    if (receiving_ || closing_ || is_shut_ || staged_begin_ != staged_end_ || !handler_->wants_bytes())
      return;
    if (plain_begin_ != plain_end_) return;
    if (tls_ == nullptr) direct_ = handler_->direct_space();
    if (direct_.empty() && staging_.empty()) staging_ = pool_.allocate(kStagingBytes);
    receiving_ = true;
    // A payload that is on its way is worth one wake-up, not one per piece of it.
    if (direct_.empty()) {
      const auto room =
          tls_ == nullptr && was_direct_ ? staging_.span().first(kHeaderBytes) : staging_.span();
      return loop_.receive(receive_, socket_.get(), room);
    }
    loop_.receive_all(receive_, socket_.get(), direct_.span());
  }

  void received(int result) {
    receiving_ = false;
    was_direct_ = !direct_.empty();
    const Slice direct = std::exchange(direct_, {});
    if (handler_ == nullptr) return finish();
    if (result == -EINTR || result == -EAGAIN) return stir();
    if (result == 0) return close(std::exchange(send_failure_, std::nullopt));
    if (result < 0) return close(errno_error(-result, "receive"));
    const auto bytes = static_cast<std::size_t>(result);
    if (was_direct_) {
      handler_->direct_filled(bytes);
    } else if (tls_ != nullptr) {
      if (const auto fed = tls_->feed(staging_.span().first(bytes)); !fed) tls_failure_ = fed.error();
    } else {
      staged_end_ = bytes;
    }
    stir();
    offer();
  }

  void start_send() {
    if (sending_ || is_shut_ || send_failure_) return;
    if (tls_ != nullptr) {
      if (const auto written = tls_->write(handler_->out()); !written) return close(written.error());
      if (closing_ && handler_->out().empty()) tls_->close();
      tls_->drain(outgoing_);
    } else {
      handler_->out().move_to(outgoing_, kSendBytes, kSendPieces);
    }
    if (outgoing_.empty()) {
      if (closing_) close(std::nullopt);
      return;
    }
    message_.msg_iov = pieces_.data();
    message_.msg_iovlen = outgoing_.gather(pieces_.data(), pieces_.size());
    sending_ = true;
    loop_.send(send_, socket_.get(), &message_);
  }

  void sent(int result) {
    sending_ = false;
    if (result > 0) outgoing_.consume(static_cast<std::size_t>(result));
    if (handler_ == nullptr) return finish();
    if (result < 0 && result != -EINTR && result != -EAGAIN) {
      // Whoever closed may have said why before; that lies in our buffer and is read first.
      send_failure_ = errno_error(-result, "send");
    }
    stir();
  }

  void finish() {
    // Between close() and the owner's letting go the stream is not retired yet; detach() then finds it idle.
    if (is_idle() && retired_) loop_.retired_done(*this);
  }

 public:
  bool retired_ = false;

 private:
  Loop& loop_;
  BufferPool& pool_;
  Descriptor socket_;
  StreamHandler* handler_;
  OutQueue outgoing_;
  Timer linger_;
  Receive receive_;
  Send send_;
  bool receiving_ = false;
  bool sending_ = false;
  bool closing_ = false;
  bool is_shut_ = false;
  bool in_turn_end_ = false;
  Slice staging_;
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;
  Slice direct_;
  bool was_direct_ = false;  // the last receive went straight into a payload
  msghdr message_{};
  std::array<iovec, kSendPieces> pieces_;
  std::unique_ptr<TlsSession> tls_;
  std::unique_ptr<TlsSession> next_tls_;
  std::optional<Error> tls_failure_;
  std::optional<Error> send_failure_;  // nothing more is sent; what was received is still read
  Slice plain_;
  std::size_t plain_begin_ = 0;
  std::size_t plain_end_ = 0;
};

Connection::Connection(Loop& loop, BufferPool& pool, Descriptor socket, StreamHandler& handler)
    : stream_(new Stream(loop, pool, std::move(socket), handler)), loop_(&loop) {}

Connection::~Connection() {
  stream_->retired_ = true;
  loop_->retire(std::unique_ptr<Retired>(stream_));
  stream_->detach();
}

void Connection::stir() {
  stream_->stir();
}
void Connection::close_after_send() {
  stream_->close_after_send();
}
void Connection::start_tls(std::unique_ptr<TlsSession> session) {
  stream_->start_tls(std::move(session));
}
bool Connection::is_tls() const {
  return stream_->is_tls();
}

}  // namespace moor::block::io
