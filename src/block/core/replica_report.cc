#include "block/core/replica_report.h"

namespace moor::block {
namespace {

Json chain_json(const std::vector<Layer>& chain) {
  Json result = Json::array();
  for (const Layer& layer : chain) {
    Json labels = Json::object();
    for (const auto& [key, value] : layer.labels) labels.set(key, value);
    result.push_back(Json::object({{"name", layer.snapshot},
                                   {"id", layer.id},
                                   {"parent", layer.parent},
                                   {"created", layer.created},
                                   {"labels", std::move(labels)},
                                   {"removed", layer.removed},
                                   {"userCreated", layer.user_created},
                                   {"summed", layer.summed},
                                   {"usedBytes", layer.used_bytes}}));
  }
  return result;
}

}  // namespace

Json replica_status(const Replica& replica) {
  const ReplicaMeta& meta = replica.store().meta();
  const PurgeProgress& purge = replica.store().purge_progress();
  Json result = Json::object({{"kind", "replica"},
                              {"volume", meta.volume},
                              {"size", meta.size},
                              {"generation", meta.generation},
                              {"floor", Json::object({{"epoch", meta.floor.epoch},
                                                      {"engine", meta.floor.engine},
                                                      {"session", meta.floor.session}})},
                              {"wrote", meta.wrote},
                              {"clean", meta.clean},
                              {"rebuilding", meta.rebuilding},
                              {"dirtyRegions", replica.store().dirty_regions().size()},
                              {"head", meta.head_id},
                              {"snapshots", meta.layers.size()},
                              {"inFlight", replica.in_flight()}});
  if (const auto holder = replica.holder()) {
    result.set("heldBy", Json::object({{"epoch", holder->epoch}, {"engine", holder->engine}}));
  }
  if (replica.store().files().broken()) result.set("broken", replica.store().files().why_broken());
  if (meta.purge) {
    result.set("purge", Json::object({{"snapshot", purge.snapshot},
                                      {"done", purge.done},
                                      {"total", purge.total},
                                      {"error", purge.error}}));
  }
  return result;
}

Json replica_snapshots(const Replica& replica) {
  return Json::object(
      {{"head", replica.store().meta().head_id}, {"snapshots", chain_json(replica.store().meta().chain())}});
}

}  // namespace moor::block
