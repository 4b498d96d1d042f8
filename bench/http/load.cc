#include "load.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace moor::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

struct Slot {
  int socket = -1;
  std::size_t received = 0;
  SteadyClock::time_point sent;
};

void send_request(Slot& slot, const std::string& request) {
  slot.sent = SteadyClock::now();
  slot.received = 0;
  if (::send(slot.socket, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    fail("send");
}

// One exchange, to learn how long an answer is.
std::size_t answer_size(int socket, const std::string& request) {
  if (::send(socket, request.data(), request.size(), MSG_NOSIGNAL) < 0) fail("send");
  std::array<char, 65536> buffer;
  std::string answer;
  for (;;) {
    const ssize_t count = ::recv(socket, buffer.data(), buffer.size(), 0);
    if (count <= 0) fail("first answer");
    answer.append(buffer.data(), static_cast<std::size_t>(count));
    const auto head = answer.find("\r\n\r\n");
    const auto length = answer.find("Content-Length: ");
    if (head == std::string::npos) continue;
    if (!answer.starts_with("HTTP/1.1 200")) fail("first answer's status");
    const std::size_t whole = head + 4 + std::strtoul(answer.c_str() + length + 16, nullptr, 10);
    if (answer.size() == whole) return whole;
  }
}

}  // namespace

int connect_loopback(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int one = 1;
  if (socket < 0 || ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    fail("connect");
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return socket;
}

LoadResult run_load(std::uint16_t port, const std::string& request, int connections, std::uint64_t total) {
  const int poll = ::epoll_create1(EPOLL_CLOEXEC);
  std::vector<Slot> slots(static_cast<std::size_t>(connections));
  std::size_t size = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i].socket = connect_loopback(port);
    size = answer_size(slots[i].socket, request);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    ::epoll_ctl(poll, EPOLL_CTL_ADD, slots[i].socket, &event);
  }
  LoadResult result;
  result.latencies_us.reserve(total);
  const auto start = SteadyClock::now();
  for (auto& slot : slots) send_request(slot, request);
  std::array<char, 65536> buffer;
  std::array<epoll_event, 64> events;
  while (result.requests < total) {
    const int ready = ::epoll_wait(poll, events.data(), events.size(), 10'000);
    if (ready <= 0) fail("epoll_wait");
    for (int i = 0; i < ready; ++i) {
      Slot& slot = slots[events[static_cast<std::size_t>(i)].data.u64];
      const ssize_t count = ::recv(slot.socket, buffer.data(), buffer.size(), 0);
      if (count <= 0) fail("recv");
      slot.received += static_cast<std::size_t>(count);
      if (slot.received < size) continue;
      const std::chrono::duration<double, std::micro> took = SteadyClock::now() - slot.sent;
      result.latencies_us.push_back(took.count());
      ++result.requests;
      send_request(slot, request);
    }
  }
  result.seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
  for (auto& slot : slots) ::close(slot.socket);
  ::close(poll);
  std::sort(result.latencies_us.begin(), result.latencies_us.end());
  return result;
}

}  // namespace moor::bench
