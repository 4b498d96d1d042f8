#include "agent/env.h"

#include <fmt/format.h>

#include "model/core/secret.h"
#include "registry/node_scope.h"
#include "registry/prepare.h"

namespace moor::agent {
registry::WriteOptions as_agent() {
  registry::WriteOptions options;
  options.field_manager = "mooring-agent";
  return options;
}

std::string ProcessEnd::text() const {
  if (signal) return fmt::format("killed by signal {}", *signal);
  if (code) return fmt::format("ended with code {}", *code);
  return "ended, and an earlier agent was its parent: nobody saw how";
}

Task<Result<std::string>> read_volume_token(registry::Registry& registry, std::string space,
                                            std::string volume) {
  registry::ResourceName what{&kind_of<model::core::Secret>(), std::move(space), volume + "-token", ""};
  auto object = co_await registry.get(std::move(what), "");
  if (!object) co_return Error(object.error().error).with_context("token of volume " + volume);
  CO_TRY(const auto secret, model::decode<model::core::Secret>(*object));
  const auto found = secret.data.find("token");
  const auto entry = found != secret.data.end() ? found : secret.data.begin();
  const auto bytes = entry == secret.data.end() ? std::nullopt : model::core::from_base64(entry->second);
  if (!bytes || bytes->size() < 16)
    co_return make_error(Errc::unavailable, "the token of volume " + volume + " is not filled in yet");
  std::string text;
  for (const char byte : *bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  co_return text;
}

bool is_newer(const Json& object, const Json& than) {
  const std::string left = registry::metadata_text(object, "resourceVersion");
  const std::string right = registry::metadata_text(than, "resourceVersion");
  return left.size() != right.size() ? left.size() > right.size() : left > right;
}

Task<Result<std::optional<Json>>> write_status(registry::Registry& registry, registry::ResourceName what,
                                               Json object, Json status) {
  if (const Json* known = object.find("status"); known != nullptr && *known == status)
    co_return std::optional<Json>();
  // The rest of the object is not looked at, so it is not sent.
  Json metadata = Json::object();
  for (const std::string_view field : {"name", "namespace", "uid", "resourceVersion"})
    if (std::string text = registry::metadata_text(object, field); !text.empty()) metadata.set(field, text);
  Json part = Json::object({{"metadata", std::move(metadata)}, {"status", status}});
  what.subresource = "status";
  auto written = co_await registry.update(std::move(what), std::move(part), as_agent());
  if (!written) co_return written.error().error;
  if (written->object.contains("spec")) co_return std::optional<Json>(std::move(written->object));
  // The server has told no more than the new version. It wrote to the version that we know, so the rest is
  // as it was; who owns which field is its own to keep.
  object.set("status", std::move(status));
  object["metadata"].set("resourceVersion", registry::metadata_text(written->object, "resourceVersion"));
  object["metadata"].erase("managedFields");
  co_return std::optional<Json>(std::move(object));
}

Task<Result<void>> drop_finalizer(registry::Registry& registry, registry::ResourceName what, Json object) {
  Json* finalizers = object["metadata"].find("finalizers");
  for (std::size_t i = finalizers == nullptr ? 0 : finalizers->size(); i > 0; --i)
    if (finalizers->at(i - 1).is_string() && finalizers->at(i - 1).as_string() == registry::kNodeFinalizer)
      finalizers->erase(i - 1);
  auto written = co_await registry.update(std::move(what), std::move(object), as_agent());
  if (!written && !written.is(Errc::not_found)) co_return written.error().error;
  co_return Result<void>();
}

}  // namespace moor::agent
