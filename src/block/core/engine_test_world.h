// A deterministic world around the engine: members, links, a Grant, clients and faults, all from one seed.
// Messages are delivered one by one in an order that the seed picks; links break with messages in flight,
// processes die, the power goes, old engines live on beside new ones. A violation throws WorldFailure with
// what was broken.
//
// run() has three phases: load with faults, healing, and an end that reads everything back and compares
// members.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "block/core/engine_test_member.h"
#include "block/core/engine_test_model.h"

namespace moor::block::engine::test {

struct WorldFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Which faults a seed uses (swarm: each seed its own subset).
struct Swarm {
  bool cuts = false;
  bool crashes = false;
  bool power = false;
  bool total_power = false;
  bool engine_kills = false;
  bool zombies = false;
  bool refusals = false;
  bool write_errors = false;
  bool common_errors = false;  // the same write fails on every member
  bool snapshots = false;
  bool restarts = false;  // clean shutdown and start
  bool timeouts = false;
  bool lost_farewells = false;  // a fenced engine does not hear why its link ends
  bool moves = false;
  std::uint32_t members = 3;
  std::uint32_t fault_percent = 2;
};

inline constexpr Instant kAskWait = std::chrono::milliseconds(200);

struct WorldCounts {
  std::uint64_t steps = 0, acknowledged = 0, reads = 0, starts = 0, faults = 0, proposals = 0, snapshots = 0,
                fresh_starts = 0, cleared = 0, questions = 0, learned = 0, moves = 0, activations = 0,
                rollbacks = 0, undone = 0, forwarded = 0;
  void add(const WorldCounts& other);
};

class World {
 public:
  explicit World(std::uint64_t seed, bool trace = false, bool moves = false);
  ~World();
  void run();
  const WorldCounts& counts() const { return counts_; }

 private:
  struct Connection {
    std::uint64_t number = 0;
    int engine = 0;
    MemberIndex member = 0;  // kSourceLink: to engine `source`
    int source = 0;
    Hello hello;
    bool engine_open = true;   // the engine's end
    bool member_open = false;  // HELLO accepted and not closed
    bool hello_pending = true;
    bool ended = false;                                 // the engine has been told the end
    bool heard = false;                                 // kSourceLink: has seen the answer to its HELLO
    std::deque<std::pair<PeerRequest, Slice>> inbox;    // sent, not read by the member
    std::deque<std::pair<PeerRequest, Slice>> working;  // read, not done
    std::deque<Event> outbox;                           // to the engine
  };
  struct Host {
    int id = 0;
    Epoch epoch = 0;
    std::unique_ptr<Engine> engine;
    bool alive = true;
    bool serving = false;
    bool open = false;     // takes clients: serving, or a standby that knows its source
    bool standby = false;  // not activated
    bool holding = false;
    bool leaving = false;
    int life = 0;                        // of its clients' sessions
    std::uint64_t life_began = 0;        // no other engine's client has written since, or this life must end
    std::optional<Epoch> wants;          // to be activated
    int read_through = 0;                // standby: the engine that it was last connected to
    std::map<MemberIndex, bool> fenced;  // by a newer engine, and lost without a word
    std::map<MemberIndex, bool> asked;   // whether it was superseded; true: answered
    std::map<MemberIndex, bool> told;    // answered that there is a newer engine
    Instant asked_at{0};
    std::map<std::string, bool> lost;       // seen lost, ERR not confirmed
    std::map<MemberIndex, bool> reachable;  // continuous and reachable since this engine began
    std::deque<Propose> to_grant;
    std::deque<Event> from_grant;                   // and commands of the controller
    std::map<std::uint64_t, std::string> commands;  // open
    std::map<std::uint64_t, Membership> proposed;
  };
  struct Request {
    int engine = 0;
    ClientOp op = ClientOp::read;
    std::uint64_t sector = 0, count = 0, uid = 0, submitted = 0;
    std::uint64_t first_value = 0;
    int life = 0;
    bool fua = false;
    std::vector<SectorModel::Entries> before;  // read
  };

