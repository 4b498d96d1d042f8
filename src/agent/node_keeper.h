// Tells the cluster about this node: makes its objects at the first start, keeps disks and heartbeat current,
// and finds out which life of the node this is. One executor's thread.
#pragma once

#include <functional>
#include <memory>

#include "agent/bell.h"
#include "agent/env.h"
#include "model/coordination/lease.h"

namespace moor::agent {

inline constexpr std::string_view kLeaseSpace = "mooring-node-lease";
inline constexpr std::string_view kNodeSpace = "longhorn-system";

class NodeKeeper {
 public:
  NodeKeeper(Env& env, std::function<void()> disks_changed)
      : env_(env), disks_changed_(std::move(disks_changed)), bell_(env.executor) {}

  // The Node, its disks and its life, once, trying until the server answers; env.self and env.disks are set
  // then. After it run() and renew_lease() keep them current.
  Task<Result<void>> introduce(CancelToken token);
  Task<Result<void>> run(CancelToken token);
  Task<Result<void>> renew_lease(CancelToken token);
  void set_object(std::shared_ptr<const Json> object);

 private:
  Task<Result<void>> try_to_introduce(CancelToken token);
  Task<Result<Json>> get_or_create_node();
  Task<Result<void>> settle_life(model::longhorn::Node node, CancelToken token);
  Task<Result<void>> hear_nobody_else(CancelToken token);
  Task<Result<void>> look_at_disks(model::longhorn::Node node);
  Task<Result<void>> tell(Json json);
  Task<Result<void>> tell_core_node();
  Task<Result<void>> touch_lease();
  registry::ResourceName node_resource() const;

  Env& env_;
  std::function<void()> disks_changed_;
  Bell bell_;
  std::shared_ptr<const Json> json_;
  Lives life_;
  std::map<std::string, DiskFacts> disks_;         // by name
  std::map<std::string, std::string> disk_paths_;  // likewise, as they were wanted when they were looked at
  std::optional<Json> lease_;
};

}  // namespace moor::agent
