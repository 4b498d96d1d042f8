#include "doors/kube/kube_door.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "base/log.h"
#include "doors/kube/body.h"
#include "doors/kube/node_secret.h"
#include "doors/kube/options.h"
#include "doors/kube/review.h"
#include "doors/kube/status.h"
#include "doors/kube/watch_body.h"
#include "registry/refusal.h"

namespace moor::doors::kube {
namespace {

std::string_view metadata_text(const Json& object, std::string_view key) {
  const Json* metadata = object.find("metadata");
  return metadata == nullptr ? std::string_view() : metadata->get_string(key).value_or("");
}

// A watch of one object is a watch of all, with a selector. Names that a selector would read differently do
// not exist.
registry::Answer<http::Query> watch_query(const Route& route, const http::Query& query) {
  if (route.name.name.empty()) return query;
  if (route.name.name.find_first_of(",=!\\") != std::string::npos)
    return registry::refuse_not_found(*route.name.kind, route.name.name);
  http::Query narrowed;
  std::string fields = "metadata.name=" + route.name.name;
  for (const auto& parameter : query) {
    if (parameter.name == "fieldSelector" && !parameter.value.empty()) fields += "," + parameter.value;
    if (parameter.name != "fieldSelector") narrowed.add(parameter.name, parameter.value);
  }
  narrowed.add("fieldSelector", fields);
  return narrowed;
}

bool is_heartbeat(const http::Request& request) {
  // …/leases/NAME and …/nodes/NAME[/status]: what a node sends to be taken for alive.
  const auto& segments = request.target.segments;
  for (std::size_t i = 2; i + 1 < segments.size(); ++i)
    if (segments[i] == "leases" || (segments[i] == "nodes" && segments.front() == "api")) return true;
  return false;
}

}  // namespace

KubeDoor::KubeDoor(Env env, KubeDoorOptions options)
    : env_(env), options_(std::move(options)), documents_(options_.server_address) {}

KubeDoor::~KubeDoor() {
  MOOR_ASSERT(watches_ == 0, "{} watches are open", watches_);
}

http::Lane KubeDoor::classify(const http::Request& request) const {
  using http::Method;
  const bool reads = request.method == Method::get || request.method == Method::head;
  if (reads && wants_watch(request.target.query)) return http::Lane::watch;
  if (reads) return http::Lane::read;
  return is_heartbeat(request) ? http::Lane::heartbeat : http::Lane::mutating;
}

bool KubeDoor::is_open(const http::Request& request) const {
  return request.method == http::Method::get && request.target.segments.size() == 1 &&
         request.target.segments[0] == "version";
}

http::Response KubeDoor::refuse(int status, const std::string& message, int retry_after_seconds) const {
  return refuse_code(status, message, retry_after_seconds);
}

Task<http::Response> KubeDoor::handle(http::Request request, Caller caller) {
  const TimePoint began = env_.executor.clock().now();
  Call call;
  call.route = find_route(request.target);
  call.verb = verb_of(request.method, request.target, call.route);
  call.name = call.route.name.name;
  call.request = std::move(request);
  call.caller = std::move(caller);
  Reply reply = co_await answer(call);
  http::Response response =
      reply ? std::move(*reply) : kube::refuse(reply.error(), {call.route.name.kind, call.name});
  note(call, response.status, began);
  co_return response;
}

void KubeDoor::note(const Call& call, int code, TimePoint began) const {
  const bool stored = call.route.to == Route::To::objects;
  const std::string resource = stored ? call.route.name.kind->qualified_resource() : std::string();
  const Duration took = env_.executor.clock().now() - began;
  const std::string_view verb = stored && !call.verb.empty() ? std::string_view(call.verb) : "other";
  env_.metrics.count({verb, resource, code, took});
  const bool refused = code == 401 || code == 403;
  if (!stored || (is_reading(call.verb) && !refused) || !log_enabled(LogLevel::info)) return;
  std::string full = resource;
  if (!call.route.name.subresource.empty()) full += "/" + call.route.name.subresource;
  log_info("audit", {{"user", call.caller.identity.user},
                     {"role", to_string(call.caller.role)},
                     {"verb", call.verb},
                     {"resource", full},
                     {"namespace", call.route.name.space},
                     {"name", call.name},
                     {"from", call.caller.from},
                     {"dry_run", call.dry_run},
                     {"code", code}});
}

Task<KubeDoor::Reply> KubeDoor::answer(Call& call) {
  if (auto document = documents_.answer(call.request, call.route)) co_return std::move(*document);
  switch (call.route.to) {
    case Route::To::review: co_return co_await answer_self_review(call);
    case Route::To::objects: co_return co_await answer_objects(call);
    default: co_return not_found_path();
  }
}

registry::Answer<void> KubeDoor::check_access(const Call& call) const {
  Attributes wanted{
      call.verb,           call.route.group, "", call.route.name.subresource, call.route.name.space,
      call.route.name.name};
  wanted.resource = call.route.name.kind == nullptr ? call.route.review : call.route.name.kind->plural;
  const Decision decision = authorize(call.caller, wanted);
  if (decision.allowed) return {};
  const std::string resource =
      wanted.group.empty() ? wanted.resource : fmt::format("{}.{}", wanted.resource, wanted.group);
  const std::string named = wanted.name.empty() ? "" : fmt::format(" \"{}\"", wanted.name);
  return registry::Refusal{
      make_error(Errc::forbidden, fmt::format("{}{} is forbidden: {}: {}", resource, named,
                                              describe_refusal(call.caller, wanted), decision.reason)),
      "Forbidden",
      {},
      {}};
}

Task<KubeDoor::Reply> KubeDoor::answer_self_review(Call& call) {
  if (call.request.method != http::Method::post) co_return method_not_allowed();
  call.verb = "create";
  CO_TRY_VOID(check_access(call));
  CO_TRY(Json review, read_review(call.request));
  CO_TRY(Json answered,
         co_await answer_review(env_.registry, call.route.review, std::move(review), call.caller));
  co_return json_response(201, to_text(answered));
}

Task<KubeDoor::Reply> KubeDoor::answer_objects(Call& call) {
  if (call.verb.empty()) co_return method_not_allowed();
  CO_TRY_VOID(check_access(call));
  const auto& query = call.request.target.query;
  CO_TRY(call.form,
         find_form(call.request.headers.get("accept").value_or(""), query.get("includeObject").value_or("")));
  if (call.verb == "get") co_return co_await get(call);
  if (call.verb == "list") co_return co_await list(call);
  if (call.verb == "watch") co_return co_await watch(call);
  if (call.verb == "create") co_return co_await create(call);
  if (call.verb == "update") co_return co_await update(call);
  if (call.verb == "patch") co_return co_await patch(call);
  if (call.verb == "delete") co_return co_await remove(call);
  co_return co_await remove_collection(call);
}

Rendering KubeDoor::rendering_of(const Call& call) const {
  return {call.route.name.kind, call.form, env_.executor.clock().wall()};
}

Task<KubeDoor::Reply> KubeDoor::get(Call& call) {
  std::string version(call.request.target.query.get("resourceVersion").value_or(""));
  CO_TRY(const registry::Item object, co_await env_.registry.get(call.route.name, std::move(version)));
  const auto& kind = *call.route.name.kind;
  if (call.caller.role == Role::node && kind.group.empty() && kind.kind == "Secret")
    CO_TRY_VOID(co_await check_node_secret(env_.registry, call.caller.identity.node, *object));
  co_return render_item(200, rendering_of(call), object);
}

Task<KubeDoor::Reply> KubeDoor::list(Call& call) {
  CO_TRY(registry::ListOptions options, list_options(call.request.target.query));
  CO_TRY(const registry::Listed listed, co_await env_.registry.list(call.route.name, std::move(options)));
  co_return render_list(rendering_of(call), listed);
}

Task<KubeDoor::Reply> KubeDoor::watch(Call& call) {
  CO_TRY(const http::Query query, watch_query(call.route, call.request.target.query));
  CO_TRY(WatchWanted wanted, watch_options(query));
  WatchPlan plan;
  plan.rendering = rendering_of(call);
  plan.bookmarks = wanted.bookmarks;
  plan.initial_end = wanted.options.send_initial_events;
  plan.bookmark_every = options_.bookmark_every;
  const auto spread = static_cast<std::uint64_t>(options_.shortest_watch.count());
  plan.lasts = wanted.timeout.value_or(options_.shortest_watch +
                                       Duration(static_cast<std::int64_t>(env_.random.below(spread))));
  plan.cancel = call.request.cancel;
  registry::ResourceName what = call.route.name;
  what.name.clear();
  auto watcher = co_await env_.registry.watch(std::move(what), std::move(wanted.options));
  // What is too old is said inside the stream, where clients look for it before they list again.
  if (watcher.is(Errc::expired)) co_return json_response(200, error_line(status_of(watcher.error())));
  if (!watcher) co_return watcher.error();
  plan.watcher = std::move(*watcher);
  auto body = std::make_unique<WatchBody>(env_.executor, texts_, watches_, std::move(plan));
  co_return http::Response::streaming(200, "application/json", std::move(body));
}

KubeDoor::Reply KubeDoor::written(Call& call, registry::Written written, bool created) const {
  call.name = metadata_text(written.object, "name");
  const int code = created ? 201 : 200;
  if (call.request.headers.get("prefer") == "return=minimal") {
    Json metadata = Json::object();
    for (const std::string_view field : {"name", "namespace", "uid", "resourceVersion"})
      if (const std::string_view text = metadata_text(written.object, field); !text.empty())
        metadata.set(field, text);
    http::Response minimal =
        json_response(code, to_text(Json::object({{"apiVersion", call.route.name.kind->api_version()},
                                                  {"kind", call.route.name.kind->kind},
                                                  {"metadata", std::move(metadata)}})));
    minimal.headers.set("Preference-Applied", "return=minimal");
    add_warnings(minimal, written.warnings);
    return minimal;
  }
  const Rendering rendering = rendering_of(call);
  http::Response response = written.stored == nullptr ? render_object(code, rendering, written.object)
                                                      : render_item(code, rendering, written.stored);
  add_warnings(response, written.warnings);
  return response;
}

Task<KubeDoor::Reply> KubeDoor::create(Call& call) {
  CO_TRY(registry::WriteOptions options, write_options(call.request, call.caller, std::nullopt));
  CO_TRY(Body body, read_object(call.request));
  call.name = metadata_text(body.value, "name");
  call.dry_run = options.dry_run;
  options.duplicate_fields = std::move(body.duplicates);
  CO_TRY(registry::Written done,
         co_await env_.registry.create(call.route.name, std::move(body.value), std::move(options)));
  co_return written(call, std::move(done), true);
}

Task<KubeDoor::Reply> KubeDoor::update(Call& call) {
  CO_TRY(registry::WriteOptions options, write_options(call.request, call.caller, std::nullopt));
  CO_TRY(Body body, read_object(call.request));
  call.dry_run = options.dry_run;
  options.duplicate_fields = std::move(body.duplicates);
  CO_TRY(registry::Written done,
         co_await env_.registry.update(call.route.name, std::move(body.value), std::move(options)));
  const bool created = done.created;
  co_return written(call, std::move(done), created);
}

Task<KubeDoor::Reply> KubeDoor::patch(Call& call) {
  CO_TRY(PatchBody patch, read_patch(call.request));
  CO_TRY(registry::WriteOptions options, write_options(call.request, call.caller, patch.type));
  call.dry_run = options.dry_run;
  options.duplicate_fields = std::move(patch.body.duplicates);
  CO_TRY(registry::Written done,
         co_await env_.registry.patch(call.route.name, patch.type, std::move(patch.body.value),
                                      std::move(options)));
  const bool created = done.created;
  co_return written(call, std::move(done), created);
}

Task<KubeDoor::Reply> KubeDoor::remove(Call& call) {
  CO_TRY(Body body, read_delete_options(call.request));
  CO_TRY(registry::DeleteOptions options, delete_options(call.request.target.query, body.value, call.caller));
  call.dry_run = options.dry_run;
  CO_TRY(const registry::Deleted done, co_await env_.registry.remove(call.route.name, std::move(options)));
  if (!done.gone) co_return render_object(200, rendering_of(call), done.object);
  const Json status = success_status({call.route.name.kind, call.name}, metadata_text(done.object, "uid"));
  co_return json_response(200, to_text(status));
}

Task<KubeDoor::Reply> KubeDoor::remove_collection(Call& call) {
  CO_TRY(Body body, read_delete_options(call.request));
  CO_TRY(registry::DeleteOptions options, delete_options(call.request.target.query, body.value, call.caller));
  CO_TRY(registry::ListOptions which, list_options(call.request.target.query));
  call.dry_run = options.dry_run;
  CO_TRY(const registry::Listed done,
         co_await env_.registry.remove_collection(call.route.name, std::move(which), std::move(options)));
  co_return render_list(rendering_of(call), done);
}

}  // namespace moor::doors::kube
