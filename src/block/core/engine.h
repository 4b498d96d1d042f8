// The engine of one volume as a step machine: it fans writes out to the members, reads from one of them,
// keeps the degraded rule, the start rule and the snapshot chain of data-plane.md ("The grant"). No I/O, no
// clock, no random numbers: what happens comes in as an Event with the time, what shall happen goes out as
// Actions. moorblk drives it with io_uring, the tests and the simulator with messages of their own.
//
//   engine.step(Started{}, now, actions);  …perform the actions…;  step again at engine.next_wake()
//
// One thread. Actions are performed in the order given; messages to one member stay in that order on its
// connection. An event about a session that is no longer current is ignored, so the driver need not filter.
// After Exit nothing more is done. Replies to clients are acknowledgements: a ReplyClient with error 0 for a
// WRITE, TRIM, WRITE_ZEROES or FLUSH appears only when it is on every member that the Grant names RW (S6).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "block/core/buffer.h"
#include "block/core/engine_stats.h"
#include "block/core/peer.h"
#include "block/core/types.h"

namespace moor::block::engine {

using Instant = std::chrono::nanoseconds;  // since an arbitrary origin, never backwards
using MemberIndex = std::uint32_t;         // position in Config::members, then in order of AddMember

inline constexpr std::size_t kMaxMembers = 16;
// A standby's connection to the active engine uses the same actions and events as those to members.
inline constexpr MemberIndex kSourceLink = kMaxMembers;
inline constexpr std::string_view kSourceName = "";  // no member has it

struct MemberConfig {
  std::string name;     // as in the Grant
  std::string address;  // for the driver; the engine only reports it
  MemberMode mode = MemberMode::rw;
  bool local = false;    // on this node: reads prefer it
  bool expected = true;  // its node is Ready: the start waits for it
};

// What the engine knows of the Grant. `members` names all of them, ERR ones too.
struct Membership {
  std::map<std::string, MemberMode> members;
  Generation generation = 0;
  std::string export_id;
  bool operator==(const Membership&) const = default;
};

// How the in-sync set is found at the start.
enum class InSync : std::uint8_t {
  grant,               // the members that are RW in the Grant
  highest_generation,  // the Grant cannot be trusted (unproven), or there is none: all must answer
};

struct Config {
  std::string volume;
  Epoch epoch = 0;
  std::string engine;
  std::string token;
  std::vector<MemberConfig> members;
  Generation generation = 0;    // of the Grant
  std::string export_id;        // of the Grant
  std::string fresh_export_id;  // taken when the start finds no continuous member; never used before
  InSync in_sync = InSync::grant;
  bool accept_missing =
      false;             // highest_generation only: a person says that the silent ones hold nothing newer
  bool by_hand = false;  // there is no Grant: TakeEpoch and ActivateConfirm come without it
  bool hold_when_superseded = false;  // a move is recorded: keep the clients' requests instead of ending
  bool standby = false;               // destination of a move: forwards reads to `source` until activated
  std::string source;                 // standby: where the active engine listens for us
  // The epoch that the clients were last served in, by a process before this one; 0: nothing to compare. A
  // member that has been written to in a later epoch means that they missed something.
  Epoch last_served = 0;

