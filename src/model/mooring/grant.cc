#include "model/mooring/grant.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/make_kind.h"

namespace moor::model::mooring {

MOOR_DESCRIBE(GrantHolder, "One start of an engine process that may write, or waits to.") {
  f.add("epoch", &GrantHolder::epoch, "Epoch of this start; no two starts share one.").required().at_least(1);
  f.add("engine", &GrantHolder::engine, "Name of the Engine.").required();
  f.add("node", &GrantHolder::node, "Node it runs on.").required();
  f.add("incarnation", &GrantHolder::incarnation, "Which life of that node.").required();
}

MOOR_DESCRIBE(ReleaseProof, "Why a holder is known to write no more.") {
  f.omit_empty();
  f.add("type", &ReleaseProof::type,
        "Unmounted by its agent, Fenced by a higher epoch, IncarnationEnded, or a named Override.")
      .required()
      .omit_empty(false);
  f.add("holder", &ReleaseProof::holder, "The holder that was released.").required();
  f.add("fencedByEpoch", &ReleaseProof::fenced_by_epoch,
        "Epoch that every replica which could serve had stored.");
  f.add("at", &ReleaseProof::at, "When it was proven.");
  f.add("by", &ReleaseProof::by, "Who recorded it; for an override, the person.");
  f.add("message", &ReleaseProof::message, "What was seen, in a sentence.");
}

MOOR_DESCRIBE(GrantSnapshot, "The snapshot that was committed last.") {
  f.add("name", &GrantSnapshot::name, "Name of the snapshot.").required();
  f.add("generation", &GrantSnapshot::generation, "Generation that committed it.").required();
}

MOOR_DESCRIBE(GrantSpec, "Who may write to the volume, and which replicas hold its data.") {
  f.omit_empty();
  f.add("volume", &GrantSpec::volume, "Name of the volume.").required().not_empty().immutable();
  f.add("epoch", &GrantSpec::epoch, "Highest epoch ever granted; it only grows.")
      .omit_empty(false)
      .at_least(0);
  f.add("active", &GrantSpec::active, "The engine that may write; absent: none.").atomic();
  f.add("standby", &GrantSpec::standby, "The engine that may become active in a move; absent: none.")
      .atomic();
  f.add("members", &GrantSpec::members,
        "Replicas by name: RW holds all data, WO is being rebuilt, ERR has missed a write.");
  f.add("generation", &GrantSpec::generation, "Counts changes of the members and of the snapshot chain.")
      .omit_empty(false)
      .at_least(0);
  f.add("exportID", &GrantSpec::export_id,
        "Identity of the export; a new one tells clients that unflushed writes may be lost.");
  f.add("unproven", &GrantSpec::unproven,
        "Restored from a backup of the store: no start until every member has answered.");
  f.add("snapshot", &GrantSpec::snapshot, "The snapshot that was committed last.").atomic();
  f.add("proofs", &GrantSpec::proofs, "Why former holders are known to write no more, oldest first.")
      .max_items(kMaxProofs);
  f.add("nextReplica", &GrantSpec::next_replica,
        "Number of the next replica's name; it only grows, so that no name is used twice.")
      .at_least(0);
}

MOOR_DESCRIBE(Grant, "The fencing record of a volume: the only place that says who may write.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "Grant");
  f.add("metadata", &Grant::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("spec", &Grant::spec, "The record.").required();
}

namespace {

Json members_cell(const Json& object, Time) {
  int counts[3] = {0, 0, 0};
  const Json* members = object.find_path({"spec", "members"});
  for (std::size_t i = 0; members != nullptr && members->is_object() && i < members->size(); ++i) {
    const auto mode = members->value_at(i).is_string()
                          ? enum_from<MemberMode>(members->value_at(i).as_string())
                          : std::nullopt;
    if (mode) ++counts[static_cast<std::size_t>(*mode)];
  }
  std::string text = fmt::format("{} RW", counts[0]);
  if (counts[1] > 0) text += fmt::format(", {} WO", counts[1]);
  if (counts[2] > 0) text += fmt::format(", {} ERR", counts[2]);
  return text;
}

std::size_t count_rw(const GrantSpec& spec) {
  return static_cast<std::size_t>(
      std::count_if(spec.members.begin(), spec.members.end(),
                    [](const auto& one) { return one.second == MemberMode::rw; }));
}

}  // namespace

MOOR_KIND(
    Grant, .group = kGroup, .version = kVersion, .kind = "Grant", .plural = "grants", .singular = "grant",
    .short_names = {"mgr"}, .categories = {"mooring"}, .has_status = false, .custom = true,
    .columns =
        {{.name = "Epoch", .type = "integer", .path = ".spec.epoch", .description = "Highest epoch granted."},
         {.name = "Active", .path = ".spec.active.node", .description = "Node of the engine that may write."},
         {.name = "Standby", .path = ".spec.standby.node", .description = "Node that a move goes to."},
         {.name = "Members", .description = "Replicas by mode.", .cell = members_cell},
         {.name = "Generation",
          .type = "integer",
          .path = ".spec.generation",
          .description = "Changes of the members.",
          .priority = 1},
         {.name = "Unproven",
          .type = "boolean",
          .path = ".spec.unproven",
          .description = "Restored and not yet proven.",
          .priority = 1},
         age_column()},
    .selectable_fields = {"spec.volume", "spec.active.node", "spec.standby.node"},
    .check = typed_check<Grant, validate_grant>,
    .check_update = typed_check_update<Grant, validate_grant_update>)

Causes validate_grant(const Grant& grant) {
  Causes causes;
  const GrantSpec& spec = grant.spec;
  if (spec.active && spec.active->epoch > spec.epoch)
    causes.push_back(
        invalid("spec.active.epoch", spec.active->epoch, "is above spec.epoch, the highest ever granted"));
  if (spec.standby && spec.standby->epoch > spec.epoch)
    causes.push_back(
        invalid("spec.standby.epoch", spec.standby->epoch, "is above spec.epoch, the highest ever granted"));
  if (spec.active && spec.standby && spec.standby->epoch <= spec.active->epoch)
    causes.push_back(invalid("spec.standby.epoch", spec.standby->epoch, "must be above the active epoch"));
  if (spec.members.size() > kMaxMembers)
    causes.push_back(too_many("spec.members", spec.members.size(), kMaxMembers));
  if (spec.snapshot && spec.snapshot->generation > spec.generation)
    causes.push_back(
        invalid("spec.snapshot.generation", spec.snapshot->generation, "is above spec.generation"));
  return causes;
}

Causes validate_grant_update(const Grant& before, const Grant& after) {
  Causes causes;
  const GrantSpec& was = before.spec;
  const GrantSpec& is = after.spec;
  if (is.epoch < was.epoch) causes.push_back(forbidden("spec.epoch", "an epoch never goes down"));
  if (is.generation < was.generation)
    causes.push_back(forbidden("spec.generation", "a generation never goes down"));
  if (is.next_replica < was.next_replica)
    causes.push_back(forbidden("spec.nextReplica", "a replica's number is never used twice"));
  // A start takes a new epoch: the same one may not name another process, except when the standby becomes
  // active.
  const auto reuses = [&](const std::optional<GrantHolder>& holder) {
    return holder && holder->epoch <= was.epoch && holder != was.active && holder != was.standby;
  };
  if (reuses(is.active)) causes.push_back(forbidden("spec.active.epoch", "an epoch is granted once"));
  if (reuses(is.standby)) causes.push_back(forbidden("spec.standby.epoch", "an epoch is granted once"));
  bool needs_generation = is.snapshot != was.snapshot;
  for (const auto& [name, mode] : was.members) {
    const auto found = is.members.find(name);
    if (found == is.members.end()) continue;
    const std::string field = fmt::format("spec.members[{}]", name);
    if (mode == MemberMode::err && found->second == MemberMode::rw)
      causes.push_back(forbidden(field, "a failed member returns only through WO"));
    if (mode != MemberMode::err && found->second == MemberMode::err) needs_generation = true;
  }
  if (needs_generation && is.generation == was.generation)
    causes.push_back(forbidden("spec.generation", "this change must raise the generation"));
  if (count_rw(was) > 0 && count_rw(is) == 0 && !is.members.empty())
    causes.push_back(forbidden("spec.members", "the last RW member stays RW: it holds the data"));
  return causes;
}

}  // namespace moor::model::mooring
