// The parts of the volume controller: what each does to the objects of one volume. Pure edits of a Family.
#pragma once

#include "attach/table.h"
#include "control/controllers/family.h"

namespace moor::control {

// volume_create.cc

// The attachment, the Grant, the token, the engine and the replicas, where they are missing. A volume that
// never had a Grant of ours brings its attachment with it as tickets (S41); a missing attachment of a volume
// of ours means "no tickets".
void create_missing(Family& family);
// Gives places to replicas that have none, while nothing was ever written; says so in the condition
// Scheduled.
void place_replicas(Family& family);

// volume_open.cc

// What is seen of the processes, for the table.
attach::Progress progress_of(const Family& family);
// Replicas run, then the engine gets its epoch; an engine that ended gets the next one, after a pause that
// grows. Idempotent.
void open(Family& family);
// Whether the active engine's process is known to have ended, and how that is proven.
std::optional<mr::ReleaseProof> proof_of_release(const Family& family);
// robustness, members and what else people look at, once the rest is decided.
void tell_robustness(Family& family, const attach::Progress& progress);
// A faulted volume that is detached may try again once a member can serve.
void lift_fault(Family& family);
// A pause before the next start after that many in a row: none, then 1 s doubling to 60 s.
std::chrono::seconds restart_pause(std::int32_t count);
// The count as it stands: a ticket that came after the last restart ends the row.
std::int32_t restarts_in_a_row(const Family& family);

// volume_close.cc

// The engine stops, its release is proven, then the replicas stop. Idempotent.
void close(Family& family);
// After the volume is closed: snapshots, engine, replicas, attachment, finalizer, in this order.
void remove_all(Family& family);

}  // namespace moor::control