  // engine_test_world.cc
  [[noreturn]] void fail(const std::string& text) const;
  void log(const std::string& text) const;
  bool chance(std::uint32_t percent) { return rng_() % 100 < percent; }
  std::uint64_t pick(std::uint64_t below) { return rng_() % below; }
  void start_engine();
  void kill(Host& host);
  Host* active();
  void feed(Host& host, Event event);
  void perform(Host& host, Actions& actions);
  void perform_one(Host& host, Action& action);
  bool step(bool faults);
  bool deliver_one();
  bool work_one(Connection& connection);
  void read_hello(Connection& connection);
  void grant_one(Host& host);
  void advance();
  void close_member_side(Connection& connection, PeerRefusal reason, bool keep_replies);
  void sweep();

  // engine_test_moves.cc
  void move_step();
  void begin_move();
  void replace_source();
  void roll_back_move();
  void end_move();
  void grant_activation(Host& host);
  GrantView grant_view() const;
  Epoch next_epoch() { return ++highest_epoch_; }
  Config config_of(Host& host);
  void begins_again(Host& host, Epoch epoch);
  void on_command(Host& host, const Command& command);
  void connect_source(Host& host, Connect& connect);
  void deliver_to_source(Connection& connection);
  bool perform_forward(Host& host, Action& action);
  void cut_source_link(Connection& connection);
  void on_client_write(Host& host, const FakeMember& member, std::uint64_t sector, std::uint64_t value);
  Host* host_of(int id) { return id == 0 ? nullptr : hosts_[static_cast<std::size_t>(id) - 1].get(); }
  bool is_held(const Request& request) const;

  // engine_test_load.cc
  void submit();
  void submit_write(Host& host, Request request, ClientRequest out);
  void command(Host& host);
  void fault();
  void stop_member(MemberIndex index, bool power);
  void on_reply(Host& host, const ClientReply& reply);
  void on_acknowledged(Host& host, const Request& request);
  void on_read(const Request& request, const ClientReply& reply);
  void on_serve(Host& host, const Serve& serve);
  void on_question(Host& host, MemberIndex member);
  void on_fault(const Host& host) const;
  void on_command_done(Host& host, const CommandDone& done);
  void check_clean_regions() const;
  void check_layers() const;
  void heal();
  void finish();
  std::vector<FakeMember*> rw_members() const;

  std::uint64_t seed_;
  bool trace_;
  Rng rng_;
  Swarm swarm_;
  BufferPool pool_;
  std::uint64_t size_ = 0;
  std::uint64_t clock_ = 0;  // steps; also the time in milliseconds, plus jumps
  Instant now_{0};
  std::vector<std::unique_ptr<FakeMember>> members_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<std::uint64_t, Request> requests_;  // by cookie
  std::vector<SectorModel> sectors_;
  Membership grant_;
  Epoch grant_epoch_ = 0;    // of the active engine
  Epoch highest_epoch_ = 0;  // ever granted
  int holder_ = 0;           // the active engine
  int standby_ = 0;          // named in the Grant
  int source_ = 0;           // of the move that is recorded
  int destination_ = 0;
  Epoch standby_epoch_ = 0;
  std::uint64_t connections_made_ = 0;
  struct Writer {
    int engine = 0;
    std::uint64_t cookie = 0;
    int life = 0;
  };
  std::map<std::uint64_t, Writer> writers_;         // of every value
  std::map<int, std::uint64_t> last_client_write_;  // by engine: when one was last applied
  bool grant_lost_member_ = false;                  // the last change set a member ERR
  std::uint64_t next_ = 1;                          // values, cookies, uids, commands
  std::map<std::uint64_t, std::uint64_t> reverts_;  // command → uid
  std::uint64_t snapshot_number_ = 0;
  std::vector<std::string> snapshots_;
  std::string served_export_;
  WorldCounts counts_;
};

}  // namespace moor::block::engine::test
