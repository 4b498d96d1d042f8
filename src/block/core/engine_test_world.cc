#include "block/core/engine_test_world.h"

#include <fmt/format.h>
#include <cstring>

namespace moor::block::engine::test {

void WorldCounts::add(const WorldCounts& other) {
  steps += other.steps;
  acknowledged += other.acknowledged;
  reads += other.reads;
  starts += other.starts;
  faults += other.faults;
  proposals += other.proposals;
  snapshots += other.snapshots;
  fresh_starts += other.fresh_starts;
  cleared += other.cleared;
  questions += other.questions;
  learned += other.learned;
  moves += other.moves;
  activations += other.activations;
  rollbacks += other.rollbacks;
  undone += other.undone;
  forwarded += other.forwarded;
}

World::World(std::uint64_t seed, bool trace, bool moves) : seed_(seed), trace_(trace), rng_(seed) {
  swarm_.moves = moves;
  const std::uint64_t coins = rng_();
  const auto coin = [&](int bit) { return (coins >> bit & 1) != 0; };
  swarm_.cuts = coin(0);
  swarm_.crashes = coin(1);
  swarm_.power = coin(2);
  swarm_.total_power = coin(3);
  swarm_.engine_kills = coin(4);
  swarm_.zombies = coin(5);
  swarm_.refusals = coin(6);
  swarm_.write_errors = coin(7) && coin(8);
  swarm_.common_errors = coin(9) && coin(10);
  swarm_.snapshots = coin(11);
  swarm_.restarts = coin(12);
  swarm_.timeouts = coin(13) && coin(14);
  swarm_.lost_farewells = coin(15);
  swarm_.members = 1 + static_cast<std::uint32_t>(rng_() % 4);
  if (swarm_.members == 4) swarm_.members = 3;
  swarm_.fault_percent = 1 + static_cast<std::uint32_t>(rng_() % 4);
  size_ = rng_() % 16 == 0 ? kRegionSize + 64 * 1024 : 64 * 1024;
  sectors_.resize(size_ / kSector);
  for (std::uint32_t i = 0; i < swarm_.members; ++i) {
    members_.push_back(std::make_unique<FakeMember>(fmt::format("r{}", i), size_, pool_));
    members_.back()->violation = [this](const std::string& text) { fail(text); };
    members_.back()->write_fault = [this](std::uint64_t value) {
      const bool common = swarm_.common_errors && value % 29 == 5;
      const bool own = swarm_.write_errors && pick(150) == 0;
      return std::pair(common || own, !(common || own) || chance(50));
    };
    grant_.members[members_.back()->name()] = MemberMode::rw;
  }
  grant_.export_id = "none";
}

World::~World() = default;

void World::fail(const std::string& text) const {
  throw WorldFailure(fmt::format("{} (seed {}, step {})", text, seed_, clock_));
}

void World::log(const std::string& text) const {
  if (trace_) fmt::print("{:6} {}\n", clock_, text);
}

World::Host* World::active() {
  Host* host = host_of(holder_);
  return host == nullptr || !host->alive ? nullptr : host;
}

// The controller's part: a new epoch in the Grant, then a process that has it.
void World::start_engine() {
  check_clean_regions();
  ++counts_.starts;
  auto host = std::make_unique<Host>();
  host->id = static_cast<int>(hosts_.size()) + 1;
  host->epoch = grant_epoch_ = next_epoch();
  holder_ = host->id;
  standby_ = 0;
  Config config = config_of(*host);
  log(fmt::format("engine {} starts with epoch {}", host->id, host->epoch));
  host->engine = std::make_unique<Engine>(std::move(config), pool_);
  hosts_.push_back(std::move(host));
  feed(*hosts_.back(), Started{});
}

Config World::config_of(Host& host) {
  Config config;
  config.volume = "v";
  config.epoch = host.epoch;
  config.engine = fmt::format("e{}", host.id);
  config.generation = grant_.generation;
  config.export_id = grant_.export_id;
  config.fresh_export_id = fmt::format("v-{}", host.epoch);
  config.start_wait = std::chrono::milliseconds(2000);
  config.retry_delay = std::chrono::milliseconds(20);
  config.propose_delay = std::chrono::milliseconds(20);
  config.ask_wait = kAskWait;
  config.clear_interval = std::chrono::milliseconds(60);
  config.peer_timeout = std::chrono::milliseconds(swarm_.timeouts ? 300 : 0);
  for (MemberIndex i = 0; i < members_.size(); ++i) {
    MemberConfig member;
    member.name = members_[i]->name();
    member.mode = grant_.members.at(member.name);
    member.local = seed_ % 3 == 0 && i == 1;
    config.members.push_back(member);
    host.reachable[i] = member.mode == MemberMode::rw && members_[i]->running && members_[i]->served() != 0;
  }
  return config;
}

void World::kill(Host& host) {
  log(fmt::format("engine {} is gone", host.id));
  host.alive = false;
  for (auto& connection : connections_) {
    if (connection->engine == host.id) connection->engine_open = false;
    if (connection->member == kSourceLink && connection->source == host.id) cut_source_link(*connection);
  }
  for (auto it = requests_.begin(); it != requests_.end();) {
    it = it->second.engine == host.id ? requests_.erase(it) : std::next(it);
  }
  for (SectorModel& sector : sectors_) {
    // Its own, not those of an older engine that may still have answers under way.
    for (const auto& entry : SectorModel::Entries(sector.possible())) {
      if (entry.engine == host.id) sector.end(entry.uid, clock_);
    }
  }
}

void World::feed(Host& host, Event event) {
  if (!host.alive) return;
  if (const auto* commanded = std::get_if<Commanded>(&event)) on_command(host, commanded->command);
  if (const auto* lost = std::get_if<PeerLost>(&event); lost != nullptr && lost->member != kSourceLink) {
    const std::string& name = members_[lost->member]->name();
    if (host.serving && grant_.members.at(name) == MemberMode::rw) host.lost[name] = true;
    // Fenced just after it had taken the question: no more can be learned from it.
    if (host.asked.contains(lost->member)) host.asked[lost->member] = true;
    if (host.serving && lost->reason == PeerRefusal::none &&
        members_[lost->member]->disk().floor.epoch > host.epoch) {
      host.fenced[lost->member] = true;
    }
  }
  if (const auto* refused = std::get_if<PeerRefused>(&event);
      refused != nullptr && host.serving && refused->member != kSourceLink) {
    host.asked[refused->member] = true;
    if (refused->reason != PeerRefusal::none) {  // a member that is down has no word
      host.told[refused->member] = true;
      ++counts_.learned;
    }
  }
  if (const auto* confirmed = std::get_if<MembershipConfirmed>(&event)) {
    for (const auto& [name, mode] : host.proposed[confirmed->proposal].members) {
      if (mode == MemberMode::err) host.lost.erase(name);
    }
  }
  Actions actions;
  host.engine->step(std::move(event), now_, actions);
  perform(host, actions);
}

void World::perform(Host& host, Actions& actions) {
  for (Action& action : actions) perform_one(host, action);
}

void World::perform_one(Host& host, Action& action) {
  const auto find = [&](MemberIndex member, SessionId session) -> Connection* {
    for (auto& c : connections_) {
      if (c->engine == host.id && c->member == member && c->hello.session == session) return c.get();
    }
    return nullptr;
  };
  if (perform_forward(host, action)) return;
  if (auto* connect = std::get_if<Connect>(&action)) {
    if (connect->member == kSourceLink) return connect_source(host, *connect);
    if (host.serving) on_question(host, connect->member);
    auto connection = std::make_unique<Connection>();
    connection->number = ++connections_made_;
    connection->engine = host.id;
    connection->member = connect->member;
    connection->hello = std::move(connect->hello);
    connections_.push_back(std::move(connection));
  } else if (auto* send = std::get_if<SendPeer>(&action)) {
    Connection* connection = find(send->member, send->session);
    if (connection == nullptr || !connection->engine_open) fail("a message to a connection that was closed");
    if (send->request.op == PeerOp::clear_dirty && host.epoch == grant_epoch_) {
      for (const auto& [name, mode] : grant_.members) {
        if (mode != MemberMode::rw) fail("a dirty region is cleared while " + name + " is away");
      }
    }
    connection->inbox.emplace_back(std::move(send->request), std::move(send->payload));
  } else if (auto* cut = std::get_if<Disconnect>(&action)) {
    if (Connection* connection = find(cut->member, cut->session)) {
      connection->engine_open = false;
      if (cut->member == kSourceLink) feed(*host_of(connection->source), ForwardClosed{connection->number});
    }
  } else if (auto* reply = std::get_if<ReplyClient>(&action)) {
    on_reply(host, reply->reply);
  } else if (auto* propose = std::get_if<Propose>(&action)) {
    host.proposed[propose->proposal] = propose->next;
    host.to_grant.push_back(std::move(*propose));
  } else if (auto* serve = std::get_if<Serve>(&action)) {
    on_serve(host, *serve);
  } else if (auto* done = std::get_if<CommandDone>(&action)) {
    on_command_done(host, *done);
  } else if (auto* note = std::get_if<Note>(&action)) {
    log(fmt::format("engine {}: {}", host.id, note->text));
  } else if (auto* exit = std::get_if<Exit>(&action)) {
    log(fmt::format("engine {} exits: {}", host.id, exit->message));
    if (exit->reason == ExitReason::superseded && host.epoch == grant_epoch_ && host.id == holder_) {
      fail("superseded by nobody");
    }
    if (exit->reason == ExitReason::faulted && host.serving) on_fault(host);
    if (exit->reason == ExitReason::drained && host.serving) {
      for (const auto& [cookie, request] : requests_) {
        if (request.engine == host.id) fail("a drained engine left a request without an answer");
      }
      check_clean_regions();
    }
    kill(host);
  }
}

// The member's end closes: replies already sent may still arrive, then the engine hears of it.
void World::close_member_side(Connection& connection, PeerRefusal reason, bool keep_replies) {
  connection.member_open = false;
  connection.inbox.clear();
  connection.working.clear();
  if (!keep_replies && !connection.ended) {
    while (!connection.outbox.empty() && chance(50)) connection.outbox.pop_back();
  }
  if (connection.ended) return;
  connection.ended = true;
  if (connection.hello_pending) {
    connection.outbox.push_back(PeerRefused{connection.member, connection.hello.session, reason, ""});
  } else {
    connection.outbox.push_back(PeerLost{connection.member, connection.hello.session, reason, ""});
  }
  connection.hello_pending = false;
}

void World::read_hello(Connection& connection) {
  FakeMember& member = *members_[connection.member];
  const PeerRefusal refusal = member.judge(connection.hello);
  if (refusal != PeerRefusal::none) {
    close_member_side(connection, refusal, true);
    return;
  }
  // Older connections: nothing more is read, what is being worked on is finished, then they end.
  for (auto& other : connections_) {
    if (other.get() == &connection || other->member != connection.member || !other->member_open) continue;
    other->inbox.clear();
    while (work_one(*other)) {
    }
    const bool newer = connection.hello.epoch > other->hello.epoch && !(swarm_.lost_farewells && chance(70));
    close_member_side(*other, newer ? PeerRefusal::superseded : PeerRefusal::none, false);
  }
  connection.hello_pending = false;
  connection.member_open = true;
  connection.outbox.push_back(
      PeerConnected{connection.member, connection.hello.session, member.accept(connection.hello)});
}

// One request that overlaps no earlier one, in an order of the member's own; private commands wait for all
// before.
bool World::work_one(Connection& connection) {
  const auto is_change = [](const PeerRequest& r) {
    return r.op == PeerOp::write || r.op == PeerOp::trim || r.op == PeerOp::write_zeroes;
  };
  const auto is_private = [](const PeerRequest& r) { return static_cast<std::uint16_t>(r.op) >= 0x8000; };
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < connection.working.size(); ++i) {
    const PeerRequest& mine = connection.working[i].first;
    bool waits = false;
    for (std::size_t j = 0; j < i && !waits; ++j) {
      const PeerRequest& earlier = connection.working[j].first;
      waits = is_private(mine) || is_private(earlier) ||
              ((is_change(mine) || is_change(earlier)) && mine.offset < earlier.offset + earlier.length &&
               earlier.offset < mine.offset + mine.length);
    }
    if (!waits) free.push_back(i);
  }
  if (free.empty()) return false;
  const std::size_t at = free[pick(free.size())];
  const auto [request, payload] = std::move(connection.working[at]);
  connection.working.erase(connection.working.begin() + static_cast<std::ptrdiff_t>(at));
  if (request.op == PeerOp::disconnect) {
    close_member_side(connection, PeerRefusal::none, true);
    return false;
  }
  if (request.op == PeerOp::write) {
    std::uint64_t value = 0;
    std::memcpy(&value, payload.data(), sizeof value);
    on_client_write(*host_of(connection.engine), *members_[connection.member], request.offset / kSector,
                    value);
  }
  PeerReplied replied;
  replied.member = connection.member;
  replied.session = connection.hello.session;
  replied.reply =
      members_[connection.member]->process(request, payload, connection.hello.epoch, replied.payload);
  log(fmt::format("  {} does {:#x} at {}+{} for engine {}: {}", members_[connection.member]->name(),
                  static_cast<unsigned>(request.op), request.offset / kSector, request.length / kSector,
                  connection.engine, replied.reply.error));
  connection.outbox.push_back(std::move(replied));
  return true;
}

