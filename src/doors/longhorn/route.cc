#include "doors/longhorn/route.h"

#include <fmt/format.h>

#include "registry/refusal.h"

namespace moor::doors::longhorn {
namespace {

using registry::Answer;

// Clients send numbers and nulls for what they do not set; anything but the right kind is refused, never
// guessed: a hostId that is read as "" would mean all nodes.
Answer<std::string> text_field(const Json& body, std::string_view name) {
  const Json* found = body.find(name);
  if (found == nullptr || found->is_null()) return std::string();
  if (!found->is_string()) return registry::refuse_bad_request(fmt::format("{} must be a string", name));
  return std::string(found->as_string());
}

Answer<bool> flag_field(const Json& body, std::string_view name) {
  const Json* found = body.find(name);
  if (found == nullptr || found->is_null()) return false;
  if (!found->is_bool()) return registry::refuse_bad_request(fmt::format("{} must be true or false", name));
  return found->as_bool();
}

Answer<Json> read_object(const std::string& text) {
  if (text.empty()) return Json::object();
  auto body = parse_json(text);
  if (!body)
    return registry::refuse_bad_request(fmt::format("the body cannot be read: {}", body.error().message));
  if (!body->is_object()) return registry::refuse_bad_request("the body must be a JSON object");
  return std::move(*body);
}

}  // namespace

Route find_route(const http::Target& target) {
  const auto& segments = target.segments;
  if (segments.empty() || segments[0] != "v1" || segments.size() > 3) return {};
  if (segments.size() == 1) return {Route::To::root, ""};
  const bool volumes = segments[1] == "volumes";
  if (!volumes && segments[1] != "volumeattachments") return {};
  if (segments.size() == 2) return {volumes ? Route::To::volumes : Route::To::attachments, ""};
  return {volumes ? Route::To::volume : Route::To::attachment, segments[2]};
}

Answer<std::string> action_of(const http::Query& query) {
  const auto actions = query.get_all("action");
  if (actions.size() != 1 || actions[0].empty())
    return registry::refuse_bad_request("a POST names one action: ?action=attach or ?action=detach");
  return std::string(actions[0]);
}

Answer<attach::AttachRequest> read_attach(const std::string& text) {
  TRY(const Json body, read_object(text));
  attach::AttachRequest request;
  TRY(request.node, text_field(body, "hostId"));
  TRY(request.disable_frontend, flag_field(body, "disableFrontend"));
  TRY(request.attached_by, text_field(body, "attachedBy"));
  TRY(request.type, text_field(body, "attacherType"));
  TRY(request.ticket, text_field(body, "attachmentID"));
  return request;
}

Answer<attach::DetachRequest> read_detach(const std::string& text) {
  TRY(const Json body, read_object(text));
  attach::DetachRequest request;
  TRY(request.ticket, text_field(body, "attachmentID"));
  TRY(request.node, text_field(body, "hostId"));
  TRY(request.force, flag_field(body, "forceDetach"));
  return request;
}

}  // namespace moor::doors::longhorn
