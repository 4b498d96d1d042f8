#include "http/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/assert.h"
#include "base/log.h"
#include "http/connection.h"
#include "http/sockets.h"

namespace moor::http {
namespace {

constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
constexpr int kAcceptBatch = 64;

// How often deadlines are looked at: often enough for the shortest of them, seldom enough to cost nothing.
Duration tick_period(const ServerLimits& limits) {
  Duration shortest = std::min({limits.handshake_timeout, limits.head_timeout, limits.body_timeout,
                                limits.idle_timeout, limits.write_timeout, limits.cancel_grace});
  for (const auto& lane : limits.lanes) {
    if (lane.deadline > Duration::zero()) shortest = std::min(shortest, lane.deadline);
  }
  return std::clamp<Duration>(shortest / 4, std::chrono::milliseconds(5), std::chrono::milliseconds(500));
}

}  // namespace

std::string_view to_string(Lane lane) {
  switch (lane) {
    case Lane::read: return "read";
    case Lane::mutating: return "mutating";
    case Lane::watch: return "watch";
    case Lane::heartbeat: return "heartbeat";
    case Lane::system: return "system";
  }
  MOOR_UNREACHABLE("lane {}", static_cast<int>(lane));
}

Server::Server(Loop& loop, Handler& handler, ServerOptions options)
    : inside_(std::make_unique<Inside>(loop, handler, std::move(options))) {}

Server::~Server() {
  MOOR_ASSERT(inside_->listeners.empty() || inside_->stopped, "stop the server before it is destroyed");
}

const ServerStats& Server::stats() const {
  return inside_->stats;
}

Result<Url> Server::listen(ListenOptions options) {
  MOOR_ASSERT(!inside_->stopping, "the server has been stopped");
  Inside::Listener listener;
  Url url;
  url.scheme = options.tls != nullptr ? Url::Scheme::https : Url::Scheme::http;
  int socket = -1;
  const int backlog = inside_->options.limits.listen_backlog;
  if (options.address.starts_with("unix:")) {
    TRY(url, Url::parse(options.address));
    TRY(socket, listen_on_unix(url.host, backlog));
    listener.unix_path = url.host;
  } else {
    TRY(const auto host_port, parse_host_port(options.address));
    TRY(const auto address, numeric_address(host_port.host, host_port.port));
    TRY(socket, listen_on(address, backlog));
    url.host = host_port.host;
    const auto bound = local_address(socket);
    url.port = bound ? port_of(*bound) : host_port.port;
  }
  TRY(listener.transport, Transport::adopt(inside_->loop, socket));
  listener.tls = std::move(options.tls);
  inside_->listeners.push_back(std::move(listener));
  inside_->group.spawn(inside_->accept_loop(&inside_->listeners.back()));
  return url;
}

Task<Result<void>> Server::Inside::accept_loop(Listener* listener) {
  while (!listener->transport->is_closed()) {
    if (!accept_waiting(*listener)) {
      log_warn("no descriptors left for new connections", {{"connections", stats.connections}});
      CO_TRY_VOID(co_await sleep_for(loop, kAcceptPause, group.token()));
    }
    co_await listener->transport->readable();
  }
  co_return Result<void>();
}

bool Server::Inside::accept_waiting(Listener& listener) {
  // In batches, so that a flood of new connections does not starve the ones that are open.
  for (int i = 0; i < kAcceptBatch && !listener.transport->is_closed(); ++i) {
    auto accepted = accept_one(listener.transport->socket());
    if (!accepted) return !accepted.is(Errc::exhausted);
    ++stats.accepted;
    if (stats.connections >= options.limits.connections) {
      ++stats.turned_away;
      ::close(accepted->socket);
      continue;
    }
    tune_connection(accepted->socket, options.limits.send_buffer_bytes);
    auto transport = Transport::adopt(loop, accepted->socket);
    if (!transport) {
      log_warn("a connection could not be taken", {{"error", transport.error()}});
      continue;
    }
    if (listener.tls != nullptr) {
      auto session = TlsSession::accept(listener.tls, accepted->socket);
      if (!session) {
        log_warn("a TLS session could not be made", {{"error", session.error()}});
        continue;
      }
      (*transport)->start_tls(*std::move(session));
    }
    auto connection =
        std::make_unique<Connection>(*this, *std::move(transport), address_text(accepted->peer));
    group.spawn(Connection::serve(std::move(connection)));
    start_tick();
  }
  return true;
}

void Server::Inside::start_tick() {
  if (ticking) return;
  ticking = true;
  tick_timer = loop.start_timer(loop.clock().now() + tick_period(options.limits), [this] { tick(); });
}

void Server::Inside::tick() {
  ticking = false;
  const TimePoint now = loop.clock().now();
  // Closing a transport wakes its task later, never inside this loop: the list stays as it is.
  for (Connection* connection : connections) connection->check_deadline(now);
  if (!connections.empty()) start_tick();
}

const std::string& Server::Inside::date_line() {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(loop.clock().wall().since_epoch).count();
  if (seconds != date_second) {
    date_second = seconds;
    const std::time_t time = seconds;
    std::tm parts{};
    gmtime_r(&time, &parts);
    static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                              "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    date =
        fmt::format("Date: {}, {:02} {} {} {:02}:{:02}:{:02} GMT\r\n", kDays[parts.tm_wday], parts.tm_mday,
                    kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
  }
  return date;
}

Response Server::Inside::render(const Refusal& refusal) const {
  auto response = options.render_refusal ? options.render_refusal(refusal)
                                         : Response::text(refusal.status, refusal.message + "\n");
  MOOR_ASSERT(response.stream == nullptr, "a refusal is not a stream");
  if (refusal.retry_after_seconds > 0)
    response.headers.set("Retry-After", std::to_string(refusal.retry_after_seconds));
  return response;
}

Task<Result<void>> Server::stop(Duration grace) {
  auto& inside = *inside_;
  MOOR_ASSERT(!inside.stopping, "a server is stopped once");
  inside.stopping = true;
  for (auto& listener : inside.listeners) {
    listener.transport->close();
    if (!listener.unix_path.empty() && ::unlink(listener.unix_path.c_str()) != 0)
      log_warn("a socket file could not be removed", {{"path", listener.unix_path}});
  }
  for (Connection* connection : inside.connections) connection->begin_stop();
  const auto timer = inside.loop.start_timer(inside.loop.clock().now() + grace, [&inside] {
    for (Connection* connection : inside.connections) connection->end_patience();
  });
  auto result = co_await inside.group.join();
  inside.loop.stop_timer(timer);
  if (inside.ticking) inside.loop.stop_timer(inside.tick_timer);
  inside.ticking = false;
  inside.stopped = true;
  co_return result;
}

}  // namespace moor::http
