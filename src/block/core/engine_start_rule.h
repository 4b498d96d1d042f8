// The start rule of data-plane.md as functions of what was heard: who stays, who becomes ERR, which member is
// the source, which regions must be made equal before anyone is served. No state, no I/O; engine_start.cc
// carries the plan out. Called again from the beginning whenever a member is lost during the start.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "block/core/engine.h"

namespace moor::block::engine {

struct Candidate {
  MemberIndex index = 0;
  std::string name;
  MemberMode mode = MemberMode::rw;  // in the Grant
  bool local = false;
  std::optional<HelloAnswer> answer;  // none: it did not answer, or failed since
};

// A member missed the last change of the chain, because the engine died while it told them.
struct ChainRepair {
  MemberIndex member = 0;
  PeerOp op = PeerOp::snapshot_create;
  SnapshotCommand command;  // generation is filled in by whoever sends it
};

struct StartPlan {
  MemberIndex source = 0;
  std::vector<MemberIndex> stay;  // RW from now on, the source among them, ascending
  bool change = false;            // the Grant must say `next` before the first acknowledgement
  Membership next;
  bool fresh_export = false;  // no continuous member
  std::vector<std::uint64_t> resync;
  std::vector<ChainRepair> repairs;
  std::vector<std::string> reasons;  // one sentence for each member that becomes ERR
};

struct StartQuestion {
  const Membership& grant;
  InSync in_sync = InSync::grant;
  const std::vector<Candidate>& candidates;
  const std::string& fresh_export_id;
  // Regions that any member has reported since this engine began its start, lost members too: what one of
  // them made dirty may have been copied to another that answered clean.
  const std::vector<std::uint64_t>& reported_dirty;
  // Clients missed what another engine wrote meanwhile: they must open the volume again.
  bool new_export = false;
};

// Nothing when no in-sync member has answered.
std::optional<StartPlan> plan_start(const StartQuestion& question);

// The commands that bring `from` to the chain of `to`, at most one change behind; nothing when there are
// none.
std::optional<std::vector<ChainRepair>> repair_chain(MemberIndex member, const HelloAnswer& from,
                                                     const HelloAnswer& to);

// Identities say what made them, so that a repair cannot take a purge for a revert.
inline constexpr std::string_view kSnapshotIdentity = "snap-";
inline constexpr std::string_view kPurgeIdentity = "purge-";
inline constexpr std::string_view kRevertIdentity = "revert-";  // …of the head, followed by the snapshot:
inline constexpr std::string_view kRevertTarget = "@";

}  // namespace moor::block::engine
