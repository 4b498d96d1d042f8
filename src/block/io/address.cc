#include "block/io/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "block/io/after_kill.h"

namespace moor::block::io {

namespace {

constexpr int kBacklog = 256;
constexpr int kSocketBytes = 1 << 20;  // eight requests of 128 KiB

Result<Address> unix_address(std::string_view path) {
  Address address;
  auto* name = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.empty() || path.size() >= sizeof name->sun_path || path.find('\0') != std::string_view::npos) {
    return make_error(Errc::invalid,
                      fmt::format("a socket path has 1 to {} bytes", sizeof name->sun_path - 1));
  }
  name->sun_family = AF_UNIX;
  std::memcpy(name->sun_path, path.data(), path.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

Result<Address> tcp_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return make_error(Errc::invalid, "tcp: needs HOST:PORT");
  std::string host(text.substr(0, colon));
  const std::string port(text.substr(colon + 1));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return make_error(Errc::invalid, fmt::format("tcp:{}: {}", text, gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  return address;
}

// A socket file without a listener behind it is left over from a process that died.
Result<void> clear_stale(const Address& address) {
  const char* path = reinterpret_cast<const sockaddr_un*>(&address.storage)->sun_path;
  struct stat status {};
  if (::lstat(path, &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return make_error(Errc::already_exists, fmt::format("{} exists and is no socket", address.text));
  }
  const bool is_free = free_after_kill([&address] {
    const auto probe = new_socket(address);
    return probe && ::connect(probe->get(), address.raw(), address.size) != 0 && errno == ECONNREFUSED;
  });
  if (!is_free) return make_error(Errc::already_exists, fmt::format("{} is being served", address.text));
  if (::unlink(path) != 0 && errno != ENOENT) return errno_error(errno, fmt::format("unlink {}", path));
  return {};
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Result<Address> parse_address(std::string_view text) {
  Result<Address> address = make_error(Errc::invalid, "an address is unix:PATH or tcp:HOST:PORT");
  if (text.starts_with("unix:")) address = unix_address(text.substr(5));
  if (text.starts_with("tcp:")) address = tcp_address(text.substr(4));
  if (address) address->text = text;
  return address;
}

void widen(int socket) {
  int domain = 0;
  socklen_t size = sizeof domain;
  const bool known = ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0;
  if (!known || domain != AF_UNIX) return;
  const int bytes = kSocketBytes;
  // Beyond the system's limit with the right to, else as far as that goes.
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == 0) return;
  static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes));
}

Result<Descriptor> new_socket(const Address& address) {
  Descriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error(errno, "socket");
  if (!address.is_unix()) {
    const int on = 1;
    if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
      return errno_error(errno, "TCP_NODELAY");
    }
  }
  widen(socket.get());
  return socket;
}

Result<Descriptor> listen_on(const Address& address) {
  TRY(auto socket, new_socket(address));
  if (address.is_unix()) {
    TRY_VOID(clear_stale(address));
  } else {
    const int on = 1;
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
      return errno_error(errno, "SO_REUSEADDR");
    }
  }
  // The mode counts from the moment the file exists; a chmod afterwards would leave a gap.
  const mode_t before = ::umask(0177);
  const int bound = ::bind(socket.get(), address.raw(), address.size);
  const int error = errno;
  ::umask(before);
  if (bound != 0) return errno_error(error, fmt::format("bind {}", address.text));
  if (::listen(socket.get(), kBacklog) != 0)
    return errno_error(errno, fmt::format("listen {}", address.text));
  return socket;
}

Result<Address> bound_address(int listener) {
  Address address;
  address.size = sizeof address.storage;
  if (::getsockname(listener, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) {
    return errno_error(errno, "getsockname");
  }
  if (address.is_unix()) {
    address.text = fmt::format("unix:{}", reinterpret_cast<const sockaddr_un*>(&address.storage)->sun_path);
    return address;
  }
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const int error = getnameinfo(address.raw(), address.size, host, sizeof host, port, sizeof port,
                                NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return make_error(Errc::internal, gai_strerror(error));
  const bool v6 = address.storage.ss_family == AF_INET6;
  address.text = v6 ? fmt::format("tcp:[{}]:{}", host, port) : fmt::format("tcp:{}:{}", host, port);
  return address;
}

Result<Descriptor> connect_blocking(const Address& address) {
  TRY(auto socket, new_socket(address));
  if (::connect(socket.get(), address.raw(), address.size) != 0) {
    return errno_error(errno, fmt::format("connect {}", address.text));
  }
  return socket;
}

}  // namespace moor::block::io