  Instant start_wait = std::chrono::seconds(30);
  Instant retry_delay = std::chrono::milliseconds(250);  // between connection attempts
  Instant propose_delay = std::chrono::seconds(1);       // before a refused proposal is made again
  Instant peer_timeout = std::chrono::seconds(20);       // a silent member counts as lost; 0: never
  Instant source_retry_limit = std::chrono::seconds(2);  // the longest pause before a standby connects again
  Instant source_poll = std::chrono::seconds(2);         // how often a standby asks for the chain
  Instant ask_wait = std::chrono::seconds(2);            // for members asked whether we are superseded
  Instant handover_wait = std::chrono::milliseconds(250);  // of a move, for what the source left unsettled
  Instant clear_interval = std::chrono::seconds(30);  // between clearings of cold dirty regions; 0: never
  Instant freeze_limit = std::chrono::seconds(60);    // a freeze thaws by itself after this
  std::uint32_t max_operations = 1024;                // admitted at once; above: refused with ENOMEM
  // Payload held, of reads too; above: wants_requests() is false. While writes cannot be acknowledged the
  // second one holds, so that those that wait do not keep reads out at once.
  std::uint64_t soft_bytes = 4ull << 20;
  std::uint64_t stalled_bytes = 64ull << 20;
};

// ---- clients ----

enum class ClientOp : std::uint8_t { read, write, flush, trim, write_zeroes, block_status };

struct ClientRequest {
  std::uint64_t connection = 0;
  std::uint64_t cookie = 0;  // unique on its connection while in flight
  ClientOp op = ClientOp::read;
  bool fua = false;
  bool no_hole = false;
  bool fast_zero = false;
  bool forwarded = false;  // of a standby: `connection` is a forwarding session
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  Slice payload;  // write
};

struct ClientReply {
  std::uint64_t connection = 0;
  std::uint64_t cookie = 0;
  ClientOp op = ClientOp::read;
  std::uint32_t error = 0;  // errno as NBD defines it
  Slice payload;            // read
  std::vector<BlockStatus> extents;
};

// ---- commands of the controller ----

struct SnapshotCreate {
  std::string name;
  std::string created;
  std::map<std::string, std::string> labels;
  bool user_created = false;
};
struct SnapshotMarkRemoved {
  std::string name;
};
struct SnapshotPurge {  // merges one snapshot that is marked removed; ends when all members are done
  std::string name;
};
struct SnapshotRevert {
  std::string name;
};
struct Freeze {
  Instant limit{0};  // 0: Config::freeze_limit
};
struct Thaw {};
struct AddMember {  // joins as WO: it takes live writes until a rebuild makes it whole
  MemberConfig member;
};
struct RemoveMember {
  std::string name;
};
struct MemberMoved {  // it listens elsewhere; of use while it is awaited
  std::string name;
  std::string address;
};
struct Shutdown {
  bool force = false;  // do not wait for what cannot be acknowledged
};
// The Grant as it is now, for an engine that begins again. A member that the engine knows needs no address.
struct GrantView {
  std::vector<MemberConfig> members;
  Generation generation = 0;
  std::optional<std::string> export_id;  // none: as before
};
// Standby: take over, as if a client had written.
struct Activate {};
// The Grant names this standby active under `epoch`. Without a view of it (by hand) all members must answer.
struct ActivateConfirm {
  Epoch epoch = 0;
  std::optional<GrantView> grant;
};
// It never will be.
struct ActivateRefuse {
  std::string message;
};
struct StandbyUpdate {
  Epoch epoch = 0;                    // 0: as before
  std::optional<std::string> source;  // none: as before
};
// While on, being superseded keeps clients and their requests.
struct HoldClients {
  bool on = false;
};
// Rollback: go on under this epoch, which is above all that were granted.
struct TakeEpoch {
  Epoch epoch = 0;
  std::optional<GrantView> grant;
  Epoch last_served = 0;  // for a process that has not served itself
};
using Command = std::variant<SnapshotCreate, SnapshotMarkRemoved, SnapshotPurge, SnapshotRevert, Freeze, Thaw,
                             AddMember, RemoveMember, MemberMoved, Shutdown, Activate, ActivateConfirm,
                             ActivateRefuse, StandbyUpdate, HoldClients, TakeEpoch>;

// ---- events ----

struct Started {};
struct Tick {};
struct PeerConnected {
  MemberIndex member = 0;
  SessionId session = 0;
  HelloAnswer answer;
  std::string export_id;  // kSourceLink only
};
// The connection could not be made (reason none) or HELLO was refused.
struct PeerRefused {
  MemberIndex member = 0;
  SessionId session = 0;
  PeerRefusal reason = PeerRefusal::none;
  std::string message;
};
// A connection that had answered HELLO has ended; reason: the replica's last word.
struct PeerLost {
  MemberIndex member = 0;
  SessionId session = 0;
  PeerRefusal reason = PeerRefusal::none;
  std::string message;
};
struct PeerReplied {
  MemberIndex member = 0;
  SessionId session = 0;
  PeerReply reply;
  Slice payload;
};
struct ClientRequested {
  ClientRequest request;
};
struct ClientClosed {
  std::uint64_t connection = 0;
};
// A standby connects to us, the active engine; answered with ForwardAccept or ForwardRefuse.
struct ForwardOpened {
  std::uint64_t connection = 0;
  Hello hello;
};
struct ForwardRequested {
  std::uint64_t connection = 0;
  PeerRequest request;
};
struct ForwardClosed {
  std::uint64_t connection = 0;
};
struct MembershipConfirmed {
  std::uint64_t proposal = 0;
};
// Not committed and never will be: the engine proposes again later, as long as it has to.
struct MembershipRefused {
  std::uint64_t proposal = 0;
  std::string message;
};
// The Grant names another engine, or another epoch. Given an epoch, it is about that one: an answer to a
// proposal may come when this engine has taken a newer epoch since.
struct Superseded {
  std::string message;
  Epoch epoch = 0;
};
struct Commanded {
  std::uint64_t id = 0;
  Command command;
};
using Event = std::variant<Started, Tick, PeerConnected, PeerRefused, PeerLost, PeerReplied, ClientRequested,
                           ClientClosed, ForwardOpened, ForwardRequested, ForwardClosed, MembershipConfirmed,
                           MembershipRefused, Superseded, Commanded>;

// ---- actions ----

// Open a new connection with this HELLO. Any earlier connection to the member has been disconnected before.
struct Connect {
  MemberIndex member = 0;
  Hello hello;
};
struct SendPeer {
  MemberIndex member = 0;
  SessionId session = 0;
  PeerRequest request;
  Slice payload;
};
struct Disconnect {
  MemberIndex member = 0;
  SessionId session = 0;
};
struct ReplyClient {
  ClientReply reply;
};
// Commit this in the Grant, under our epoch and on top of generation `base`; answer with MembershipConfirmed,
// MembershipRefused or Superseded. Committing it twice is as good as once.
struct Propose {
  std::uint64_t proposal = 0;
  Generation base = 0;
  Membership next;
  std::string reason;
  Epoch epoch = 0;  // under which it is asked for
};
// Let clients in: the start rule is done, or a standby knows what it stands for. May come again.
struct Serve {
  // Sessions that were opened under another id must not go on: unflushed writes may be gone since.
  std::string export_id;
  std::uint64_t size = 0;
  bool fresh_export = false;   // this start has a new export id: it found no continuous member, or
  bool missed_writes = false;  // another engine has written since clients were last served
  bool standby = false;        // not activated yet
};
// Close every client connection after what was replied to it.
struct EndSessions {
  bool reopen = false;  // new ones may come, under the Serve that follows
};
struct ForwardAccept {
  std::uint64_t connection = 0;
  HelloAnswer answer;  // size, generation and chain; nothing of one member
  std::string export_id;
};
struct ForwardRefuse {
  std::uint64_t connection = 0;
  PeerRefusal reason = PeerRefusal::none;
  std::string message;
};
struct ForwardReply {
  std::uint64_t connection = 0;
  PeerOp op = PeerOp::read;
  PeerReply reply;
  Slice payload;
};
// Say why, then close; nothing else follows for it.
struct ForwardEnd {
  std::uint64_t connection = 0;
  PeerRefusal reason = PeerRefusal::none;
  std::string message;
};
// The standby must be named active in the Grant; answer with ActivateConfirm or ActivateRefuse. Said again
// when its epoch has changed.
struct WantActivation {
  Epoch epoch = 0;
  std::string reason;
};
struct CommandDone {
  std::uint64_t id = 0;
  std::uint32_t error = 0;  // errno; 0: done
  std::string message;
};
enum class ExitReason : std::uint8_t {
  drained,     // asked to, everything acknowledged is synced on all members
  forced,      // asked to, at once
  superseded,  // another engine holds the volume
  faulted,     // the last RW member is lost; the start rule brings the volume back
  refused,     // a standby that will never be activated
};
struct Exit {
  ExitReason reason = ExitReason::drained;
  std::string message;
};
struct Note {  // for the log and as an event of the control protocol
  bool warning = false;
  std::string text;
};
using Action =
    std::variant<Connect, SendPeer, Disconnect, ReplyClient, Propose, Serve, EndSessions, ForwardAccept,
                 ForwardRefuse, ForwardReply, ForwardEnd, WantActivation, CommandDone, Exit, Note>;
using Actions = std::vector<Action>;

// ---- what people and controllers see ----

enum class State : std::uint8_t {
  standby,     // forwards reads to the active engine; acknowledges nothing
  starting,    // the start rule is under way
  serving,     // acknowledges
  stalled,     // a member is lost and the Grant does not say so yet: reads only, none without an RW member
  superseded,  // fenced; silent
  ended,
};
std::string_view to_string(State state);
std::string_view to_string(MemberMode mode);
std::string_view to_string(ExitReason reason);

struct MemberStatus {
  MemberConfig config;
  MemberMode mode = MemberMode::rw;
  bool connected = false;
  bool leaving = false;  // lost, ERR is proposed
  std::string problem;
  const MemberStats* stats = nullptr;
};

struct StandbyStatus {
  bool ready = false;  // the link to the source is up and its chain known
  std::string source;
  std::string problem;                    // of the link
  std::optional<std::string> activation;  // wanted, and why
};

struct Status {
  State state = State::starting;
  Epoch epoch = 0;
  bool holding = false;                  // when superseded it keeps, or does keep, its clients
  std::size_t forwards = 0;              // standbys that read through us
  std::optional<StandbyStatus> standby;  // until activated
  std::string detail;                    // what it waits for, in words
  bool frozen = false;
  std::uint64_t size = 0;
  Membership membership;
  std::vector<MemberStatus> members;
  std::vector<Layer> chain;
  std::string head_id;
  std::uint64_t resync_done_bytes = 0;
  std::uint64_t resync_total_bytes = 0;
  std::size_t operations = 0;
  std::size_t dirty_regions = 0;
  std::optional<std::uint64_t> open_proposal;
  const EngineStats* stats = nullptr;
};

class Machine;  // engine_machine.h

class Engine {
 public:
  // `pool` serves the resync's buffers and outlives the engine. Throws nothing; a config with more than
  // kMaxMembers members or none is the caller's mistake and asserted.
  Engine(Config config, BufferPool& pool);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Appends to `actions`.
  void step(Event event, Instant now, Actions& actions);
  // When to send a Tick at the latest, if at all.
  std::optional<Instant> next_wake() const;
  // False: read no more from clients for now (too much payload is held).
  bool wants_requests() const;
  Status status() const;
  // Valid until the next AddMember.
  const MemberConfig& member(MemberIndex index) const;
  // The change that waits for the Grant, for a controller that reconnects.
  const Propose* open_proposal() const;

 private:
  std::unique_ptr<Machine> machine_;
};

}  // namespace moor::block::engine
