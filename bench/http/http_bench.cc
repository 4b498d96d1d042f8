// What one request and one idle stream cost the server. The server runs in a process of its own, so that its
// CPU time and memory are its alone.
//
//   bench_http [requests per case, default 100000] [idle streams, default 10000]
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "base/completion.h"
#include "base/task_group.h"
#include "bench/common/report.h"
#include "http/certificates.h"
#include "http/client.h"
#include "http/server.h"
#include "load.h"

namespace {

using namespace moor;
using namespace moor::http;

Task<Result<void>> idle_stream(StreamWriter& writer, CancelToken token, Loop* loop) {
  CO_TRY_VOID(co_await writer.write(std::string("{\"type\":\"ADDED\"}\n")));
  const Completion<Result<void>> done(*loop);
  const CancelCallback on_cancel(token, [done, token] { done.set(token.reason()); });
  co_return co_await done;
}

class EchoHandler final : public Handler {
 public:
  explicit EchoHandler(Loop& loop) : loop_(loop) {}
  Lane classify(const Request& request) const override {
    return request.target.path() == "/watch" ? Lane::watch : Lane::read;
  }
  Task<Response> handle(Request request) override {
    if (request.target.path() == "/watch") {
      co_return Response::streaming(
          200, "application/json", make_stream([token = request.cancel, loop = &loop_](StreamWriter& writer) {
            return idle_stream(writer, token, loop);
          }));
    }
    if (request.method == Method::post)
      co_return Response::text(200, std::move(request.body), "application/json");
    co_return Response::text(200, std::string(1024, 'x'), "application/json");
  }

 private:
  Loop& loop_;
};

struct Ports {
  std::uint16_t plain;
  std::uint16_t tls;
};

[[noreturn]] void serve(int out, const TlsServerOptions& tls) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Loop loop;
  EchoHandler handler(loop);
  Server server(loop, handler);
  const auto plain = server.listen({"127.0.0.1:0", nullptr});
  const auto context = TlsContext::server(tls);
  const auto secure = server.listen({"127.0.0.1:0", *context});
  const Ports ports{plain->port, secure->port};
  if (::write(out, &ports, sizeof(ports)) != sizeof(ports)) std::exit(1);
  loop.run();
  std::exit(0);
}

double cpu_seconds(pid_t process) {
  return bench::seconds(bench::cpu_time(process));
}

double resident_kib(pid_t process) {
  return static_cast<double>(bench::resident_bytes(process)) / 1024;
}

void measure_requests(pid_t server, std::uint16_t port, std::uint64_t total) {
  const std::string get =
      "GET /api/v1/nodes?limit=500 HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: "
      "application/json\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n";
  const std::string post =
      "POST /api/v1/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nContent-Type: "
      "application/json\r\nContent-Length: 1024\r\n\r\n" +
      std::string(1024, 'y');
  for (const auto& [name, request] : {std::pair("GET  1 KiB", &get), std::pair("POST 1 KiB", &post)}) {
    for (const int connections : {1, 16, 64}) {
      const double before = cpu_seconds(server);
      const auto result = bench::run_load(port, *request, connections, total);
      const double cpu = cpu_seconds(server) - before;
      const auto& sorted = result.latencies_us;
      fmt::print(
          "{} {:>3} connections {:>8.0f} requests/s  p50 {:>6.0f} us  p99 {:>6.0f} us  server {:.1f} us CPU "
          "per request\n",
          name, connections, static_cast<double>(result.requests) / result.seconds, sorted[sorted.size() / 2],
          sorted[sorted.size() * 99 / 100], cpu * 1e6 / static_cast<double>(result.requests));
    }
  }
}

void measure_plain_streams(pid_t server, std::uint16_t port, int count) {
  const std::string watch = "GET /watch HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  const double before = resident_kib(server);
  std::vector<int> sockets;
  for (int i = 0; i < count; ++i) {
    sockets.push_back(bench::connect_loopback(port));
    char buffer[512];
    if (::send(sockets.back(), watch.data(), watch.size(), MSG_NOSIGNAL) < 0 ||
        ::recv(sockets.back(), buffer, sizeof(buffer), 0) <= 0)
      std::exit(1);
  }
  const double after = resident_kib(server);
  const double cpu_before = cpu_seconds(server);
  ::sleep(3);  // tidy: what idle streams cost is measured over idle time
  fmt::print("{} idle streams: {:.1f} MiB, {:.1f} KiB each; {:.2f} % of a core while idle\n", count,
             (after - before) / 1024, (after - before) / count, (cpu_seconds(server) - cpu_before) / 3 * 100);
  for (const int socket : sockets) ::close(socket);
}

Task<bool> hold_streams(Client* client, std::vector<std::unique_ptr<ResponseStream>>* streams, int count) {
  for (int i = 0; i < count; ++i) {
    auto stream = co_await client->open(Request::to(Method::get, "/watch"), {}, TimePoint::never());
    if (!stream || !co_await (*stream)->next_line({})) co_return false;
    streams->push_back(*std::move(stream));
  }
  co_return true;
}

void measure_tls_streams(pid_t server, std::uint16_t port, const std::string& ca, int count) {
  Loop loop;
  ClientOptions options;
  options.endpoint = {Url::Scheme::https, "127.0.0.1", port, ""};
  options.tls.ca_pem = ca;
  options.max_connections = static_cast<std::size_t>(count) + 1;
  auto client = Client::make(loop, options);
  std::vector<std::unique_ptr<ResponseStream>> streams;
  const double before = resident_kib(server);
  const double cpu_before = cpu_seconds(server);
  if (!block_on(loop, hold_streams(client->get(), &streams, count))) std::exit(1);
  const double after = resident_kib(server);
  fmt::print("{} idle TLS streams: {:.1f} MiB, {:.1f} KiB each; {:.0f} us CPU per handshake and stream\n",
             count, (after - before) / 1024, (after - before) / count,
             (cpu_seconds(server) - cpu_before) * 1e6 / count);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t total = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
  const int streams = argc > 2 ? std::atoi(argv[2]) : 10'000;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const RealClock clock;
  const auto validity = Validity::days_from(clock.wall(), 1);
  const auto authority = make_authority("bench", validity);
  const auto identity =
      issue_certificate(*authority, {CertificateUse::server, "bench", {}, {}, {"127.0.0.1"}, validity});
  TlsServerOptions tls{identity->certificate_pem, identity->key_pem, authority->certificate_pem};
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t server = ::fork();
  if (server == 0) serve(ends[1], tls);
  Ports ports{};
  if (::read(ends[0], &ports, sizeof(ports)) != sizeof(ports)) return 1;
  measure_requests(server, ports.plain, total);
  measure_plain_streams(server, ports.plain, streams);
  measure_tls_streams(server, ports.tls, authority->certificate_pem, std::min(streams, 2'000));
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  return 0;
}
