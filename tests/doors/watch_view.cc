#include "watch_view.h"

#include <fmt/format.h>

#include "base/json.h"
#include "http/url.h"

namespace moor::doors::e2e {
namespace {

using namespace std::chrono_literals;

std::string text_at(const Json& object, std::string_view key) {
  const Json* found = object.find_path({"metadata", key});
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : "";
}

}  // namespace

std::string WatchView::target(const std::string& more) const {
  return fmt::format("{}?labelSelector={}&fieldSelector={}{}", kInstances,
                     http::percent_encode(selectors_.labels), http::percent_encode(selectors_.fields), more);
}

Task<Result<void>> WatchView::list(CancelToken token) {
  http::Request request = http::Request::to(http::Method::get, target(""));
  CO_TRY(const http::Response response,
         co_await client_.send(std::move(request), token, loop_.clock().now() + 20s));
  if (response.status != 200) co_return make_error(Errc::unavailable, std::string(response.body_view()));
  CO_TRY(const Json listed, parse_json(response.body_view()));
  ++lists_;
  versions_.clear();
  const Json* items = listed.find("items");
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i)
    versions_[text_at(items->at(i), "name")] = text_at(items->at(i), "resourceVersion");
  version_ = text_at(listed, "resourceVersion");
  co_return Result<void>();
}

Result<void> WatchView::take(std::string_view line) {
  TRY(const Json event, parse_json(line));
  const std::string type(event.get_string("type").value_or(""));
  const Json* object = event.find("object");
  if (object == nullptr) return make_error(Errc::corrupt, "an event without an object");
  if (type == "ERROR") {
    if (object->get_int64("code") != 410) broken_.push_back("an ERROR other than 410: " + to_text(*object));
    return make_error(Errc::expired, "410");
  }
  const std::string name = text_at(*object, "name");
  const std::string version = text_at(*object, "resourceVersion");
  if (std::stoull(version) <= std::stoull(version_) && type != "BOOKMARK")
    broken_.push_back(fmt::format("{} {} at {} after {}", type, name, version, version_));
  version_ = version;
  if (type == "BOOKMARK") return {};
  const bool known = versions_.contains(name);
  if (known != (type != "ADDED"))
    broken_.push_back(fmt::format("{} {} at {}, in view: {}", type, name, version, known));
  if (type == "DELETED") {
    ++left_;
    versions_.erase(name);
  } else {
    entered_ += type == "ADDED" ? 1 : 0;
    versions_[name] = version;
  }
  return {};
}

Task<Result<void>> WatchView::follow(CancelToken token) {
  http::Request request = http::Request::to(
      http::Method::get, target("&watch=1&allowWatchBookmarks=1&resourceVersion=" + version_));
  CO_TRY(const auto stream, co_await client_.open(std::move(request), token, loop_.clock().now() + 20s));
  if (stream->status() == 410) co_return make_error(Errc::expired, "410");
  if (stream->status() != 200) co_return make_error(Errc::unavailable, "refused");
  while (true) {
    CO_TRY(const auto line, co_await stream->next_line(token));
    if (!line) co_return Result<void>();  // ended cleanly: go on from where we are
    CO_TRY_VOID(take(*line));
  }
}

Task<Result<void>> WatchView::run(CancelToken token) {
  while (true) {
    CO_TRY_VOID(token.check());
    Result<void> result;
    if (version_.empty()) result = co_await list(token);
    if (result) result = co_await follow(token);
    CO_TRY_VOID(token.check());
    if (result.is(Errc::expired)) {
      ++expired_;
      version_.clear();
    }
    CO_TRY_VOID(co_await sleep_for(loop_, 50ms, token));
  }
}

}  // namespace moor::doors::e2e
