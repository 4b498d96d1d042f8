// The inside of Engine, shared by its engine_*.cc files and by nobody else. Each event changes the state and
// queues what follows from it; settle() then works the queues off, so that no handler runs inside another one
// (losing a member in the middle of a loop over members would otherwise be the normal case).
//
//   engine.cc            events in, settle(), status
//   engine_members.cc    connections, loss of a member, timeouts
//   engine_question.cc   the last RW member is lost: fault or superseded?
//   engine_io.cc         client requests: admission, dispatch, completion, acknowledgement
//   engine_membership.cc the degraded rule: proposals, stored generations, the gate; add and remove
//   engine_start.cc      the start rule, stage by stage
//   engine_resync.cc     making regions equal
//   engine_chain.cc      snapshots, freeze
//   engine_dirty.cc      clearing of the dirty-region log, shutdown
//
//   engine_standby.cc    the destination of a move: forwards reads, holds the rest, is activated
//   engine_forward.cc    the source of a move: reads of its standby
//   engine_take.cc       the source of a move: held when superseded, goes on under a new epoch
//
// Room for what comes later: a rebuild copies to a WO member and then proposes RW in membership_step().
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "block/core/engine.h"
#include "block/core/engine_operations.h"
#include "block/core/engine_regions.h"
#include "block/core/engine_start_rule.h"

namespace moor::block::engine {

enum class Link : std::uint8_t { none, connecting, up };

struct Member {
  MemberConfig config;
  MemberMode mode = MemberMode::rw;
  Link link = Link::none;
  SessionId session = 0;
  HelloAnswer answer;                 // as of HELLO
  std::optional<Epoch> first_served;  // what it answered before our own mark
  bool leaving = false;               // lost: nothing is acknowledged until the Grant says ERR
  bool wordless = false;              // lost without a last word since the gate closed
  bool gone = false;                  // no longer in the Grant; the index stays taken
  bool given_up = false;              // failed during the start: not asked again by this process
  bool joining = false;               // added, not yet WO in the Grant
  bool prepared = false;              // joining: has stored that it is being rebuilt
  std::optional<std::uint64_t> add_command;
  std::optional<std::uint64_t> remove_command;
  std::uint32_t start_losses = 0;
  Instant retry_at{0};
  Instant connect_since{0};
  std::string problem;
  std::uint32_t reads_in_flight = 0;
  MemberStats stats;
};

enum class Stage : std::uint8_t {
  standby,  // not activated: the members have not heard of us
  gathering,
  committing,
  storing,
  repairing,
  resyncing,
  flushing,
  clearing,
  marking,
  serving,
  asking,  // the last RW member is lost: are we superseded? Only queues requests; ends in one of the next two
  superseded,
  ended,
};

enum class ChainStage : std::uint8_t {
  waiting,
  draining,
  flushing,
  settling,
  telling,
  purging,  // members merge in the background; their chains are polled
  committing,
};

struct ChainJob {
  std::uint64_t command = 0;
  PeerOp op = PeerOp::snapshot_create;
  SnapshotCommand snapshot;
  ChainStage stage = ChainStage::waiting;
  std::uint32_t error = 0;
  std::string message;
  // Purging takes long and changes no bytes a reader sees: members may come and go meanwhile.
  bool freezes_writes() const { return op == PeerOp::snapshot_create || op == PeerOp::snapshot_revert; }
  bool freezes_reads() const { return op == PeerOp::snapshot_revert; }
};

struct ResyncChunk {
  Extent extent;
  std::vector<Slice> bytes;  // by member index
  std::uint32_t writes = 0;
  bool busy = false;
};

struct Resync {
  bool active = false;
  bool broken = false;  // a member of it was lost: finish what is in flight, then begin again
  MemberIndex source = 0;
  MemberMask targets = 0;
  std::vector<Extent> extents;
  std::size_t next_extent = 0;
  std::uint64_t next_offset = 0;  // in that extent
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::vector<ResyncChunk> chunks;
};

// A standby's connection to the active engine.
struct SourceLink {
  MemberConfig config;  // only its address means something
  Link link = Link::none;
  SessionId session = 0;
  Instant retry_at{0};
  Instant connect_since{0};
  Instant poll_at{0};
  std::uint32_t failures = 0;  // since it was last up
  std::string problem;
};

enum Hold : std::uint8_t { kHoldCommand = 1, kHoldChain = 2, kHoldChainReads = 4, kHoldShutdown = 8 };

class Machine {
 public:
  Machine(Config config, BufferPool& pool);
  void step(Event event, Instant now, Actions& actions);
  std::optional<Instant> next_wake() const;
  bool wants_requests() const;
  Status status() const;
  const MemberConfig& member(MemberIndex index) const {
    return index == kSourceLink ? source_.config : members_.at(index).config;
  }
  const Propose* open_proposal() const { return proposal_ ? &*proposal_ : nullptr; }

