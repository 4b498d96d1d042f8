#include "sim/check/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "attach/settings.h"
#include "model/longhorn/setting.h"

namespace moor::sim::check {
namespace {
// Longer than any look, conflict and retry of a controller takes while nothing is broken.
constexpr Duration kLong = std::chrono::seconds(20);
}  // namespace

const EngineSight* find_engine(const std::vector<EngineSight>& engines, std::string_view volume,
                               std::uint64_t epoch) {
  for (const EngineSight& one : engines)
    if (one.volume == volume && one.epoch == epoch) return &one;
  return nullptr;
}

const ReplicaSight* find_replica(const std::vector<ReplicaSight>& replicas, std::string_view name) {
  const ReplicaSight* found = nullptr;
  // A name is used once per volume; of a volume that took over an old name the one with a process counts.
  for (const ReplicaSight& one : replicas)
    if (one.name == name && (found == nullptr || one.core != nullptr)) found = &one;
  return found;
}

bool is_ready(const lh::Node& node) {
  return model::is_condition_true(node.status.conditions, lh::kNodeReady);
}

std::string describe(const mr::GrantHolder& holder) {
  return fmt::format("epoch {} ({} on {}, incarnation {})", holder.epoch, holder.engine, holder.node,
                     holder.incarnation);
}

std::string in_brackets(std::string_view space, std::string_view name) {
  return fmt::format("{}/{}", space, name);
}

bool are_equal(const std::vector<std::byte>& one, const std::vector<std::byte>& other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

std::int64_t count_rw(const mr::GrantSpec& grant) {
  return std::count_if(grant.members.begin(), grant.members.end(),
                       [](const auto& one) { return one.second == mr::MemberMode::rw; });
}

std::int64_t setting(const Reality& reality, std::string_view name) {
  std::map<std::string, std::string> values;
  if (const auto found = reality.get<lh::Setting>(lh::kDefaultNamespace, name))
    values[std::string(name)] = found->value;
  return attach::Settings::from_values(std::move(values)).integer(name);
}

void Readiness::note(const Commit& commit) {
  for (const Change& change : commit.changes) {
    const auto node = changed<lh::Node>(change);
    if (!node) continue;
    const bool ready = node->after && is_ready(*node->after);
    const auto known = nodes_.find(change.name);
    if (known != nodes_.end() && known->second.ready == ready) continue;
    nodes_[change.name] = {ready, commit.at};
  }
}

bool Readiness::has_long_been(const std::string& node, bool ready, TimePoint now) const {
  const auto known = nodes_.find(node);
  return known != nodes_.end() && known->second.ready == ready && now - known->second.since >= kLong;
}

}  // namespace moor::sim::check
