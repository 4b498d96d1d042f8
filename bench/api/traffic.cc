#include "bench/api/traffic.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "base/task_group.h"

namespace moor::bench {
namespace {

constexpr double kForever = 1e6;
constexpr std::string_view kMergePatch = "application/merge-patch+json";

Task<Result<void>> connect(http::Client* client) {
  auto answer =
      co_await client->send(http::Request::to(http::Method::get, "/version"), {}, TimePoint::never());
  CO_TRY_VOID(std::move(answer));
  co_return Result<void>();
}

}  // namespace

std::string snapshots_path() {
  return "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/snapshots";
}

std::string snapshot_path(std::string_view name) {
  return fmt::format("{}/{}", snapshots_path(), name);
}

std::string object_name(std::size_t number) {
  return fmt::format("snap-{:07}", number);
}

// Put together by hand: what the client costs is taken from the server.
http::Request create_request(std::string_view name, std::size_t number) {
  const std::string volume = fmt::format("pvc-{:04}", number % 1000);
  constexpr std::string_view kSpec = R"("}},"spec":{"volume":")";
  constexpr std::string_view kRest = R"(","createSnapshot":true,"labels":{"by":"bench"}}})";
  std::string body;
  body.reserve(kBodyBytes + 1);
  body.append(R"({"apiVersion":"longhorn.io/v1beta2","kind":"Snapshot","metadata":{"name":")").append(name);
  body.append(R"(","labels":{"longhornvolume":")").append(volume);
  body.append(R"("},"finalizers":[],"annotations":{"bench/note":")");
  append_noise(body, number, kBodyBytes - kSpec.size() - volume.size() - kRest.size());
  body.append(kSpec).append(volume).append(kRest);
  return http::Request::to(http::Method::post, snapshots_path(), std::move(body), "application/json");
}

http::Request status_request(std::string_view name, std::size_t turn) {
  std::string body =
      fmt::format(R"({{"status":{{"size":{},"restoreSize":1073741824,"readyToUse":true,"userCreated":true,)"
                  R"("ownerID":"node-1","creationTime":"2026-01-01T00:00:00Z"}}}})",
                  turn + 1);
  return http::Request::to(http::Method::patch, snapshot_path(name) + "/status", std::move(body),
                           kMergePatch);
}

http::Request annotate_request(std::string_view name, std::size_t turn) {
  std::string body = fmt::format(R"({{"metadata":{{"annotations":{{"bench/turn":"{}"}}}}}})", turn);
  return http::Request::to(http::Method::patch, snapshot_path(name), std::move(body), kMergePatch);
}

Traffic::Traffic(const ServerProcess& server, std::size_t connections) : server_(server) {
  TaskGroup group(loop_);
  for (std::size_t i = 0; i < connections; ++i) {
    auto client = http::Client::make(loop_, server.client_options());
    MOOR_ASSERT(client.ok(), "{}", client.error().message);
    clients_.push_back(std::move(*client));
    group.spawn(connect(clients_.back().get()));
  }
  const auto done = block_on(loop_, group.join());
  MOOR_ASSERT(done.ok(), "{}", done.error().message);
}

Task<Result<void>> Traffic::take_turns(std::size_t connection, TimePoint end, int status,
                                       const NextRequest* next, Sample* sample) {
  for (std::size_t turn = 0; loop_.clock().now() < end; ++turn) {
    auto request = (*next)(connection, turn);
    if (!request) break;
    const TimePoint start = loop_.clock().now();
    CO_TRY(const http::Response answer,
           co_await clients_[connection]->send(*std::move(request), {}, TimePoint::never()));
    sample->latencies.add(loop_.clock().now() - start);
    MOOR_ASSERT(answer.status == status, "answered {}: {}", answer.status, answer.body);
    sample->answer_bytes = answer.body.size();
  }
  co_return Result<void>();
}

Sample Traffic::run(double duration, int status, const NextRequest& next) {
  Sample sample;
  TaskGroup group(loop_);
  const Duration cpu = cpu_time(server_.process());
  const TimePoint start = loop_.clock().now();
  const TimePoint end = start + std::chrono::nanoseconds(static_cast<std::int64_t>(duration * 1e9));
  for (std::size_t i = 0; i < clients_.size(); ++i) group.spawn(take_turns(i, end, status, &next, &sample));
  const auto done = block_on(loop_, group.join());
  MOOR_ASSERT(done.ok(), "{}", done.error().message);
  const auto count = static_cast<double>(sample.latencies.count());
  sample.per_second = count / seconds(loop_.clock().now() - start);
  sample.cpu_micros = micros(cpu_time(server_.process()) - cpu) / count;
  return sample;
}

Sample Traffic::run_all(std::size_t count, int status,
                        const std::function<http::Request(std::size_t)>& make) {
  const std::size_t width = clients_.size();
  return run(kForever, status, [&](std::size_t connection, std::size_t turn) -> std::optional<http::Request> {
    const std::size_t number = turn * width + connection;
    if (number >= count) return std::nullopt;
    return make(number);
  });
}

void create_objects(const ServerProcess& server, std::size_t from, std::size_t count) {
  Traffic traffic(server, 32);
  traffic.run_all(count, 201, [from](std::size_t number) {
    return create_request(object_name(from + number), from + number);
  });
}

}  // namespace moor::bench
