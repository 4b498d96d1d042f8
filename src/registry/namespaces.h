// Namespaces come and go: those that everything relies on are made at the first start, and one that is being
// deleted is emptied first and leaves when nothing is in it any more.
#pragma once

#include <set>
#include <string>

#include "registry/housekeeper.h"

namespace moor::registry {

// default, kube-system, longhorn-system and mooring-node-lease (the nodes' heartbeats), where they are
// missing.
Task<Result<void>> ensure_namespaces(Registry& registry);

class NamespaceKeeper final : public Housekeeper {
 public:
  using Housekeeper::Housekeeper;

 protected:
  void notice(const store::Change& change) override;
  Task<Answer<void>> look_at(std::string key) override;
  std::string_view name() const override { return "namespaces"; }

 private:
  std::set<std::string> ending_;  // namespaces that are being emptied
};

}  // namespace moor::registry