// The Grant: compare-and-swap under the epoch; also judges the change itself.
void World::grant_one(Host& host) {
  const Propose propose = std::move(host.to_grant.front());
  host.to_grant.pop_front();
  if (propose.epoch != grant_epoch_) {
    host.from_grant.push_back(Superseded{"the Grant names another engine", propose.epoch});
    return;
  }
  if (swarm_.refusals && chance(20)) {
    host.from_grant.push_back(MembershipRefused{propose.proposal, "not now"});
    return;
  }
  ++counts_.proposals;
  if (propose.base != grant_.generation) fail("a proposal on top of another generation");
  if (propose.next.generation <= grant_.generation) fail("the generation does not rise");
  bool any_rw = false;
  grant_lost_member_ = false;
  for (const auto& [name, mode] : propose.next.members) {
    const MemberMode before = grant_.members.at(name);
    if (before == MemberMode::err && mode != MemberMode::err)
      fail("S44: " + name + " leaves ERR without a resync");
    if (before != mode) grant_lost_member_ = true;
    any_rw = any_rw || mode == MemberMode::rw;
  }
  if (!any_rw) fail("the last RW member is set ERR");
  log(fmt::format("grant: generation {}: {}", propose.next.generation, propose.reason));
  grant_ = propose.next;
  host.from_grant.push_back(MembershipConfirmed{propose.proposal});
}

