#include "block/core/engine_start_rule.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

#include "base/plant.h"

namespace moor::block::engine {

namespace {

bool is_fresh(const HelloAnswer& answer) {
  return answer.chain.empty() && answer.wrote == 0;
}

bool same_layers(const HelloAnswer& a, const HelloAnswer& b, std::size_t first, std::size_t shift,
                 std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    if (a.chain[i + shift].id != b.chain[i].id) return false;
  }
  return true;
}

// Epoch and count of an identity ("snap-v1.7.3"); the head of a new replica has none and is older than all.
std::pair<std::uint64_t, std::uint64_t> age_of(std::string_view identity) {
  identity = identity.substr(0, identity.find(kRevertTarget));
  const auto number_at = [&](std::size_t dot) {
    std::uint64_t number = 0;
    std::from_chars(identity.data() + dot + 1, identity.data() + identity.size(), number);
    return number;
  };
  const std::size_t last = identity.rfind('.');
  if (last == std::string_view::npos || last == 0) return {0, 0};
  const std::size_t before = identity.rfind('.', last - 1);
  return before == std::string_view::npos ? std::pair<std::uint64_t, std::uint64_t>{0, 0}
                                          : std::pair{number_at(before), number_at(last)};
}

// Only a member that is behind is repaired: one that has merged a layer away looks like one that never had
// it.
bool is_behind(const HelloAnswer& from, const HelloAnswer& to) {
  return age_of(from.head_id) < age_of(to.head_id);
}

using Repairs = std::optional<std::vector<ChainRepair>>;

Repairs repair_create(MemberIndex member, const HelloAnswer& from, const HelloAnswer& to) {
  if (to.chain.size() != from.chain.size() + 1 || !is_behind(from, to)) return std::nullopt;
  if (!same_layers(from, to, 0, 0, from.chain.size())) return std::nullopt;
  const Layer& last = to.chain.back();
  if (!last.id.starts_with(kSnapshotIdentity) || !to.head_id.starts_with(kSnapshotIdentity))
    return std::nullopt;
  SnapshotCommand command;
  command.name = last.snapshot;
  command.layer_id = last.id;
  command.head_id = to.head_id;
  command.created = last.created;
  command.labels = last.labels;
  command.user_created = last.user_created;
  return std::vector{ChainRepair{member, PeerOp::snapshot_create, std::move(command)}};
}

// A revert leaves the layers as they are and begins a new head, whose identity names the snapshot it stands
// on.
Repairs repair_revert(MemberIndex member, const HelloAnswer& from, const HelloAnswer& to) {
  const auto at = to.head_id.find(kRevertTarget);
  if (!to.head_id.starts_with(kRevertIdentity) || at == std::string::npos) return std::nullopt;
  if (to.chain.size() != from.chain.size() || !is_behind(from, to)) return std::nullopt;
  if (!same_layers(from, to, 0, 0, to.chain.size())) return std::nullopt;
  SnapshotCommand command;
  command.name = to.head_id.substr(at + kRevertTarget.size());
  command.head_id = to.head_id;
  return std::vector{ChainRepair{member, PeerOp::snapshot_revert, std::move(command)}};
}

// `from` still has one removed layer that `to` has merged into its child, which got a new identity.
Repairs repair_purge(MemberIndex member, const HelloAnswer& from, const HelloAnswer& to) {
  if (from.chain.size() != to.chain.size() + 1) return std::nullopt;
  std::size_t at = 0;
  while (at < to.chain.size() && from.chain[at].id == to.chain[at].id) ++at;
  if (!from.chain[at].removed) return std::nullopt;
  const bool into_head = at == to.chain.size();
  const std::string& merged = into_head ? to.head_id : to.chain[at].id;
  if (!merged.starts_with(kPurgeIdentity)) return std::nullopt;
  if (!into_head && !same_layers(from, to, at + 1, 1, to.chain.size() - at - 1)) return std::nullopt;
  if (into_head ? !is_behind(from, to) : from.head_id != to.head_id) return std::nullopt;
  SnapshotCommand command;
  command.name = from.chain[at].snapshot;
  command.layer_id = merged;
  return std::vector{ChainRepair{member, PeerOp::snapshot_purge, std::move(command)}};
}

Repairs repair_marks(MemberIndex member, const HelloAnswer& from, const HelloAnswer& to) {
  std::vector<ChainRepair> repairs;
  for (std::size_t i = 0; i < to.chain.size(); ++i) {
    if (from.chain[i].removed == to.chain[i].removed) continue;
    if (from.chain[i].removed) return std::nullopt;
    ChainRepair repair{member, PeerOp::snapshot_mark_removed, {}};
    repair.command.name = to.chain[i].snapshot;
    repairs.push_back(std::move(repair));
  }
  return repairs;
}

const HelloAnswer& answer_of(const StartQuestion& question, MemberIndex index) {
  return *std::find_if(question.candidates.begin(), question.candidates.end(), [&](const Candidate& c) {
            return c.index == index;
          })->answer;
}

std::vector<const Candidate*> in_sync_members(const StartQuestion& question) {
  std::vector<const Candidate*> found;
  Generation highest = 0;
  for (const Candidate& candidate : question.candidates) {
    if (!candidate.answer || candidate.answer->rebuilding) continue;
    if (question.in_sync == InSync::grant && candidate.mode != MemberMode::rw) continue;
    found.push_back(&candidate);
    highest = std::max(highest, candidate.answer->generation);
  }
  if (question.in_sync == InSync::highest_generation) {
    std::erase_if(found, [&](const Candidate* c) { return c->answer->generation != highest; });
  }
  return found;
}

// 0: it has restarted since.
Epoch served_by(const Candidate* candidate) {
  return MOOR_PLANT("engine-keeps-discontinuous") ? 1 : candidate->answer->served;
}

// A member that restarted may lack acknowledged writes that were not flushed; one that did not has them all.
void keep_continuous(std::vector<const Candidate*>& members, StartPlan& plan) {
  const auto continuous = [](const Candidate* c) { return served_by(c) != 0; };
  plan.fresh_export = std::none_of(members.begin(), members.end(), continuous);
  if (plan.fresh_export) return;
  for (const Candidate* member : members) {
    if (!continuous(member)) {
      plan.reasons.push_back(fmt::format("{} has restarted while another member has not", member->name));
    }
  }
  std::erase_if(members, [&](const Candidate* c) { return !continuous(c); });
}

MemberIndex choose_source(const std::vector<const Candidate*>& members) {
  const auto rank = [](const Candidate* c) {
    return std::tuple(served_by(c), c->answer->generation, c->local, ~c->index);
  };
  return (*std::max_element(members.begin(), members.end(),
                            [&](const Candidate* a, const Candidate* b) { return rank(a) < rank(b); }))
      ->index;
}

// All members must end with one chain. The source's is tried first; another one may be a change ahead of it.
void align_chains(const StartQuestion& question, std::vector<const Candidate*>& members, StartPlan& plan) {
  const auto repairs_towards = [&](const HelloAnswer& goal, bool drop) {
    std::optional<std::vector<ChainRepair>> all{std::in_place};
    std::vector<const Candidate*> kept;
    for (const Candidate* member : members) {
      auto some = repair_chain(member->index, *member->answer, goal);
      const bool fits = some && member->answer->size == goal.size;
      if (!fits && !drop) return Repairs{};
      if (!fits) {
        plan.reasons.push_back(
            fmt::format("{} has another chain of snapshots than the source", member->name));
        continue;
      }
      all->insert(all->end(), some->begin(), some->end());
      kept.push_back(member);
    }
    members = std::move(kept);
    return all;
  };
  const HelloAnswer& source = answer_of(question, plan.source);
  if (auto repairs = repairs_towards(source, false)) {
    plan.repairs = std::move(*repairs);
    return;
  }
  for (const Candidate* goal : std::vector(members)) {
    if (auto repairs = repairs_towards(*goal->answer, false)) {
      plan.repairs = std::move(*repairs);
      return;
    }
  }
  plan.repairs = std::move(*repairs_towards(source, true));
}

void decide_membership(const StartQuestion& question, StartPlan& plan) {
  plan.next = question.grant;
  Generation highest = question.grant.generation;
  for (const Candidate& candidate : question.candidates) {
    if (candidate.answer) highest = std::max(highest, candidate.answer->generation);
    const bool stays = std::binary_search(plan.stay.begin(), plan.stay.end(), candidate.index);
    plan.next.members[candidate.name] =
        stays || (MOOR_PLANT("engine-silent-member-stays") && !candidate.answer) ? MemberMode::rw
                                                                                 : MemberMode::err;
    if (!candidate.answer && candidate.mode == MemberMode::rw) {
      plan.reasons.push_back(fmt::format("{} did not answer", candidate.name));
    }
    if (candidate.mode == MemberMode::wo) {
      plan.reasons.push_back(fmt::format("{} was being rebuilt", candidate.name));
    }
  }
  if ((plan.fresh_export || question.new_export) && !MOOR_PLANT("engine-export-id-kept"))
    plan.next.export_id = question.fresh_export_id;
  // A stored generation above the Grant's comes from a change that was told but not committed: the next one
  // must lie above it, or a member that holds it would look newer than those that follow.
  plan.change = plan.next != question.grant || highest != question.grant.generation || !plan.repairs.empty();
  if (plan.change) plan.next.generation = highest + 1;
}

}  // namespace

