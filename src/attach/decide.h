// The attachment rules: from everything that is known of one volume to what shall be written. Nothing else
// sets Volume.spec.nodeID, and nothing else makes a blocker.
//
// Pure and deterministic: the same Book gives the same Decision; a Decision that was applied gives an empty
// one next time (no volume changes, equal statuses, no notices), so writes end when the input does (L8).
//
// What it promises:
// - spec.nodeID goes from one node to another only through empty or by a confirmed move (S9); else it is set
//   only when the volume is detached, not faulted, no engine is active in the Grant, and both migration
//   fields are empty. spec.migrationNodeID is set only while the volume is attached (moves.h).
// - A ticket whose node is not ready, unreachable, unknown or full never wins.
// - Statuses are those that hold *after* the volume changes of the same decision: a ticket is unsatisfied in
//   the write that withdraws its node (S15).
// - Every unsatisfied ticket has at least one blocker; `since` stays while the same blocker lasts (L10, L8).
// - A reservation (ticket without a node) is satisfied when it holds the volume for its owner (S20).
//
// What it relies on: the volume controller sets robustness `faulted` when no RW member can serve and takes it
// back once one can while the volume is detached; a restarted engine keeps Grant.active filled (the old
// holder is replaced in the transaction that grants the next epoch), or its tickets are unsatisfied
// meanwhile.
#pragma once

#include "attach/book.h"

namespace moor::attach {

Decision decide(const Book& book);

// Nobody asks, nobody is told anything, and the volume is given to no node: whatever it does now, a decision
// would say nothing.
bool is_at_rest(const Volume& volume, const VolumeAttachment& attachment);
// One ticket; the volume has its places, is given to the ticket's node, on its way there or there. Then a
// decision that leaves the volume as it is needs to know neither the Grant nor whether a device is in use.
bool is_plain(const Volume& volume, const VolumeAttachment& attachment);

// Writes the decision into the objects: spec of the volume, tickets and statuses of the attachment. Answers
// which of them changed.
struct Applied {
  bool volume = false;
  bool attachment_spec = false;
  bool attachment_status = false;
  bool any() const { return volume || attachment_spec || attachment_status; }
};
Applied apply_decision(const Decision& decision, Volume& volume, VolumeAttachment& attachment);

// Why the volume may not be given to a node now; empty: it may (the attach gate).
std::vector<Blocker> gate_blockers(const Book& book);

// Tickets that came a moment ago and wait only for what the system does for them by itself: their first
// status is told when it lasts. Absent: the statuses say something else, or it has lasted.
constexpr std::chrono::milliseconds kUntold{2000};
std::optional<Time> untold_until(const Decision& decision, const VolumeAttachment& attachment, Time now);

}  // namespace moor::attach
