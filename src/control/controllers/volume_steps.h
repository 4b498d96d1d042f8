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
model::ObjectMeta metadata_of_engine(const Family& family, const std::string& name);
// Gives places to replicas that have none, while nothing was ever written; says so in the condition
// Scheduled.
void place_replicas(Family& family);

// volume_open.cc

// Which engine on which node.
struct Seat {
  std::string engine;
  std::string node;
};
bool has_ended(lh::InstanceState state);
// The Engine of that slot as a start in that seat wants it.
void seat_engine(Family& family, const Seat& seat, const std::map<std::string, std::string>& addresses);
// Where the members that run are reached; of those that are coming back, where that engine knew them last, so
// that it waits for them.
std::map<std::string, std::string> member_addresses(const Family& family, const Edit<lh::Engine>& engine);
// The active engine serves in the Grant's epoch, wherever it is.
bool is_serving(const Family& family);
// During a move: the active engine is in this seat; when it ends it gets the next epoch there.
void keep_open(Family& family, const Seat& seat);

// What is seen of the processes, for the table.
attach::Progress progress_of(const Family& family);
// Replicas run, then the engine gets its epoch; an engine that ended gets the next one, after a pause that
// grows. Idempotent.
void open(Family& family);
// A replica that starts again may listen elsewhere. The active engine, if it is still gathering its members,
// is told, or it would wait for one that is long back; and so is one that shall stop, for its device has to
// flush first.
void follow_addresses(Family& family);
// How it is proven that the active engine's process has ended; to let go of its node that is not enough,
// everything of it must be gone from there.
enum class Release : std::uint8_t { of_process, of_node };
std::optional<mr::ReleaseProof> proof_of_release(const Family& family, Release what);
// The same of any start of one of the volume's engines.
std::optional<mr::ReleaseProof> proof_of_end(const Family& family, const mr::GrantHolder& holder,
                                             Release what);
// robustness, members and what else people look at, once the rest is decided.
void tell_robustness(Family& family, const attach::Progress& progress);
// A faulted volume that is detached may try again once a member can serve.
void lift_fault(Family& family);
// A pause before the next start after that many in a row: none, then 1 s doubling to 60 s.
std::chrono::seconds restart_pause(std::int32_t count);
// The count as it stands: a ticket that came after the last restart ends the row.
std::int32_t restarts_in_a_row(const Family& family);

// volume_move.cc

// Everything about a move of an attached volume (docs/decisions/0300). True: the move decides this time, and
// the table is not asked.
bool follow_move(Family& family);
// Some ticket may want to move the volume later: its engine must be reachable for a second one.
bool may_move(const Family& family);
// While the volume is closed: the engine on the other side of a move stops too.
void close_other_side(Family& family);
// Nothing but the active engine is left of a move, as far as this volume's record can tell.
bool is_other_side_released(const Family& family);
// Records and engines that no move needs any more.
void clean_up_after_moves(Family& family);
// A place on a node that nobody needs any more goes back.
void return_place(Family& family, const std::string& node);

// volume_close.cc

// The engine stops, its release is proven, then the replicas stop. Idempotent.
void close(Family& family);
// After the volume is closed: snapshots, engine, replicas, attachment, finalizer, in this order.
void remove_all(Family& family);

}  // namespace moor::control