bool World::deliver_one() {
  std::vector<std::function<void()>> choices;
  for (auto& pointer : connections_) {
    Connection* c = pointer.get();
    if (c->member == kSourceLink) {
      const bool busy = c->hello_pending || !c->inbox.empty() || !c->outbox.empty();
      if (busy && c->engine_open) choices.push_back([this, c] { deliver_to_source(*c); });
      continue;
    }
    FakeMember& member = *members_[c->member];
    if (c->hello_pending) {
      if (!c->engine_open) {
        c->hello_pending = chance(50);  // it may still arrive later
        c->ended = c->ended || !c->hello_pending;
        continue;
      }
      choices.push_back([this, c, &member] {
        if (member.running) {
          read_hello(*c);
        } else {
          close_member_side(*c, PeerRefusal::none, true);
        }
      });
    } else if (c->member_open) {
      if (!c->inbox.empty()) {
        choices.push_back([c] {
          c->working.push_back(std::move(c->inbox.front()));
          c->inbox.pop_front();
        });
      }
      if (!c->working.empty()) choices.push_back([this, c] { work_one(*c); });
    }
    if (!c->outbox.empty()) {
      choices.push_back([this, c] {
        Event event = std::move(c->outbox.front());
        c->outbox.pop_front();
        Host& host = *hosts_[static_cast<std::size_t>(c->engine) - 1];
        if (c->engine_open) feed(host, std::move(event));
      });
    }
  }
  for (auto& pointer : hosts_) {
    Host* host = pointer.get();
    if (!host->to_grant.empty()) choices.push_back([this, host] { grant_one(*host); });
    if (!host->from_grant.empty()) {
      choices.push_back([this, host] {
        Event event = std::move(host->from_grant.front());
        host->from_grant.pop_front();
        feed(*host, std::move(event));
      });
    }
  }
  for (auto& member : members_) {
    if (member->running && !member->disk().purging.empty())
      choices.push_back([&member] { member->background(); });
  }
  if (choices.empty()) return false;
  choices[pick(choices.size())]();
  return true;
}

