// Where a program listens or connects: "unix:PATH" or "tcp:HOST:PORT" ("tcp:[::1]:10809"; port 0 when
// listening: the kernel chooses). Host names are looked up at once and blockingly: at start-up, never in a
// serving loop.
#pragma once

#include <sys/socket.h>
#include <string>
#include <string_view>

#include "base/result.h"

namespace moor::block::io {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor();
  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }
  int release() {
    const int value = value_;
    value_ = -1;
    return value;
  }

 private:
  int value_ = -1;
};

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  std::string text;  // as given, for people
  bool is_unix() const { return storage.ss_family == AF_UNIX; }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Address> parse_address(std::string_view text);
// already_exists: someone serves there. The socket file of a dead process is replaced. A unix socket can be
// reached only by its owner (mode 0600).
Result<Descriptor> listen_on(const Address& address);
// The address with the port that the kernel chose.
Result<Address> bound_address(int listener);
Result<Descriptor> new_socket(const Address& address);
// Room in a unix socket for several large requests: with the usual 208 KiB a sender sleeps and wakes within
// one. Costs memory only while bytes wait in it. TCP sizes its buffers itself.
void widen(int socket);
// For tools that wait: `moorblk ctl`.
Result<Descriptor> connect_blocking(const Address& address);

}  // namespace moor::block::io
