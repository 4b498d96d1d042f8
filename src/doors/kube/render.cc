#include "doors/kube/render.h"

#include <array>

#include "doors/kube/status.h"

namespace moor::doors::kube {
namespace {

model::Time time_of(WallTime now) {
  return model::Time(now.since_epoch);
}

Json partial(const Json& object) {
  const Json* metadata = object.find("metadata");
  return Json::object({{"kind", "PartialObjectMetadata"},
                       {"apiVersion", "meta.k8s.io/v1"},
                       {"metadata", metadata == nullptr ? Json::object() : *metadata}});
}

Json list_metadata(const registry::Listed& listed) {
  Json metadata = Json::object({{"resourceVersion", listed.resource_version}});
  if (!listed.continue_token.empty()) metadata.set("continue", listed.continue_token);
  if (listed.remaining) metadata.set("remainingItemCount", *listed.remaining);
  return metadata;
}

Json table_of(const Rendering& rendering, std::span<const Json* const> objects, Json metadata,
              bool definitions) {
  model::TableOptions options;
  options.now = time_of(rendering.now);
  options.include = rendering.form.include;
  options.definitions = definitions;
  options.metadata = std::move(metadata);
  return model::make_table(*rendering.kind, objects, options);
}

Json version_metadata(const Json& object) {
  const Json* metadata = object.find("metadata");
  const auto version = metadata == nullptr ? std::nullopt : metadata->get_string("resourceVersion");
  return Json::object({{"resourceVersion", version.value_or("")}});
}

std::string one_text(const Rendering& rendering, const Json& object, bool definitions) {
  switch (rendering.form.form) {
    case Form::object: break;
    case Form::metadata: return to_text(partial(object));
    case Form::table: {
      const std::array<const Json*, 1> one = {&object};
      return to_text(table_of(rendering, one, version_metadata(object), definitions));
    }
  }
  return to_text(object);
}

// RFC 7234 5.5, in the form that Kubernetes' clients read: 299 - "text".
std::string warning_header(std::string_view text) {
  std::string header = "299 - \"";
  for (const char c : text) {
    if (c == '"' || c == '\\') header += '\\';
    header += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return header + '"';
}

http::SharedText shared(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

http::SharedText opening(registry::WatchEvent::Type type) {
  static const std::array<http::SharedText, 4> texts = {
      shared(R"({"type":"ADDED","object":)"), shared(R"({"type":"MODIFIED","object":)"),
      shared(R"({"type":"DELETED","object":)"), shared(R"({"type":"BOOKMARK","object":)")};
  return texts[static_cast<std::size_t>(type)];
}

http::SharedText closing() {
  static const http::SharedText text = shared("}\n");
  return text;
}

}  // namespace

http::Response render_object(int code, const Rendering& rendering, const Json& object) {
  return json_response(code, one_text(rendering, object, true));
}

void add_warnings(http::Response& response, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) response.headers.add("Warning", warning_header(warning));
}

http::Response render_item(int code, const Rendering& rendering, const registry::Item& item) {
  if (rendering.form.form != Form::object) return render_object(code, rendering, *item);
  std::string text;
  item.append_text(text);
  return json_response(code, std::move(text));
}

http::Response render_list(const Rendering& rendering, const registry::Listed& listed) {
  if (rendering.form.form == Form::table) {
    std::vector<const Json*> objects;
    objects.reserve(listed.items.size());
    for (const auto& item : listed.items) objects.push_back(item.get());
    return json_response(200, to_text(table_of(rendering, objects, list_metadata(listed), true)));
  }
  // Written item by item: a list of 100,000 objects is not copied into one value first.
  const bool partials = rendering.form.form == Form::metadata;
  std::string text = R"({"kind":)";
  append_json_string(text, partials ? std::string("PartialObjectMetadataList") : rendering.kind->list_kind());
  text += R"(,"apiVersion":)";
  append_json_string(text, partials ? std::string("meta.k8s.io/v1") : rendering.kind->api_version());
  text += R"(,"metadata":)";
  append_text(text, list_metadata(listed));
  text += R"(,"items":[)";
  bool first = true;
  for (const auto& item : listed.items) {
    if (!first) text += ',';
    first = false;
    if (partials)
      append_text(text, partial(*item));
    else
      item.append_text(text);
  }
  text += "]}";
  return json_response(200, std::move(text));
}

http::SharedText EventTexts::text_of(const registry::Item& object) {
  const Key key{object.identity(), object.revision()};
  const auto found = kept_.find(key);
  if (found != kept_.end()) return found->second.text;
  if (order_.size() >= kMaxTexts) {
    kept_.erase(order_.front());
    order_.pop_front();
  }
  std::string text;
  object.append_text(text);
  order_.push_back(key);
  return kept_.emplace(key, Kept{object, shared(std::move(text))}).first->second.text;
}

Json EventRenderer::bookmark(const registry::WatchEvent& event) const {
  Json metadata = Json::object({{"resourceVersion", event.resource_version}});
  if (rendering_.form.form == Form::table) return table_of(rendering_, {}, std::move(metadata), false);
  metadata.set("creationTimestamp", Json());
  if (event.initial_end) metadata.set("annotations", Json::object({{"k8s.io/initial-events-end", "true"}}));
  const bool partials = rendering_.form.form == Form::metadata;
  return Json::object(
      {{"kind", partials ? std::string("PartialObjectMetadata") : std::string(rendering_.kind->kind)},
       {"apiVersion", partials ? std::string("meta.k8s.io/v1") : rendering_.kind->api_version()},
       {"metadata", std::move(metadata)}});
}

http::SharedText EventRenderer::object_text(const registry::WatchEvent& event, WallTime now) {
  if (event.type == registry::WatchEvent::Type::bookmark) return shared(to_text(bookmark(event)));
  if (rendering_.form.form == Form::object) return texts_.text_of(event.object);
  rendering_.now = now;
  const bool definitions = !std::exchange(sent_definitions_, true);
  return shared(one_text(rendering_, *event.object, definitions));
}

void EventRenderer::add(const registry::WatchEvent& event, WallTime now,
                        std::vector<http::SharedText>& parts) {
  parts.push_back(opening(event.type));
  parts.push_back(object_text(event, now));
  parts.push_back(closing());
}

std::string error_line(const Json& status) {
  return R"({"type":"ERROR","object":)" + to_text(status) + "}\n";
}

}  // namespace moor::doors::kube
