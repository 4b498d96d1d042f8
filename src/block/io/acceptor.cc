#include "block/io/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/log.h"
#include "block/io/address.h"

namespace moor::block::io {

namespace {

constexpr auto kPause = std::chrono::milliseconds(100);

}  // namespace

class Acceptor::Core final : public Retired, public Completion {
 public:
  Core(Loop& loop, Descriptor listener, std::function<void(Descriptor)> accepted)
      : loop_(loop),
        listener_(std::move(listener)),
        accepted_(std::move(accepted)),
        pause_(loop, [this] { wait(); }) {
    wait();
  }

  // Ends the pending accept; the listener closes with this object.
  void detach() {
    accepted_ = nullptr;
    pause_.stop();
    if (!pending_) return loop_.retired_done(*this);
    loop_.cancel(*this);
  }

  void on_complete(int result) override {
    pending_ = false;
    Descriptor socket(result >= 0 ? result : -1);
    if (!accepted_) return loop_.retired_done(*this);
    if (result < 0) {
      if (result != -ECONNABORTED && result != -EINTR) {
        log_warn("accept failed", {{"error", errno_error(-result, "accept")}});
        return pause_.start(kPause);
      }
      return wait();
    }
    const int on = 1;
    // Fails on unix sockets, which have no delay to switch off.
    static_cast<void>(::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    widen(socket.get());
    wait();
    accepted_(std::move(socket));
  }

 private:
  void wait() {
    pending_ = true;
    loop_.accept(*this, listener_.get());
  }

  Loop& loop_;
  Descriptor listener_;
  std::function<void(Descriptor)> accepted_;
  Timer pause_;
  bool pending_ = false;
};

Acceptor::Acceptor(Loop& loop, Descriptor listener, std::function<void(Descriptor)> accepted)
    : core_(new Core(loop, std::move(listener), std::move(accepted))), loop_(&loop) {}

Acceptor::~Acceptor() {
  loop_->retire(std::unique_ptr<Retired>(core_));
  core_->detach();
}

}  // namespace moor::block::io
