#include "block/core/engine_operations.h"

#include <algorithm>

#include "base/assert.h"
#include "base/plant.h"

namespace moor::block::engine {

namespace {
constexpr std::uint64_t kSlotBits = 20;
constexpr std::uint64_t kSlotMask = (1u << kSlotBits) - 1;

bool touches(const Operation& cleared, const ClientRequest& request) {
  if (request.length == 0) return false;
  const std::uint64_t first = request.offset / kRegionSize;
  const std::uint64_t last = (request.offset + request.length - 1) / kRegionSize;
  const auto at = std::lower_bound(cleared.regions.begin(), cleared.regions.end(), first);
  return at != cleared.regions.end() && *at <= last;
}
}  // namespace

Operation& Operations::open(OpKind kind, Instant now) {
  if (free_.empty()) {
    MOOR_ASSERT(slots_.size() < kSlotMask);
    const std::size_t slot = slots_.size();
    slots_.emplace_back().id = slot;
    free_.push_back(static_cast<std::uint32_t>(slot));
  }
  Operation& operation = slots_[free_.back()];
  free_.pop_back();
  const std::uint64_t id = operation.id + kSlotMask + 1;
  operation = Operation{};
  operation.id = id;
  operation.kind = kind;
  operation.in_use = true;
  operation.arrived = now;
  ++in_use_;
  ++counts_[static_cast<std::size_t>(kind)];
  return operation;
}

Operation* Operations::find(std::uint64_t id) {
  const std::uint64_t slot = id & kSlotMask;
  if (slot >= slots_.size()) return nullptr;
  Operation& operation = slots_[slot];
  return operation.in_use && operation.id == id ? &operation : nullptr;
}

void Operations::release(Operation& operation) {
  MOOR_ASSERT(operation.in_use && !operation.ordered);
  operation.in_use = false;
  operation.client.payload = {};
  --in_use_;
  --counts_[static_cast<std::size_t>(operation.kind)];
  free_.push_back(static_cast<std::uint32_t>(operation.id & kSlotMask));
}

bool Operations::conflict(const Operation& a, const Operation& b) {
  if ((!a.changes_data || MOOR_PLANT("engine-reads-overtake")) && !b.changes_data) return false;
  if (a.kind == OpKind::clear_dirty) return b.changes_data && touches(a, b.client);
  if (b.kind == OpKind::clear_dirty) return a.changes_data && touches(b, a.client);
  return a.client.offset < b.client.offset + b.client.length &&
         b.client.offset < a.client.offset + a.client.length;
}

void Operations::order(Operation& operation) {
  operation.blockers = 0;
  for (const Operation* earlier : order_) operation.blockers += conflict(*earlier, operation) ? 1 : 0;
  operation.ordered = true;
  order_.push_back(&operation);
}

void Operations::unorder(Operation& operation, std::vector<Operation*>& freed) {
  const auto at = std::find(order_.begin(), order_.end(), &operation);
  MOOR_ASSERT(at != order_.end());
  for (auto later = at + 1; later != order_.end(); ++later) {
    if (conflict(operation, **later) && --(*later)->blockers == 0) freed.push_back(*later);
  }
  order_.erase(at);
  operation.ordered = false;
}

}  // namespace moor::block::engine
