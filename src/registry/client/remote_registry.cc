#include "registry/client/remote_registry.h"

#include <fmt/format.h>

#include "registry/client/wire.h"
#include "registry/prepare.h"

namespace moor::registry {
namespace {

constexpr std::string_view kJson = "application/json";

std::string_view content_type_of(PatchType type) {
  switch (type) {
    case PatchType::json: return "application/json-patch+json";
    case PatchType::merge: return "application/merge-patch+json";
    case PatchType::strategic: return "application/strategic-merge-patch+json";
    case PatchType::apply: return "application/apply-patch+yaml";  // JSON is YAML
  }
  return kJson;
}

Answer<Json> object_in(const http::Response& response) {
  auto parsed = parse_json(response.body_view());
  if (!parsed || !parsed->is_object())
    return make_error(Errc::corrupt, "the server's answer is no JSON object");
  return std::move(*parsed);
}

}  // namespace

Result<std::unique_ptr<RemoteRegistry>> RemoteRegistry::make(Loop& loop, RemoteOptions options) {
  TRY(auto client, http::Client::make(loop, options.client));
  return std::unique_ptr<RemoteRegistry>(new RemoteRegistry(loop, std::move(options), std::move(client)));
}

http::Request RemoteRegistry::request(http::Method method, std::string target, const Json* body,
                                      std::string_view content_type) const {
  http::Request made = http::Request::to(method, std::move(target), body == nullptr ? "" : to_text(*body),
                                         body == nullptr ? std::string_view() : content_type);
  made.headers.set("Accept", std::string(kJson));
  made.headers.set("User-Agent", options_.user_agent);
  return made;
}

Task<Answer<http::Response>> RemoteRegistry::send(http::Request request, bool urgent) {
  CancelToken never;
  const bool counted = !urgent && options_.most_at_once > 0;
  if (counted && under_way_ >= options_.most_at_once) {
    const Completion<bool> turn(loop_);
    waiting_.push_back(turn);
    co_await turn;  // whoever ends hands its place on
  } else if (counted) {
    ++under_way_;
  }
  auto response = co_await client_->send(std::move(request), never, deadline());
  if (counted && !waiting_.empty()) {
    waiting_.front().set(true);
    waiting_.pop_front();
  } else if (counted) {
    --under_way_;
  }
  if (!response) co_return response.error();
  if (response->status >= 300) co_return refusal_from(*response);
  co_return std::move(*response);
}

Task<Answer<Written>> RemoteRegistry::write(http::Request request, bool urgent) {
  CO_TRY(const http::Response response, co_await send(std::move(request), urgent));
  CO_TRY(Json object, object_in(response));
  Written written;
  written.object = std::move(object);
  written.created = response.status == 201;
  written.warnings = warnings_from(response.headers);
  co_return written;
}

Task<Answer<Written>> RemoteRegistry::create(ResourceName where, Json object, WriteOptions options) {
  where.name.clear();
  return write(request(http::Method::post, target_of(where, query_of(options, false)), &object, kJson));
}

// Whoever tells a status knows the rest of the object, and what it has told: only the new version is asked
// back (RFC 7240). A server that does not know of this answers with the whole object.
Task<Answer<Written>> RemoteRegistry::update_status(ResourceName what, Json object, WriteOptions options) {
  http::Request asked = request(http::Method::put, target_of(what, query_of(options, false)), &object, kJson);
  asked.headers.set("Prefer", "return=minimal");
  CO_TRY(Written written, co_await write(std::move(asked)));
  if (written.object.contains("status")) co_return written;
  const std::string version = metadata_text(written.object, "resourceVersion");
  object["metadata"].set("resourceVersion", version);
  written.object = std::move(object);
  co_return written;
}

Task<Answer<Written>> RemoteRegistry::update(ResourceName what, Json object, WriteOptions options) {
  if (what.subresource == "status")
    return update_status(std::move(what), std::move(object), std::move(options));
  // A node's heartbeat does not wait behind its work.
  const bool urgent = what.kind->plural == "leases";
  return write(request(http::Method::put, target_of(what, query_of(options, false)), &object, kJson), urgent);
}

Task<Answer<Written>> RemoteRegistry::patch(ResourceName what, PatchType type, Json patch,
                                            WriteOptions options) {
  const http::Query query = query_of(options, type == PatchType::apply);
  return write(request(http::Method::patch, target_of(what, query), &patch, content_type_of(type)));
}

Task<Answer<Item>> RemoteRegistry::get(ResourceName what, std::string resource_version) {
  http::Query query;
  if (!resource_version.empty()) query.add("resourceVersion", std::move(resource_version));
  CO_TRY(const http::Response response,
         co_await send(request(http::Method::get, target_of(what, query), nullptr, kJson)));
  CO_TRY(Json object, object_in(response));
  co_return Item(std::make_shared<const Json>(std::move(object)));
}

Task<Answer<Listed>> RemoteRegistry::list(ResourceName what, ListOptions options) {
  CO_TRY(const http::Response response,
         co_await send(request(http::Method::get, target_of(what, query_of(options)), nullptr, kJson)));
  CO_TRY(Json list, object_in(response));
  co_return listed_from(*what.kind, std::move(list));
}

Task<Answer<Deleted>> RemoteRegistry::remove(ResourceName what, DeleteOptions options) {
  const Json body = body_of(options);
  CO_TRY(const http::Response response,
         co_await send(request(http::Method::delete_, path_of(what), &body, kJson)));
  CO_TRY(Json object, object_in(response));
  Deleted deleted;
  // A Status says that it is gone; the object itself comes back while finalizers hold it.
  const Json* metadata = object.find("metadata");
  deleted.gone = object.get_string("kind") == "Status" || metadata == nullptr ||
                 !metadata->get_string("deletionTimestamp");
  deleted.object = std::move(object);
  co_return deleted;
}

Task<Answer<Listed>> RemoteRegistry::remove_collection(ResourceName what, ListOptions which,
                                                       DeleteOptions options) {
  const Json body = body_of(options);
  what.name.clear();
  CO_TRY(const http::Response response,
         co_await send(request(http::Method::delete_, target_of(what, query_of(which)), &body, kJson)));
  CO_TRY(Json list, object_in(response));
  if (list.get_string("kind") == "Status") co_return Listed();
  co_return listed_from(*what.kind, std::move(list));
}

Task<Answer<std::unique_ptr<Watcher>>> RemoteRegistry::watch(ResourceName what, WatchOptions options) {
  std::string from = options.resource_version;
  // One object is watched as its collection with a selector, as Kubernetes has it.
  if (!what.name.empty()) {
    const std::string fields = options.fields.to_text();
    CO_TRY(options.fields, FieldSelector::parse(fmt::format("{}{}metadata.name={}", fields,
                                                            fields.empty() ? "" : ",", what.name)));
    what.name.clear();
  }
  http::Request asked = request(http::Method::get, target_of(what, query_of(options)), nullptr, kJson);
  CancelToken never;
  auto stream = co_await client_->open(std::move(asked), never, deadline());
  if (!stream) co_return stream.error();
  if ((*stream)->status() == 200) co_return make_remote_watcher(std::move(*stream), std::move(from));
  http::Response refused;
  refused.status = (*stream)->status();
  refused.headers = (*stream)->headers();
  constexpr std::size_t kMaxRefusalBytes = 64 * 1024;
  while (refused.body.size() < kMaxRefusalBytes) {
    auto chunk = co_await (*stream)->next_chunk(never);
    if (!chunk || !*chunk) break;  // the head alone says enough
    refused.body += **chunk;
  }
  co_return refusal_from(refused);
}

}  // namespace moor::registry
