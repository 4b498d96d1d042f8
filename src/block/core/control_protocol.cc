#include "block/core/control_protocol.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace moor::block::control {

namespace {

constexpr std::size_t kHeaderBytes = 4;
constexpr std::size_t kMaxNameBytes = 128;  // of ops and events
constexpr Errc kErrors[] = {Errc::not_found,    Errc::already_exists, Errc::conflict,  Errc::invalid,
                            Errc::unauthorized, Errc::forbidden,      Errc::expired,   Errc::exhausted,
                            Errc::unavailable,  Errc::timed_out,      Errc::cancelled, Errc::corrupt,
                            Errc::unsupported,  Errc::internal};

Json error_json(const Error& error) {
  return Json::object({{"code", to_string(error.code)}, {"message", std::string_view(error.message)}});
}

Result<Call> decode_call(std::string_view text) {
  JsonParseOptions options;
  options.max_depth = 16;
  options.allow_duplicate_keys = false;
  TRY(auto json, parse_json(text, options));
  const auto id = json.get_uint64("id");
  const auto op = json.get_string("op");
  if (!id || !op || op->size() > kMaxNameBytes) return make_error(Errc::invalid, "a request needs id and op");
  Call call{*id, std::string(*op), Json::object()};
  if (Json* arguments = json.find("arguments"); arguments != nullptr) {
    if (!arguments->is_object()) return make_error(Errc::invalid, "arguments must be an object");
    call.arguments = std::move(*arguments);
  }
  return call;
}

}  // namespace

Errc errc_of(std::string_view word) {
  for (const Errc code : kErrors) {
    if (to_string(code) == word) return code;
  }
  return Errc::internal;
}