Repairs repair_chain(MemberIndex member, const HelloAnswer& from, const HelloAnswer& to) {
  const bool same = from.chain.size() == to.chain.size() && same_layers(from, to, 0, 0, to.chain.size());
  // Replicas made independently and never written to are equal, whatever their heads are called.
  if (same && (from.head_id == to.head_id || (is_fresh(from) && is_fresh(to)))) {
    return repair_marks(member, from, to);
  }
  if (auto repairs = repair_create(member, from, to)) return repairs;
  if (auto repairs = repair_revert(member, from, to)) return repairs;
  return repair_purge(member, from, to);
}

std::optional<StartPlan> plan_start(const StartQuestion& question) {
  StartPlan plan;
  std::vector<const Candidate*> members = in_sync_members(question);
  if (members.empty()) return std::nullopt;
  keep_continuous(members, plan);
  plan.source = choose_source(members);
  align_chains(question, members, plan);

  std::set<std::uint64_t> regions(question.reported_dirty.begin(), question.reported_dirty.end());
  for (const Candidate* member : members) {
    plan.stay.push_back(member->index);
    regions.insert(member->answer->dirty.begin(), member->answer->dirty.end());
  }
  std::sort(plan.stay.begin(), plan.stay.end());
  const std::uint64_t size = answer_of(question, plan.source).size;
  for (const std::uint64_t region : regions) {
    if (region < (size + kRegionSize - 1) / kRegionSize) plan.resync.push_back(region);
  }
  decide_membership(question, plan);
  return plan;
}

}  // namespace moor::block::engine
