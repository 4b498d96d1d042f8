// Moves in the world: a controller that starts, activates, rolls back and confirms them at any moment, the
// link between the two engines, and the judge of who may write after whom.
#include <fmt/format.h>

#include "block/core/engine_test_world.h"

namespace moor::block::engine::test {

GrantView World::grant_view() const {
  GrantView view;
  view.generation = grant_.generation;
  view.export_id = grant_.export_id;
  for (const auto& [name, mode] : grant_.members) {
    MemberConfig member;
    member.name = name;
    member.mode = mode;
    view.members.push_back(std::move(member));
  }
  return view;
}

// A request whose engine may still send it: it waits there for an activation or a rollback.
bool World::is_held(const Request& request) const {
  const Host& host = *hosts_[static_cast<std::size_t>(request.engine) - 1];
  return host.alive && (host.id == holder_ || host.standby || host.holding);
}

void World::begin_move() {
  ++counts_.moves;
  source_ = holder_;
  feed(*host_of(source_), Commanded{next_++, HoldClients{true}});
  auto host = std::make_unique<Host>();
  host->id = static_cast<int>(hosts_.size()) + 1;
  host->epoch = standby_epoch_ = next_epoch();
  host->standby = true;
  standby_ = destination_ = host->id;
  Config config = config_of(*host);
  config.standby = true;
  config.source = std::to_string(source_);
  config.source_poll = std::chrono::milliseconds(50);
  log(fmt::format("a move from engine {} to engine {} with epoch {}", source_, host->id, host->epoch));
  host->engine = std::make_unique<Engine>(std::move(config), pool_);
  hosts_.push_back(std::move(host));
  feed(*hosts_.back(), Started{});
}

// The source's process has died and its node lives: the next epoch for it, and one above that for the
// standby.
void World::replace_source() {
  auto host = std::make_unique<Host>();
  host->id = static_cast<int>(hosts_.size()) + 1;
  host->epoch = grant_epoch_ = next_epoch();
  host->holding = true;
  holder_ = source_ = host->id;
  ++counts_.starts;
  Config config = config_of(*host);
  config.hold_when_superseded = true;
  log(fmt::format("engine {} starts as the source of the move with epoch {}", host->id, host->epoch));
  host->engine = std::make_unique<Engine>(std::move(config), pool_);
  hosts_.push_back(std::move(host));
  standby_epoch_ = next_epoch();
  host_of(destination_)
      ->from_grant.push_back(Commanded{next_++, StandbyUpdate{standby_epoch_, std::to_string(source_)}});
  feed(*hosts_.back(), Started{});
}

void World::grant_activation(Host& host) {
  if (standby_ != host.id) {
    host.from_grant.push_back(Commanded{next_++, ActivateRefuse{"the Grant names another engine"}});
    host.wants.reset();
    return;
  }
  if (host.wants && *host.wants != standby_epoch_) return;  // an update is under way to it
  ++counts_.activations;
  holder_ = host.id;
  grant_epoch_ = standby_epoch_;
  standby_ = 0;
  log(fmt::format("the Grant names engine {} active with epoch {}", host.id, grant_epoch_));
  const ActivateConfirm confirm{grant_epoch_, grant_view()};
  host.from_grant.push_back(Commanded{next_++, confirm});
  if (chance(20)) host.from_grant.push_back(Commanded{next_++, confirm});
}

void World::roll_back_move() {
  Host& source = *host_of(source_);
  Host& destination = *host_of(destination_);
  ++counts_.rollbacks;
  if (holder_ == source_ && standby_ == 0) return;
  const bool activated = holder_ == destination_;
  counts_.undone += activated ? 1 : 0;
  holder_ = source_;
  grant_epoch_ = next_epoch();
  standby_ = 0;
  log(fmt::format("rollback to engine {} with epoch {}", source_, grant_epoch_));
  source.from_grant.push_back(Commanded{next_++, TakeEpoch{grant_epoch_, grant_view(), 0}});
  source.from_grant.push_back(Commanded{next_++, HoldClients{false}});
  if (destination.alive && chance(50)) {  // else it lives on and must learn it from the members
    if (activated) {
      destination.from_grant.push_back(Superseded{"rolled back"});
    } else {
      destination.from_grant.push_back(Commanded{next_++, ActivateRefuse{"rolled back"}});
    }
  }
  source_ = destination_ = 0;
}

// Confirmed, or given up before the activation.
void World::end_move() {
  if (source_ == 0) return;
  log("the move ends");
  if (Host* source = host_of(source_); source->alive) {
    source->from_grant.push_back(Commanded{next_++, HoldClients{false}});
  }
  if (Host* destination = host_of(destination_); destination->alive && holder_ != destination_) {
    destination->from_grant.push_back(Commanded{next_++, ActivateRefuse{"given up"}});
  }
  standby_ = source_ = destination_ = 0;
}

void World::move_step() {
  if (source_ == 0) {
    Host* host = active();
    if (host != nullptr && host->serving && !host->leaving && pick(100) < 4) begin_move();
    return;
  }
  Host& source = *host_of(source_);
  Host& destination = *host_of(destination_);
  const bool activated = holder_ == destination_;
  if (!source.alive && !destination.alive) return end_move();
  if (!source.alive && !activated && chance(10)) {
    if (chance(50)) return replace_source();
    return grant_activation(destination);  // its node is dead: activated with the fence as proof
  }
  if (!destination.alive && chance(10)) {
    if (source.alive && chance(70)) return roll_back_move();
    return end_move();
  }
  if (destination.alive && destination.wants && chance(10)) return grant_activation(destination);
  switch (pick(150)) {
    case 0:
      if (swarm_.engine_kills && source.alive) kill(source);
      break;
    case 1:
      if (swarm_.engine_kills && destination.alive) kill(destination);
      break;
    case 2:
      if (source.alive) roll_back_move();
      break;
    case 3:
      if (activated || chance(20)) end_move();
      break;
    case 4:
      if (destination.alive && destination.open && !activated)
        feed(destination, Commanded{next_++, Activate{}});
      break;
    case 5:
      for (auto& connection : connections_) {
        if (connection->member == kSourceLink && connection->engine == destination_)
          cut_source_link(*connection);
      }
      break;
    default: break;
  }
}

// What the world remembers of an engine that begins again under another epoch.
void World::begins_again(Host& host, Epoch epoch) {
  host.epoch = epoch;
  host.serving = host.standby = false;
  host.lost.clear();
  host.fenced.clear();
  host.asked.clear();
  host.told.clear();
  config_of(host);  // who can be reached, as of now
}

void World::on_command(Host& host, const Command& command) {
  if (const auto* confirm = std::get_if<ActivateConfirm>(&command)) {
    if (host.standby && confirm->epoch >= host.epoch) begins_again(host, confirm->epoch);
  } else if (const auto* take = std::get_if<TakeEpoch>(&command)) {
    // One that drains refuses; the controller starts another.
    if (take->epoch > host.epoch && !host.leaving) begins_again(host, take->epoch);
  } else if (const auto* update = std::get_if<StandbyUpdate>(&command)) {
    if (host.standby && update->epoch > host.epoch) host.epoch = update->epoch;
  } else if (const auto* hold = std::get_if<HoldClients>(&command)) {
    host.holding = hold->on;
  }
}

// ---- the link between the engines ----

void World::connect_source(Host& host, Connect& connect) {
  auto connection = std::make_unique<Connection>();
  connection->number = ++connections_made_;
  connection->engine = host.id;
  connection->member = kSourceLink;
  connection->source = std::stoi(host.engine->member(kSourceLink).address);
  connection->hello = std::move(connect.hello);
  connections_.push_back(std::move(connection));
}

void World::deliver_to_source(Connection& connection) {
  Host& source = *host_of(connection.source);
  if (connection.hello_pending) {
    if (!source.alive) return cut_source_link(connection);
    connection.hello_pending = false;
    return feed(source, ForwardOpened{connection.number, connection.hello});
  }
  const bool forth = !connection.inbox.empty() && (connection.outbox.empty() || chance(50));
  if (forth) {
    const PeerRequest request = std::move(connection.inbox.front().first);
    connection.inbox.pop_front();
    if (!connection.ended) feed(source, ForwardRequested{connection.number, request});
    return;
  }
  Event event = std::move(connection.outbox.front());
  connection.outbox.pop_front();
  if (std::holds_alternative<PeerConnected>(event)) {
    connection.heard = true;
    host_of(connection.engine)->read_through = connection.source;
  }
  feed(*host_of(connection.engine), std::move(event));
}

void World::cut_source_link(Connection& connection) {
  if (connection.ended) return;
  log(fmt::format("the link of engine {} to engine {} breaks", connection.engine, connection.source));
  connection.ended = true;
  connection.inbox.clear();
  if (connection.heard) {
    while (!connection.outbox.empty() && chance(50)) connection.outbox.pop_back();
    connection.outbox.push_back(PeerLost{kSourceLink, connection.hello.session, PeerRefusal::none, ""});
  } else {
    connection.outbox.clear();
    connection.outbox.push_back(PeerRefused{kSourceLink, connection.hello.session, PeerRefusal::none, ""});
  }
  connection.hello_pending = false;
  feed(*host_of(connection.source), ForwardClosed{connection.number});
}

bool World::perform_forward(Host& host, Action& action) {
  const auto find = [&](std::uint64_t number) -> Connection* {
    for (auto& connection : connections_) {
      if (connection->number == number && !connection->ended) return connection.get();
    }
    return nullptr;
  };
  if (auto* accept = std::get_if<ForwardAccept>(&action)) {
    if (Connection* c = find(accept->connection)) {
      c->member_open = true;
      c->outbox.push_back(PeerConnected{kSourceLink, c->hello.session, accept->answer, accept->export_id});
    }
  } else if (auto* refuse = std::get_if<ForwardRefuse>(&action)) {
    if (Connection* c = find(refuse->connection)) {
      c->ended = true;
      c->outbox.push_back(PeerRefused{kSourceLink, c->hello.session, refuse->reason, refuse->message});
    }
  } else if (auto* reply = std::get_if<ForwardReply>(&action)) {
    if (Connection* c = find(reply->connection)) {
      c->outbox.push_back(
          PeerReplied{kSourceLink, c->hello.session, reply->reply, std::move(reply->payload)});
    }
  } else if (auto* end = std::get_if<ForwardEnd>(&action)) {
    if (Connection* c = find(end->connection)) {
      c->ended = true;
      c->inbox.clear();
      c->outbox.push_back(PeerLost{kSourceLink, c->hello.session, end->reason, end->message});
    }
  } else if (auto* want = std::get_if<WantActivation>(&action)) {
    host.wants = want->epoch;
  } else if (auto* sessions = std::get_if<EndSessions>(&action)) {
    if (!sessions->reopen) return true;
    for (const auto& [cookie, request] : requests_) {
      if (request.engine == host.id) fail("sessions end with a request that has no answer");
    }
    log(fmt::format("engine {}: its sessions end", host.id));
    ++host.life;
    host.life_began = 0;
  } else {
    return false;
  }
  return true;
}

// A client's write reaches a member. Its session must not have lived through another engine's writes: that
// client's cache is old, and what it sends again would undo them (S22, "Moving").
void World::on_client_write(Host& host, const FakeMember& member, std::uint64_t sector, std::uint64_t value) {
  const auto writer = writers_.find(value);
  if (writer == writers_.end() || writer->second.engine != host.id || !host.serving) return;  // a resync
  if (grant_.members.at(member.name()) != MemberMode::rw) return;
  if (writer->second.life != host.life) {
    // After a write that failed the engine makes its members equal: what one of them holds is written to all.
    for (const FakeMember* one : rw_members())
      if (one->current()[sector] == value) return;
    fail(fmt::format("write {} of an ended session is applied", value));
  }
  for (const auto& [engine, when] : last_client_write_) {
    if (engine != host.id && when > host.life_began) {
      fail(fmt::format("write {} of engine {} is applied after one of engine {}", value, host.id, engine));
    }
  }
  last_client_write_[host.id] = clock_;
}

}  // namespace moor::block::engine::test