Result<std::size_t> FrameReader::feed(Bytes bytes) {
  MOOR_ASSERT(!complete_, "the last frame was not taken");
  const std::size_t given = bytes.size();
  if (header_.size() < kHeaderBytes) {
    const auto part = std::min(kHeaderBytes - header_.size(), bytes.size());
    header_.insert(header_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
    bytes = bytes.subspan(part);
    if (header_.size() < kHeaderBytes) return given;
    size_ = load_big_endian<std::uint32_t>(header_.data());
    if (size_ > kMaxFrameBytes) return make_error(Errc::invalid, fmt::format("a frame of {} bytes", size_));
  }
  const auto part = std::min(size_ - body_.size(), bytes.size());
  body_.append(as_text(bytes.first(part)));
  bytes = bytes.subspan(part);
  complete_ = body_.size() == size_;
  return given - bytes.size();
}

std::string FrameReader::take() {
  MOOR_ASSERT(complete_, "no frame");
  complete_ = false;
  header_.clear();
  return std::exchange(body_, {});
}

void write_frame(OutQueue& out, std::string_view text) {
  MOOR_ASSERT(text.size() <= kMaxFrameBytes, "a frame of {} bytes", text.size());
  store_big_endian(out.put(kHeaderBytes).data(), static_cast<std::uint32_t>(text.size()));
  out.put_text(text);
}

Session::Session(BufferPool& pool, Json about) : about_(std::move(about)), out_(pool) {
  MOOR_ASSERT(about_.is_object());
}

std::size_t Session::feed(Bytes bytes) {
  const std::size_t given = bytes.size();
  while (!bytes.empty() && !ended_ && !paused()) {
    const auto taken = reader_.feed(bytes);
    if (!taken) {
      end(taken.error().message);
      return given;
    }
    bytes = bytes.subspan(*taken);
    if (reader_.complete()) on_frame(reader_.take());
  }
  return ended_ ? given : given - bytes.size();
}

void Session::end(std::string why) {
  if (std::exchange(ended_, true)) return;
  events_.emplace_back(Ended{std::move(why)});
}

void Session::send(const Json& message) {
  std::string text = to_text(message);
  if (text.size() > kMaxFrameBytes) {
    // Only a handler's own result can be that large; the client must not wait for it forever.
    const Error error = make_error(Errc::exhausted, "the answer is too large for one frame");
    Json instead = Json::object({{"ok", false}, {"error", error_json(error)}});
    if (const Json* id = message.find("id"); id != nullptr) instead.set("id", *id);
    text = to_text(instead);
  }
  write_frame(out_, text);
}

void Session::on_frame(std::string_view text) {
  auto call = decode_call(text);
  if (!call) {
    send(Json::object({{"id", nullptr}, {"ok", false}, {"error", error_json(call.error())}}));
    return end("not a request: " + call.error().message);
  }
  if (calls_.contains(call->id)) {
    send(Json::object({{"id", nullptr}, {"ok", false}, {"error", error_json(duplicate_id())}}));
    return end(duplicate_id().message);
  }
  calls_.insert(call->id);
  if (call->op == "hello") return on_hello(*call);
  if (!greeted_) {
    reply_error(call->id, make_error(Errc::invalid, "the first request is hello"));
    return end("no hello");
  }
  if (call->op == "subscribe" || call->op == "unsubscribe") return on_subscription(*call);
  events_.emplace_back(std::move(*call));
}

Error Session::duplicate_id() const {
  return make_error(Errc::invalid, "an id that is still in use");
}

void Session::on_hello(const Call& call) {
  const auto version = call.arguments.get_uint64("version");
  if (version != kVersion) {
    reply_error(call.id, make_error(Errc::unsupported, fmt::format("this side speaks version {}", kVersion)));
    return end("hello with another version");
  }
  greeted_ = true;
  Json result = about_;
  result.set("version", kVersion);
  reply(call.id, std::move(result));
}

void Session::on_subscription(const Call& call) {
  const Json* names = call.arguments.find("events");
  if (names == nullptr || !names->is_array() || names->size() > kMaxSubscriptions) {
    return reply_error(call.id, make_error(Errc::invalid, "events must be an array of at most 64 names"));
  }
  std::set<std::string, std::less<>> wanted;
  for (std::size_t i = 0; i < names->size(); ++i) {
    if (!names->at(i).is_string() || names->at(i).as_string().size() > kMaxNameBytes) {
      return reply_error(call.id, make_error(Errc::invalid, "an event's name is a string"));
    }
    wanted.emplace(names->at(i).as_string());
  }
  if (call.op == "unsubscribe") {
    for (const auto& name : wanted) subscriptions_.erase(name);
  } else {
    subscriptions_.merge(wanted);
  }
  if (subscriptions_.size() > kMaxSubscriptions) {
    subscriptions_.clear();
    return reply_error(call.id, make_error(Errc::exhausted, "too many subscriptions; all are dropped"));
  }
  reply(call.id, Json::object());
}

void Session::reply(std::uint64_t id, Json result) {
  MOOR_ASSERT(calls_.erase(id) == 1, "call {} is not open", id);
  send(Json::object({{"id", id}, {"ok", true}, {"result", std::move(result)}}));
}

void Session::reply_error(std::uint64_t id, const Error& error) {
  MOOR_ASSERT(calls_.erase(id) == 1, "call {} is not open", id);
  send(Json::object({{"id", id}, {"ok", false}, {"error", error_json(error)}}));
}

void Session::event(std::string_view name, const Json& data) {
  if (ended_ || (!subscriptions_.contains(name) && !subscriptions_.contains("*"))) return;
  if (out_.bytes() > kMaxOutBytes) {
    send(Json::object({{"event", "overrun"}, {"number", ++event_number_}, {"data", Json::object()}}));
    return end("the subscriber does not keep up");
  }
  send(Json::object({{"event", name}, {"number", ++event_number_}, {"data", data}}));
}

std::string encode_call(const Call& call) {
  return to_text(
      Json::object({{"id", call.id}, {"op", std::string_view(call.op)}, {"arguments", call.arguments}}));
}

Result<std::variant<Reply, Event>> decode_message(std::string_view text) {
  JsonParseOptions options;
  options.max_depth = 16;
  TRY(auto json, parse_json(text, options));
  if (const auto name = json.get_string("event")) {
    Event event{std::string(*name), json.get_uint64("number").value_or(0), Json()};
    if (Json* data = json.find("data"); data != nullptr) event.data = std::move(*data);
    return event;
  }
  const auto ok = json.get_bool("ok");
  if (!ok) return make_error(Errc::invalid, "neither a reply nor an event");
  Reply reply;
  reply.id = json.get_uint64("id").value_or(0);
  if (*ok) {
    if (Json* result = json.find("result"); result != nullptr) reply.result = std::move(*result);
    return reply;
  }
  const Json* error = json.find("error");
  const auto code = error != nullptr ? error->get_string("code") : std::nullopt;
  const auto message = error != nullptr ? error->get_string("message") : std::nullopt;
  if (!code || !message) return make_error(Errc::invalid, "an error without code and message");
  reply.result = make_error(errc_of(*code), std::string(*message));
  return reply;
}

}  // namespace moor::block::control
