#include "doors/front/front.h"

#include <fmt/format.h>

#include "base/log.h"

namespace moor::doors {
namespace {

std::string_view first_segment(const http::Request& request) {
  return request.target.segments.empty() ? std::string_view() : request.target.segments.front();
}

bool is_health(std::string_view segment) {
  return segment == "healthz" || segment == "livez" || segment == "readyz";
}

bool is_looking(const http::Request& request) {
  return request.method == http::Method::get || request.method == http::Method::head;
}

}  // namespace

Door& Front::door_of(const http::Request& request) const {
  const auto found = doors_.find(first_segment(request));
  return found == doors_.end() ? fallback_ : *found->second;
}

http::Lane Front::classify(const http::Request& request) const {
  const std::string_view first = first_segment(request);
  if (is_health(first) || first == "metrics") return http::Lane::system;
  return door_of(request).classify(request);
}

http::Response Front::render_refusal(const http::Refusal& refusal) const {
  return fallback_.refuse(refusal.status, refusal.message, refusal.retry_after_seconds);
}

http::Response Front::health(const http::Request& request) const {
  const std::string_view what = first_segment(request);
  const bool verbose = request.target.query.has("verbose");
  std::string text;
  bool good = true;
  for (const Check& check : checks_) {
    if (what == "livez") break;
    const Result<void> result = check.run();
    good = good && result.ok();
    if (result)
      text += fmt::format("[+]{} ok\n", check.name);
    else
      text += fmt::format("[-]{} failed: {}\n", check.name, result.error().message);
  }
  if (!good) return http::Response::text(503, text + fmt::format("{} check failed\n", what));
  return http::Response::text(200, verbose ? text + fmt::format("{} check passed\n", what) : "ok");
}

http::Response Front::show_metrics(const http::Request& request, const Caller& caller) const {
  if (!is_looking(request)) return fallback_.refuse(405, "metrics are only read", 0);
  if (caller.role != Role::admin && caller.role != Role::view)
    return fallback_.refuse(403,
                            fmt::format("User \"{}\" cannot get path \"/metrics\"", caller.identity.user), 0);
  return http::Response::text(200, metrics_.render(), "text/plain; version=0.0.4");
}

Task<http::Response> Front::handle(http::Request request) {
  const std::string_view first = first_segment(request);
  const bool asks_health = is_health(first) && request.target.segments.size() == 1 && is_looking(request);
  Door& door = door_of(request);
  auto caller = authenticator_.authenticate(request);
  if (!caller) {
    const bool unknown = caller.is(Errc::unauthorized);
    log_warn("refused",
             {{"from", request.peer.address}, {"path", request.target.path()}, {"error", caller.error()}});
    metrics_.count({"refused", "", unknown ? 401 : 403, Duration::zero()});
    co_return door.refuse(unknown ? 401 : 403, caller.error().message, 0);
  }
  if (asks_health) co_return health(request);
  if (caller->is_anonymous() && !door.is_open(request)) {
    metrics_.count({"refused", "", 401, Duration::zero()});
    co_return door.refuse(401, "Unauthorized", 0);
  }
  if (first == "metrics") co_return show_metrics(request, *caller);
  Task<http::Response> answer = door.handle(std::move(request), std::move(*caller));
  co_return co_await std::move(answer);
}

}  // namespace moor::doors
