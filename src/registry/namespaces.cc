#include "registry/namespaces.h"

#include "model/kinds.h"
#include "registry/keys.h"
#include "registry/prepare.h"

namespace moor::registry {
namespace {

constexpr std::string_view kFinalizer = "kubernetes";
constexpr std::size_t kRemovalsPerTurn = 200;

const model::KindInfo& namespaces() {
  static const model::KindInfo& kind = *model::find_kind("", "v1", "namespaces");
  return kind;
}

bool is_ending(const Json& space) {
  return !metadata_text(space, "deletionTimestamp").empty();
}

struct Content {
  std::vector<ResourceName> removable;  // at most kRemovalsPerTurn
  bool any = false;
};

Content content_of(const LocalRegistry& registry, const std::string& space) {
  Content content;
  for (const model::KindInfo* kind : model::all_kinds()) {
    if (!kind->namespaced) continue;
    registry.for_each(*kind, space, [&](const JsonPtr& object) {
      content.any = true;
      if (metadata_text(*object, "deletionTimestamp").empty())
        content.removable.push_back({kind, space, metadata_text(*object, "name"), ""});
      return content.removable.size() < kRemovalsPerTurn;
    });
    if (content.removable.size() >= kRemovalsPerTurn) break;
  }
  return content;
}

}  // namespace

Task<Result<void>> ensure_namespaces(Registry& registry) {
  for (const char* name : {"default", "kube-system", "longhorn-system", "mooring-node-lease"}) {
    Json object = Json::object({{"metadata", Json::object({{"name", name}})}});
    WriteOptions options;
    options.field_manager = "moord";
    ResourceName where{&namespaces(), "", "", ""};
    const auto created = co_await registry.create(std::move(where), std::move(object), std::move(options));
    if (!created && !created.is(Errc::already_exists)) co_return created.error().error;
  }
  co_return Result<void>();
}

void NamespaceKeeper::notice(const store::Change& change) {
  const KeyParts parts = split_key(change.key());
  if (parts.kind == nullptr) return;
  if (!is_namespace(*parts.kind)) {
    // The last thing in an ending namespace has gone, perhaps.
    if (change.after == nullptr && ending_.contains(std::string(parts.space)))
      queue_.add(key_of(namespaces(), "", parts.space));
    return;
  }
  const JsonPtr space = change.after == nullptr ? nullptr : object_of(*change.after);
  if (space == nullptr) {
    ending_.erase(std::string(parts.name));
  } else if (is_ending(*space)) {
    ending_.insert(std::string(parts.name));
    queue_.add(change.key());
  }
}

Task<Answer<void>> NamespaceKeeper::look_at(std::string key) {
  const store::ObjectPtr found = registry_.cache().get(key);
  const JsonPtr space = found == nullptr ? nullptr : object_of(*found);
  if (space == nullptr || !is_ending(*space)) co_return Answer<void>();
  const std::string name = metadata_text(*space, "name");
  Content content = content_of(registry_, name);
  for (ResourceName& one : content.removable) {
    DeleteOptions options;
    options.propagation = Propagation::background;
    const auto removed = co_await registry_.remove(std::move(one), std::move(options));
    if (!removed && !removed.is(Errc::not_found)) co_return removed.error();
  }
  if (!content.removable.empty()) {
    queue_.add(std::move(key));  // there may be more
    co_return Answer<void>();
  }
  if (content.any) co_return Answer<void>();  // held by finalizers: their removal brings this key back
  Json next = *space;
  Json* finalizers = next["spec"].find("finalizers");
  if (finalizers == nullptr) co_return Answer<void>();
  for (std::size_t i = finalizers->size(); i-- > 0;)
    if (finalizers->at(i).is_string() && finalizers->at(i).as_string() == kFinalizer) finalizers->erase(i);
  WriteOptions options;
  options.field_manager = "moord";
  // Conditioned on the namespace as it was when it was found empty: content can come only into one that is
  // not ending, and then the write below would find another revision.
  ResourceName what{&namespaces(), "", name, "finalize"};
  const auto done = co_await registry_.update(std::move(what), std::move(next), std::move(options));
  if (!done && !done.is(Errc::not_found)) co_return done.error();
  co_return Answer<void>();
}

}  // namespace moor::registry