 private:
  // engine.cc
  void handle(Started&&);
  void handle(Tick&&);
  void handle(PeerConnected&& event);
  void handle(PeerRefused&& event);
  void handle(PeerLost&& event);
  void handle(PeerReplied&& event);
  void handle(ClientRequested&& event);
  void handle(ClientClosed&& event);
  void handle(ForwardOpened&& event);
  void handle(ForwardRequested&& event);
  void handle(ForwardClosed&& event);
  void handle(MembershipConfirmed&& event);
  void handle(MembershipRefused&& event);
  void handle(Superseded&& event);
  void handle(Commanded&& event);
  void settle();
  void complete(Operation& operation);
  void act(Action action) { out_->push_back(std::move(action)); }
  void note(bool warning, std::string text) { act(Note{warning, std::move(text)}); }
  void command_done(std::uint64_t id, std::uint32_t error, std::string message = {});
  std::string detail() const;

  // engine_members.cc
  bool current(MemberIndex member, SessionId session) const;
  void connect(MemberIndex index);
  Hello hello(SessionId session, HelloMode mode) const;
  void disconnect(MemberIndex index, std::string problem);
  void lose(MemberIndex index, const std::string& why);
  void forget_outstanding(MemberIndex index);
  void connect_due();
  void check_timeouts();
  MemberMask readers() const;  // RW and connected
  MemberMask writers() const;  // RW or WO and connected
  bool all_rw() const;
  void send(MemberIndex index, PeerRequest request, Slice payload);
  Operation& broadcast(OpKind kind, MemberMask to, const PeerRequest& request);
  std::string names(MemberMask mask) const;
  template <class F>
  static void each(MemberMask mask, F&& callback) {
    for (MemberIndex i = 0; mask != 0; ++i, mask >>= 1) {
      if ((mask & 1) != 0) callback(i);
    }
  }

  // engine_question.cc
  void ask(const std::string& why);
  void answered(MemberIndex index, const std::string& what);
  void check_question();
  void fault(const std::string& why);
  void become_superseded(const std::string& why);

  // engine_io.cc
  void admit(ClientRequest request);
  bool held(const ClientRequest& request) const;
  std::uint32_t refusal(const ClientRequest& request) const;
  void admit_held();
  void dispatch(Operation& operation);
  void dispatch_read(Operation& operation);
  MemberIndex choose_reader(MemberMask from);
  void complete_client(Operation& operation);
  void complete_read(Operation& operation);
  void complete_change(Operation& operation);
  void finish(Operation& operation, std::uint32_t error);
  void reply(const ClientRequest& request, std::uint32_t error, Slice payload = {},
             std::vector<BlockStatus> extents = {});
  void release_parked();
  void count_member(MemberIndex index, const Operation& operation, bool failed);

