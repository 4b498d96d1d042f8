// Sockets before they become a Transport: listening and connecting, never blocking. Descriptors are raw here
// and belong to the caller from the moment they are returned.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace moor::http {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// Numeric addresses only; "localhost" is 127.0.0.1 without asking anybody.
Result<SocketAddress> numeric_address(const std::string& host, std::uint16_t port);
Result<SocketAddress> unix_address(const std::string& path);
// Blocks (getaddrinfo): from a pool thread. In the order in which they should be tried, at most eight.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port);

Result<int> listen_on(const SocketAddress& address, int backlog);
// A socket file left behind by a dead server is replaced; one that somebody serves is already_exists. The
// file is for its owner only (0600).
Result<int> listen_on_unix(const std::string& path, int backlog);
std::string address_text(const SocketAddress& address);  // "127.0.0.1:80", "[::1]:80", "unix"
Result<SocketAddress> local_address(int socket);
std::uint16_t port_of(const SocketAddress& address);

// The next connection; Errc::unavailable when none waits, exhausted when descriptors ran out.
struct Accepted {
  int socket = -1;
  SocketAddress peer;
};
Result<Accepted> accept_one(int listening);
// No delay, and probes that find out within two minutes that the other machine is gone without a word.
void tune_connection(int socket, int send_buffer_bytes);

// Begins to connect; done when the socket is writable and connect_result() has no error.
Result<int> start_connect(const SocketAddress& address);
Result<void> connect_result(int socket);

}  // namespace moor::http