void World::advance() {
  std::optional<Instant> wake;
  for (auto& host : hosts_) {
    if (!host->alive) continue;
    if (const auto at = host->engine->next_wake()) wake = wake ? std::min(*wake, *at) : *at;
  }
  if (wake) now_ = std::max(now_, *wake);
  for (std::size_t i = 0; i < hosts_.size(); ++i) feed(*hosts_[i], Tick{});
}

void World::sweep() {
  std::erase_if(connections_, [](const auto& c) {
    if (c->member == kSourceLink) return !c->engine_open;
    return !c->engine_open && !c->hello_pending &&
           (!c->member_open || (c->inbox.empty() && c->working.empty()));
  });
}

bool World::step(bool faults) {
  ++clock_;
  ++counts_.steps;
  now_ += std::chrono::milliseconds(1);
  if (clock_ % 16 == 0) {
    sweep();
    for (std::size_t i = 0; i < hosts_.size(); ++i) feed(*hosts_[i], Tick{});
  }
  if (swarm_.moves && faults) move_step();
  if (faults && active() == nullptr && source_ == 0 && chance(30)) start_engine();
  if (faults && pick(1000) < swarm_.fault_percent * 3) fault();
  if (faults && chance(25)) submit();
  if (faults && active() != nullptr && source_ == 0 && pick(100) < 1) command(*active());
  if (deliver_one()) return true;
  advance();
  return false;
}

}  // namespace moor::block::engine::test
