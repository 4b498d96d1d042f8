// The only place where sockets meet Asio: one descriptor, two waits. Reads and writes are plain system calls
// in transport.cc, which keeps Asio's templates (seconds of compile time per file) in here.
#include <unistd.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_descriptor.hpp>

#include "http/transport.h"

namespace moor::http {
namespace {
namespace asio = boost::asio;

struct Descriptor : asio::posix::basic_descriptor<asio::io_context::executor_type> {
  using basic_descriptor::basic_descriptor;
};

class AsioTransport final : public Transport {
 public:
  AsioTransport(Loop& loop, int socket) : Transport(socket), descriptor_(loop.context()) {}
  ~AsioTransport() override {
    if (socket_ >= 0) AsioTransport::close();
  }

  boost::system::error_code assign() {
    boost::system::error_code error;
    descriptor_.assign(socket_, error);
    return error;
  }

  void interrupt() override {
    boost::system::error_code ignored;  // nothing waited: nothing to wake
    descriptor_.cancel(ignored);
  }

  void close() override {
    if (socket_ < 0) return;
    socket_ = -1;
    boost::system::error_code ignored;  // the descriptor is gone either way
    descriptor_.close(ignored);
  }

 protected:
  void start_wait(Direction direction) override {
    descriptor_.async_wait(
        direction == Direction::read ? Descriptor::wait_read : Descriptor::wait_write,
        [self = std::static_pointer_cast<AsioTransport>(shared_from_this()), direction](
            const boost::system::error_code& error) { self->on_ready(direction, static_cast<bool>(error)); });
  }

 private:
  Descriptor descriptor_;
};

}  // namespace

Result<std::shared_ptr<Transport>> Transport::adopt(Loop& loop, int socket) {
  auto transport = std::make_shared<AsioTransport>(loop, socket);
  if (const auto error = transport->assign()) {
    ::close(socket);
    transport->socket_ = -1;
    return make_error(Errc::internal, "watch a socket: " + error.message());
  }
  return std::shared_ptr<Transport>(std::move(transport));
}

}  // namespace moor::http
