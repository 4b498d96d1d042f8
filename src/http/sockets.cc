#include "http/sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

namespace moor::http {
namespace {

constexpr std::size_t kMaxAddresses = 8;

Error socket_error(std::string_view what) {
  return errno_error(errno, what);
}

const sockaddr* as_sockaddr(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

template <class T>
SocketAddress from(const T& value, std::size_t size = sizeof(T)) {
  SocketAddress address;
  std::memcpy(&address.storage, &value, sizeof(T));
  address.size = static_cast<socklen_t>(size);
  return address;
}

void set_option(int socket, int level, int option, int value) {
  // Tuning only: a socket that does not know the option works without it.
  static_cast<void>(::setsockopt(socket, level, option, &value, sizeof(value)));
}

Result<int> bind_and_listen(const SocketAddress& address, int backlog, const std::string& what) {
  const int socket = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return socket_error("create a socket");
  if (address.storage.ss_family != AF_UNIX) set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket, as_sockaddr(address), address.size) != 0 || ::listen(socket, backlog) != 0) {
    const int number = errno;
    ::close(socket);
    auto error = errno_error(number, "listen on " + what);
    if (number == EADDRINUSE) error.code = Errc::already_exists;
    return error;
  }
  return socket;
}

}  // namespace

Result<SocketAddress> numeric_address(const std::string& host, std::uint16_t port) {
  sockaddr_in ip4{};
  ip4.sin_family = AF_INET;
  ip4.sin_port = htons(port);
  if (::inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &ip4.sin_addr) == 1)
    return from(ip4);
  sockaddr_in6 ip6{};
  ip6.sin6_family = AF_INET6;
  ip6.sin6_port = htons(port);
  if (::inet_pton(AF_INET6, host.c_str(), &ip6.sin6_addr) == 1) return from(ip6);
  return make_error(Errc::invalid, "not a numeric address: " + host);
}

Result<SocketAddress> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return make_error(Errc::invalid, "a socket's path must have 1 to 107 bytes: " + path);
  std::memcpy(address.sun_path, path.data(), path.size());
  return from(address, offsetof(sockaddr_un, sun_path) + path.size() + 1);
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (result != 0) return make_error(Errc::unavailable, "resolve " + host + ": " + ::gai_strerror(result));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> keep(found, &::freeaddrinfo);
  std::vector<SocketAddress> out;
  for (const addrinfo* at = found; at != nullptr && out.size() < kMaxAddresses; at = at->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.size = at->ai_addrlen;
    out.push_back(address);
  }
  return out;
}

Result<int> listen_on(const SocketAddress& address, int backlog) {
  return bind_and_listen(address, backlog, address_text(address));
}

Result<int> listen_on_unix(const std::string& path, int backlog) {
  TRY(const auto address, unix_address(path));
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) return make_error(Errc::already_exists, path + " exists and is no socket");
    TRY(const int probe, start_connect(address));
    const auto served = connect_result(probe);
    ::close(probe);
    if (served) return make_error(Errc::already_exists, path + " is being served");
    if (::unlink(path.c_str()) != 0) return socket_error("remove " + path);
  }
  const mode_t before = ::umask(0177);
  auto socket = bind_and_listen(address, backlog, path);
  ::umask(before);
  return socket;
}

std::string address_text(const SocketAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.storage.ss_family == AF_INET) {
    const auto* ip4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    ::inet_ntop(AF_INET, &ip4->sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(ip4->sin_port));
  }
  if (address.storage.ss_family == AF_INET6) {
    const auto* ip6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    ::inet_ntop(AF_INET6, &ip6->sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(ip6->sin6_port));
  }
  return "unix";
}

Result<SocketAddress> local_address(int socket) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0)
    return socket_error("getsockname");
  return address;
}

std::uint16_t port_of(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
  if (address.storage.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
  return 0;
}

Result<Accepted> accept_one(int listening) {
  Accepted accepted;
  accepted.peer.size = sizeof(accepted.peer.storage);
  accepted.socket = ::accept4(listening, reinterpret_cast<sockaddr*>(&accepted.peer.storage),
                              &accepted.peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted.socket >= 0) return accepted;
  const int number = errno;
  auto error = errno_error(number, "accept");
  const bool scarce = number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
  error.code = scarce ? Errc::exhausted : Errc::unavailable;
  return error;
}

void tune_connection(int socket, int send_buffer_bytes) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
  if (send_buffer_bytes > 0) set_option(socket, SOL_SOCKET, SO_SNDBUF, send_buffer_bytes);
}

Result<int> start_connect(const SocketAddress& address) {
  const int socket = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return socket_error("create a socket");
  if (::connect(socket, as_sockaddr(address), address.size) == 0 || errno == EINPROGRESS) return socket;
  const int number = errno;
  ::close(socket);
  auto error = errno_error(number, "connect to " + address_text(address));
  error.code = Errc::unavailable;
  return error;
}

Result<void> connect_result(int socket) {
  int value = 0;
  socklen_t size = sizeof(value);
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &value, &size) != 0) value = errno;
  if (value == 0) return {};
  return make_error(Errc::unavailable, std::string("connect: ") + std::strerror(value));
}

}  // namespace moor::http
