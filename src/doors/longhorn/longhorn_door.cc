#include "doors/longhorn/longhorn_door.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/cancel.h"
#include "base/log.h"
#include "doors/longhorn/error.h"
#include "model/longhorn/node.h"
#include "registry/refusal.h"

namespace moor::doors::longhorn {
namespace {

namespace lh = model::longhorn;
using registry::Answer;

constexpr std::string_view kSpace = "longhorn-system";  // this REST knows no namespaces
constexpr int kTries = 8;

template <class T>
registry::ResourceName resource(std::string name = {}) {
  return {&kind_info(static_cast<const T*>(nullptr)), std::string(kSpace), std::move(name), ""};
}

registry::Refusal not_allowed() {
  return {make_error(Errc::invalid, "this method is not allowed here"), "MethodNotAllowed", {}, {}};
}

registry::Refusal no_such_path() {
  return {make_error(Errc::not_found, "there is no such path below /v1"), "NotFound", {}, {}};
}

// Where the client reached us, for links. A Host header has passed the parser: it holds nothing but a name.
std::string base_of(const http::Request& request) {
  const auto host = request.headers.get("host");
  if (!host || host->empty()) return "/v1";
  return fmt::format("{}://{}/v1", request.peer.tls ? "https" : "http", *host);
}

template <class T>
Task<Answer<T>> get_typed(registry::Registry& registry, std::string name) {
  CO_TRY(const registry::Item item, co_await registry.get(resource<T>(std::move(name)), ""));
  CO_TRY(T object, model::decode<T>(*item));
  co_return object;
}

template <class T>
Task<Answer<std::vector<T>>> list_typed(registry::Registry& registry, std::string labels) {
  registry::ListOptions options;
  CO_TRY(options.labels, registry::LabelSelector::parse(labels));
  CO_TRY(const registry::Listed listed, co_await registry.list(resource<T>(), std::move(options)));
  std::vector<T> objects;
  for (const registry::Item& item : listed.items) {
    CO_TRY(T object, model::decode<T>(*item));
    objects.push_back(std::move(object));
  }
  co_return objects;
}

Json patch_of(const attach::TicketChange& change, const std::string& version) {
  Json tickets = Json::object();
  for (const std::string& id : change.remove) tickets.set(id, nullptr);
  if (change.write) {
    Json ticket = model::encode(*change.write);
    // The server's own: sending them would only be corrected.
    ticket.erase("generation");
    tickets.set(change.write->id, std::move(ticket));
  }
  return Json::object({{"metadata", Json::object({{"resourceVersion", version}})},
                       {"spec", Json::object({{"attachmentTickets", std::move(tickets)}})}});
}

}  // namespace

http::Lane LonghornDoor::classify(const http::Request& request) const {
  const bool reads = request.method == http::Method::get || request.method == http::Method::head;
  return reads ? http::Lane::read : http::Lane::mutating;
}

http::Response LonghornDoor::refuse(int status, const std::string& message, int retry_after_seconds) const {
  return error_response(status, message, retry_after_seconds);
}

Task<http::Response> LonghornDoor::handle(http::Request request, Caller caller) {
  const TimePoint began = env_.executor.clock().now();
  Call call;
  call.route = find_route(request.target);
  call.base = base_of(request);
  call.verb = request.method == http::Method::post ? "post" : "get";
  call.request = std::move(request);
  call.caller = std::move(caller);
  Reply reply = co_await answer(call);
  http::Response response =
      reply ? http::Response::text(200, to_text(*reply), "application/json") : error_response(reply.error());
  note(call, response.status, began);
  co_return response;
}

void LonghornDoor::note(const Call& call, int code, TimePoint began) const {
  const Duration took = env_.executor.clock().now() - began;
  // The verb may be what a client made up; figures have a fixed list.
  const bool known =
      call.verb == "get" || call.verb == "list" || call.verb == "attach" || call.verb == "detach";
  env_.metrics.count({known ? std::string_view(call.verb) : "other",
                      call.resource.empty() ? "" : call.resource + ".longhorn.io", code, took});
  const bool refused = code == 401 || code == 403;
  if (call.resource.empty() || (is_reading(call.verb) && !refused)) return;
  log_info("audit", {{"user", call.caller.identity.user},
                     {"role", to_string(call.caller.role)},
                     {"verb", call.verb},
                     {"resource", call.resource + ".longhorn.io"},
                     {"namespace", kSpace},
                     {"name", call.route.name},
                     {"from", call.caller.from},
                     {"effect", call.effect},
                     {"code", code}});
}

Answer<void> LonghornDoor::check_access(const Call& call, std::string_view verb,
                                        std::string_view resource) const {
  const Attributes wanted{std::string(verb),   "longhorn.io",  std::string(resource), "",
                          std::string(kSpace), call.route.name};
  const Decision decision = authorize(call.caller, wanted);
  if (decision.allowed) return {};
  return registry::Refusal{
      make_error(Errc::forbidden,
                 fmt::format("{}: {}", describe_refusal(call.caller, wanted), decision.reason)),
      "Forbidden",
      {},
      {}};
}

Task<LonghornDoor::Reply> LonghornDoor::answer(Call& call) {
  using To = Route::To;
  const bool posts = call.request.method == http::Method::post;
  const bool reads = call.request.method == http::Method::get;
  if (call.route.to == To::nothing) co_return no_such_path();
  if (call.route.to == To::root) {
    if (!reads) co_return not_allowed();
    co_return root_resource(call.base);
  }
  const bool volumes = call.route.to == To::volumes || call.route.to == To::volume;
  call.resource = volumes ? "volumes" : "volumeattachments";
  if (posts && call.route.to == To::volume) co_return co_await act(call);
  if (!reads) co_return not_allowed();
  const bool one = call.route.to == To::volume || call.route.to == To::attachment;
  call.verb = one ? "get" : "list";
  CO_TRY_VOID(check_access(call, call.verb, call.resource));
  switch (call.route.to) {
    case To::volumes: co_return co_await list_volumes(call);
    case To::volume: co_return co_await show_volume(call);
    case To::attachments: co_return co_await list_attachments(call);
    default: co_return co_await show_attachment(call);
  }
}

Task<LonghornDoor::Reply> LonghornDoor::list_volumes(Call& call) {
  CO_TRY(std::vector<lh::Volume> volumes, co_await list_typed<lh::Volume>(env_.registry, ""));
  std::map<std::string, VolumeParts> by_name;
  for (lh::Volume& volume : volumes) by_name[volume.metadata.name].volume = std::move(volume);
  const auto place = [&](const std::string& name) {
    const auto found = by_name.find(name);  // what came after the volumes were read is left out
    return found == by_name.end() ? nullptr : &found->second;
  };
  CO_TRY(std::vector<lh::VolumeAttachment> books,
         co_await list_typed<lh::VolumeAttachment>(env_.registry, ""));
  for (lh::VolumeAttachment& book : books)
    if (VolumeParts* parts = place(book.spec.volume)) parts->attachment = std::move(book);
  CO_TRY(std::vector<lh::Engine> engines, co_await list_typed<lh::Engine>(env_.registry, ""));
  for (lh::Engine& engine : engines)
    if (VolumeParts* parts = place(engine.spec.volume_name)) parts->engines.push_back(std::move(engine));
  CO_TRY(std::vector<lh::Replica> replicas, co_await list_typed<lh::Replica>(env_.registry, ""));
  for (lh::Replica& replica : replicas)
    if (VolumeParts* parts = place(replica.spec.volume_name)) parts->replicas.push_back(std::move(replica));
  std::vector<Json> items;
  for (const auto& [name, parts] : by_name) items.push_back(volume_resource(parts, call.base));
  co_return collection("volume", std::move(items), call.base + "/volumes");
}

Task<LonghornDoor::Reply> LonghornDoor::list_attachments(Call& call) {
  CO_TRY(const std::vector<lh::VolumeAttachment> books,
         co_await list_typed<lh::VolumeAttachment>(env_.registry, ""));
  std::vector<Json> items;
  for (const lh::VolumeAttachment& book : books) items.push_back(attachment_resource(book, call.base));
  co_return collection("volumeAttachment", std::move(items), call.base + "/volumeattachments");
}

Task<LonghornDoor::Reply> LonghornDoor::show_attachment(Call& call) {
  CO_TRY(const lh::VolumeAttachment book,
         co_await get_typed<lh::VolumeAttachment>(env_.registry, call.route.name));
  co_return attachment_resource(book, call.base);
}

Task<Answer<VolumeParts>> LonghornDoor::read_volume(std::string name) {
  VolumeParts parts;
  CO_TRY(parts.volume, co_await get_typed<lh::Volume>(env_.registry, name));
  auto book = co_await get_typed<lh::VolumeAttachment>(env_.registry, name);
  if (!book && !book.is(Errc::not_found)) co_return book.error();
  if (book) parts.attachment = std::move(*book);
  const std::string label = fmt::format("{}={}", lh::kVolumeLabel, name);
  CO_TRY(parts.engines, co_await list_typed<lh::Engine>(env_.registry, label));
  CO_TRY(parts.replicas, co_await list_typed<lh::Replica>(env_.registry, label));
  co_return parts;
}

Task<LonghornDoor::Reply> LonghornDoor::show_volume(Call& call) {
  CO_TRY(const VolumeParts parts, co_await read_volume(call.route.name));
  co_return volume_resource(parts, call.base);
}

Task<LonghornDoor::Reply> LonghornDoor::act(Call& call) {
  CO_TRY(const std::string action, action_of(call.request.target.query));
  call.verb = action;
  if (action != "attach" && action != "detach")
    co_return registry::refuse_bad_request(
        fmt::format("there is no action {}: attach and detach are", action));
  CO_TRY_VOID(check_access(call, "patch", "volumeattachments"));
  CO_TRY(const std::string ticket, co_await write_tickets(call, action));
  if (!ticket.empty()) CO_TRY_VOID(co_await wait_satisfied(call, ticket));
  co_return co_await show_volume(call);
}

Task<Answer<std::optional<attach::NodeFacts>>> LonghornDoor::node_facts(std::string name) {
  if (name.empty()) co_return std::optional<attach::NodeFacts>();
  auto node = co_await get_typed<lh::Node>(env_.registry, name);
  if (node.is(Errc::not_found)) co_return std::optional<attach::NodeFacts>();
  if (!node) co_return node.error();
  attach::NodeFacts facts;
  const model::Condition* ready = model::find_condition(node->status.conditions, lh::kNodeReady);
  facts.ready = ready != nullptr && ready->status == model::ConditionStatus::yes;
  facts.reason = ready == nullptr ? "it has not reported yet" : ready->message;
  co_return std::optional(facts);
}

Task<Answer<attach::TicketChange>> LonghornDoor::plan(const Call& call, const std::string& action,
                                                      const lh::Volume& volume,
                                                      const lh::VolumeAttachment& book) {
  if (action == "detach") {
    CO_TRY(const attach::DetachRequest request, read_detach(call.request.body));
    CO_TRY(attach::TicketChange change, attach::plan_detach(volume, book, request));
    co_return change;
  }
  CO_TRY(const attach::AttachRequest request, read_attach(call.request.body));
  CO_TRY(const std::optional<attach::NodeFacts> node, co_await node_facts(request.node));
  CO_TRY(attach::TicketChange change, attach::plan_attach(volume, book, node, request));
  co_return change;
}

Task<Answer<std::string>> LonghornDoor::write_tickets(Call& call, std::string action) {
  for (int attempt = 0; attempt < kTries; ++attempt) {
    CO_TRY(const lh::Volume volume, co_await get_typed<lh::Volume>(env_.registry, call.route.name));
    auto book = co_await get_typed<lh::VolumeAttachment>(env_.registry, call.route.name);
    if (book.is(Errc::not_found))
      co_return make_error(Errc::unavailable,
                           fmt::format("volume {} is new and has no book of tickets yet", call.route.name));
    if (!book) co_return book.error();
    CO_TRY(const attach::TicketChange change, co_await plan(call, action, volume, *book));
    call.effect = to_string(change.effect);
    if (!change.any()) co_return change.acknowledge_with;
    registry::WriteOptions options;
    options.identity = call.caller.identity;
    options.field_manager = "longhorn-rest";
    options.field_validation = registry::FieldValidation::strict;
    Json patch = patch_of(change, book->metadata.resource_version);
    const auto written =
        co_await env_.registry.patch(resource<lh::VolumeAttachment>(call.route.name),
                                     registry::PatchType::merge, std::move(patch), std::move(options));
    if (written) co_return change.acknowledge_with;
    // Somebody wrote the book meanwhile: what was right on the old page may be wrong on the new one.
    if (!written.is(Errc::conflict)) co_return written.error();
  }
  co_return make_error(Errc::unavailable,
                       fmt::format("the tickets of volume {} change too fast", call.route.name));
}

Task<Answer<void>> LonghornDoor::wait_satisfied(Call& call, std::string ticket) {
  CancelSource patience(call.request.cancel);
  patience.set_deadline(env_.executor, env_.executor.clock().now() + options_.longest_wait, "the ticket");
  registry::WatchOptions options;
  CO_TRY(options.fields, registry::FieldSelector::parse("metadata.name=" + call.route.name));
  CO_TRY(const std::unique_ptr<registry::Watcher> watcher,
         co_await env_.registry.watch(resource<lh::VolumeAttachment>(), std::move(options)));
  std::string waits_for;
  for (;;) {  // ends with the patience
    auto events = co_await watcher->next(patience.token());
    if (!events) {
      if (!patience.token().is_cancelled()) co_return events.error();
      co_return make_error(Errc::timed_out,
                           fmt::format("volume {} is not ready on the other node yet; ticket {} stays and "
                                       "waits: {}",
                                       call.route.name, ticket, waits_for));
    }
    for (const registry::WatchEvent& event : *events) {
      if (event.object == nullptr) continue;
      if (event.type == registry::WatchEvent::Type::deleted)
        co_return registry::refuse_not_found(kind_info(static_cast<const lh::VolumeAttachment*>(nullptr)),
                                             call.route.name);
      CO_TRY(const auto book, model::decode<lh::VolumeAttachment>(*event.object));
      CO_TRY(const attach::Acknowledgement answer, attach::acknowledgement(book, ticket));
      if (answer.satisfied) co_return Answer<void>();
      waits_for = answer.waits_for;
    }
  }
}

}  // namespace moor::doors::longhorn