  // engine_standby.cc
  void begin_standby();
  void connect_source();
  void drop_source(const std::string& why);
  void source_connected(PeerConnected&& event);
  void source_refused(const PeerRefused& event);
  void source_lost(const PeerLost& event);
  void source_replied(PeerReplied&& event);
  void standby_request(ClientRequest request);
  void forward(ClientRequest request);
  void forward_held();
  void take_back_forwards();
  void standby_tick();
  std::optional<Instant> standby_wake() const;
  void want_activation(std::string reason);
  bool standby_command(std::uint64_t id, Command& command);
  void confirm_activation(std::uint64_t id, ActivateConfirm& confirm);
  void update_standby(std::uint64_t id, StandbyUpdate& update);
  void use_epoch(Epoch epoch);
  void ask_for_handover();
  std::optional<std::vector<Extent>> unsettled_extents() const;

  // engine_forward.cc
  HelloAnswer forward_answer() const;
  void hand_over();
  void tell_unsettled(std::uint64_t connection, std::uint64_t request);
  void end_forwards(PeerRefusal reason, const std::string& why);
  void forget_forward(std::uint64_t connection);

  // engine_take.cc
  std::optional<std::string> cannot_adopt(const GrantView& grant) const;
  void adopt(const GrantView& grant);
  void hold_clients(std::uint64_t id, bool on);
  void take_epoch(std::uint64_t id, TakeEpoch& take);
  void abandon_jobs();
  void forget_answers();
  void resend();
  void look_for_foreign_writes();
  void fail_clients(std::uint32_t error);

  // engine_membership.cc
  bool acknowledging() const { return stage_ == Stage::serving && !gate_closed_since_; }
  bool settled() const { return acknowledging() && !proposal_ && !storing_ && !bump_wanted_; }
  void close_gate();
  void membership_step();
  void propose(Membership next, std::string reason);
  void confirmed();
  void complete_store(Operation& operation);
  void complete_set_rebuilding(Operation& operation);
  void add_member(std::uint64_t command, AddMember add);
  void remove_member(std::uint64_t command, const RemoveMember& remove);
  void member_moved(std::uint64_t command, const MemberMoved& moved);

  // engine_start.cc
  void begin_start();
  void member_answered(MemberIndex index);
  void lose_in_start(MemberIndex index, const std::string& why, bool give_up);
  bool awaited(const Member& member) const;
  bool window_complete();
  void start_step();
  bool make_plan();
  void enter(Stage stage);
  void serve();
  void time_stage();
  void resync_for_start();
  MemberMask holders(Generation generation) const;
  void store_wrote();
  std::size_t start_operations() const;
  void complete_start(Operation& operation);

  // engine_resync.cc
  void begin_resync(MemberIndex source, MemberMask targets, std::vector<Extent> extents);
  void pump_resync();
  void repair_step();
  bool resync_done() const;
  void complete_resync_read(Operation& operation);
  void complete_resync_write(Operation& operation);
  void write_differences(std::uint32_t chunk, MemberIndex target);
  void resync_failed(const Operation& operation);

  // engine_chain.cc
  void add_chain_job(std::uint64_t command, PeerOp op, SnapshotCommand snapshot);
  void chain_step();
  bool check_chain_job(ChainJob& job) const;
  void name_identities(ChainJob& job);
  void tell_members(ChainJob& job);
  void complete_chain_change(Operation& operation);
  void chain_changed(ChainJob& job);
  void poll_purge(ChainJob& job);
  void complete_chain_state(Operation& operation);
  void end_chain_job();
  void freeze(std::uint64_t command, Instant limit);
  void freeze_step();
  void thaw(std::string_view why);

  // engine_dirty.cc
  void clear_step();
  void flush_members(MemberMask to, FlushFor purpose);
  void complete_flush(Operation& operation);
  void begin_clear();
  void complete_clear(Operation& operation);
  void shutdown(std::uint64_t command, bool force);
  void shutdown_step();
  void leave(ExitReason reason, std::string message);

