#include "doors/kube/node_secret.h"

#include <fmt/format.h>

#include "doors/auth/authorizer.h"
#include "model/core/secret.h"
#include "model/longhorn/engine.h"
#include "model/longhorn/replica.h"
#include "registry/prepare.h"
#include "registry/refusal.h"

namespace moor::doors::kube {

Task<registry::Answer<void>> check_node_secret(registry::Registry& registry, std::string node, Json secret) {
  const std::string name = registry::metadata_text(secret, "name");
  const auto& kind = kind_info(static_cast<const model::core::Secret*>(nullptr));
  if (secret.get_string("type").value_or("") != kVolumeTokenType)
    co_return registry::refuse_forbidden(kind, name, "nodes read no secrets but the tokens of their volumes");
  const std::string volume = name.substr(0, name.size() - kVolumeTokenSuffix.size());
  for (const model::KindInfo* served : {&kind_info(static_cast<const model::longhorn::Engine*>(nullptr)),
                                        &kind_info(static_cast<const model::longhorn::Replica*>(nullptr))}) {
    registry::ListOptions options;
    options.limit = 1;
    CO_TRY(options.fields,
           registry::FieldSelector::parse(fmt::format("spec.nodeID={},spec.volumeName={}", node, volume)));
    registry::ResourceName where{served, registry::metadata_text(secret, "namespace"), "", ""};
    CO_TRY(const registry::Listed found, co_await registry.list(std::move(where), std::move(options)));
    if (!found.items.empty()) co_return registry::Answer<void>();
  }
  co_return registry::refuse_forbidden(
      kind, name, fmt::format("node \"{}\" serves no engine and no replica of volume \"{}\"", node, volume));
}

}  // namespace moor::doors::kube