  Config config_;
  BufferPool* pool_;
  Instant now_{0};
  Actions* out_ = nullptr;
  Stage stage_ = Stage::gathering;
  Instant stage_since_{0};
  Instant start_since_{0};
  std::string start_times_;  // how long each stage of this start took, for the log
  std::deque<Member> members_;
  Operations operations_;
  std::uint64_t size_ = 0;
  std::vector<Layer> chain_;
  std::string head_id_;
  EngineStats stats_;

  // Work for settle().
  std::deque<Operation*> completed_;
  std::deque<Operation*> runnable_;
  std::deque<Operation*> parked_;
  std::deque<Operation*> repairs_;  // failed on every RW member: these are made equal before the client hears
  std::vector<Operation*> freed_;

  // Client requests.
  std::deque<ClientRequest> held_requests_;
  std::uint8_t hold_ = 0;
  std::uint8_t held_under_ = 0xff;  // the holds that held_requests_ was last looked through with
  std::size_t changes_in_flight_ = 0;
  std::uint64_t payload_bytes_ = 0;
  std::uint32_t read_turn_ = 0;

  // Moves.
  SourceLink source_;
  std::optional<std::string> wanted_;     // activation, and why
  bool activated_ = false;                // was a standby
  std::optional<Unsettled> handed_over_;  // by the engine that we took over from
  Instant handover_deadline_{0};
  bool by_handover_ = false;                                // this start compared only what was handed over
  std::optional<Serve> told_;                               // what clients know of the volume
  std::map<std::uint64_t, Epoch> forwards_;                 // sessions of standbys, with their epochs
  std::optional<Unsettled> unsettled_;                      // superseded while it served: what was under way
  std::map<std::uint64_t, std::uint64_t> unsettled_asked_;  // by session: the request to answer
  Epoch last_served_ = 0;                                   // in which clients were served
  bool foreign_writes_ = false;                             // seen since: clients missed something
  bool taken_ = false;                                      // our epoch came by TakeEpoch

  // The Grant.
  Membership membership_;
  std::optional<Propose> proposal_;
  bool proposal_bumps_ = false;
  std::uint64_t last_proposal_ = 0;
  Instant propose_at_{0};
  bool bump_wanted_ = false;  // a chain change wants the next generation committed
  bool storing_ = false;      // the members are storing a generation
  std::optional<Instant> gate_closed_since_;

  // The question after the loss of the last RW member.
  MemberMask asked_ = 0;  // not answered yet
  Instant ask_deadline_{0};
  std::string fault_why_;

  // The start.
  bool begun_ = false;
  bool nobody_yet_ = true;  // no member has answered in this window
  bool overdue_ = false;    // a window has passed with no answer at all
  Instant gather_deadline_{0};
  std::optional<StartPlan> plan_;
  Epoch start_wrote_ = 0;                   // the highest that any member has answered
  std::vector<std::uint64_t> start_dirty_;  // reported by anyone since the start began; ascending
  bool fresh_export_ = false;
  Resync resync_;

  // Snapshots and freezing.
  std::deque<ChainJob> chain_jobs_;
  std::uint64_t identities_ = 0;
  Instant poll_at_{0};
  bool polling_ = false;
  bool purge_pending_ = false;  // a member still had the layer at the last look
  bool telling_ = false;        // members are being told a change that carries a generation
  std::optional<std::uint64_t> freeze_command_;
  bool freeze_flushing_ = false;
  Instant freeze_deadline_{0};

  // The dirty-region log.
  RegionSet dirty_;   // marked on the members, as far as we know
  RegionSet recent_;  // changed since the last look
  RegionSet clearing_;
  bool clear_busy_ = false;
  Instant clear_at_{0};

  // The end.
  bool shutting_down_ = false;
  bool shutdown_flushed_ = false;
  bool shutdown_busy_ = false;
  std::vector<std::uint64_t> shutdown_commands_;
};

}  // namespace moor::block::engine
