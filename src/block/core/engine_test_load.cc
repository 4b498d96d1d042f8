// The clients, the faults and the judges of the world.
#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <set>

#include "block/core/engine_test_world.h"

namespace moor::block::engine::test {

namespace {
constexpr std::uint64_t kLoadSteps = 900;
constexpr std::uint64_t kHealSteps = 60'000;
constexpr std::ptrdiff_t kMostRequests = 12;
}  // namespace

void World::run() {
  start_engine();
  while (clock_ < kLoadSteps) step(true);
  heal();
  finish();
}

std::vector<FakeMember*> World::rw_members() const {
  std::vector<FakeMember*> found;
  for (const auto& member : members_) {
    if (grant_.members.at(member->name()) == MemberMode::rw) found.push_back(member.get());
  }
  return found;
}

void World::submit() {
  // Any engine that serves has clients; an old one does not know that it is old.
  Host* host = hosts_[pick(hosts_.size())].get();
  if (chance(70) && active() != nullptr) host = active();
  const auto open = std::count_if(requests_.begin(), requests_.end(),
                                  [&](const auto& item) { return item.second.engine == host->id; });
  if (!host->alive || !host->open || host->leaving || open >= kMostRequests) return;
  Request request;
  request.engine = host->id;
  request.submitted = clock_;
  request.uid = next_++;
  request.life = host->life;
  request.count = 1 + pick(pick(4) == 0 ? 16 : 3);
  // Few places, so that requests meet; now and then across the border of two regions.
  const std::uint64_t top = sectors_.size() - request.count;
  request.sector =
      size_ > kRegionSize && chance(60) ? top - pick(40) : pick(std::min<std::uint64_t>(top, 24) + 1);
  ClientRequest out;
  out.connection = 1 + pick(2);
  out.cookie = next_++;
  // A standby's clients read for a while before they write.
  const std::uint64_t dice = host->standby && chance(95) ? 0 : pick(100);
  if (dice < 35) {
    request.op = ClientOp::read;
    for (std::uint64_t i = 0; i < request.count; ++i) {
      request.before.push_back(sectors_[request.sector + i].possible());
    }
  } else if (dice < 45) {
    request.op = ClientOp::flush;
    request.count = 0;
  } else if (dice < 50) {
    request.op = dice < 48 ? ClientOp::trim : ClientOp::write_zeroes;
  } else {
    request.op = ClientOp::write;
    request.fua = dice >= 95;
  }
  out.op = request.op;
  out.fua = request.fua;
  out.offset = request.sector * kSector;
  out.length = static_cast<std::uint32_t>(request.count * kSector);
  submit_write(*host, std::move(request), std::move(out));
}

void World::submit_write(Host& host, Request request, ClientRequest out) {
  if (request.op == ClientOp::write) {
    out.payload = pool_.allocate(out.length);
    std::fill(out.payload.span().begin(), out.payload.span().end(), std::byte{0});
  }
  if (request.op != ClientOp::read && request.op != ClientOp::flush) {
    request.first_value = request.op == ClientOp::write ? next_ : 0;
    for (std::uint64_t i = 0; i < request.count; ++i) {
      const std::uint64_t value = request.op == ClientOp::write ? next_++ : 0;
      if (request.op == ClientOp::write) {
        std::memcpy(out.payload.data() + i * kSector, &value, sizeof value);
        writers_[value] = {host.id, out.cookie, request.life};
      }
      const SectorModel::Entry entry{request.uid,        value, request.submitted,
                                     SectorModel::kOpen, false, request.engine};
      sectors_[request.sector + i].submit(entry);
      // A read through another engine takes its time: this may come and go before it is answered.
      for (auto& [cookie, read] : requests_) {
        const std::uint64_t at = request.sector + i;
        if (read.op != ClientOp::read || read.engine == host.id) continue;
        if (at >= read.sector && at < read.sector + read.count)
          read.before[at - read.sector].push_back(entry);
      }
    }
  }
  log(fmt::format("engine {}: client op {} sectors {}+{} value {} cookie {}", host.id,
                  static_cast<int>(request.op), request.sector, request.count, request.first_value,
                  out.cookie));
  requests_[out.cookie] = std::move(request);
  ClientRequested event;
  event.request = std::move(out);
  feed(host, std::move(event));
}

void World::command(Host& host) {
  if (!host.serving || host.leaving) return;
  Commanded event;
  event.id = next_++;
  const std::uint64_t dice = pick(100);
  if (swarm_.restarts && dice < 10) {
    host.leaving = true;
    host.commands[event.id] = "shutdown";
    event.command = Shutdown{};
  } else if (dice < 25) {
    event.command = Freeze{std::chrono::milliseconds(30 + pick(200))};
  } else if (dice < 35) {
    event.command = Thaw{};
  } else if (!swarm_.snapshots) {
    return;
  } else if (dice < 70 || snapshots_.empty()) {
    snapshots_.push_back(fmt::format("s{}", ++snapshot_number_));
    event.command = SnapshotCreate{snapshots_.back(), "", {}, true};
  } else if (dice < 80) {
    event.command = SnapshotMarkRemoved{snapshots_[pick(snapshots_.size())]};
  } else if (dice < 90) {
    event.command = SnapshotPurge{snapshots_[pick(snapshots_.size())]};
  } else {
    const std::string name = snapshots_[pick(snapshots_.size())];
    // To the client a revert is a write of everything.
    for (const FakeMember* member : rw_members()) {
      for (const Layer& layer : member->disk().chain) {
        if (layer.snapshot != name || reverts_.contains(event.id)) continue;
        const std::uint64_t uid = next_++;
        reverts_[event.id] = uid;
        const Image& image = member->disk().layers.at(layer.id);
        for (std::size_t i = 0; i < sectors_.size(); ++i) {
          sectors_[i].submit({uid, image[i], clock_, SectorModel::kOpen, false, host.id});
        }
      }
    }
    if (!reverts_.contains(event.id)) return;  // not there yet: what it would hold cannot be known
    event.command = SnapshotRevert{name};
  }
  feed(host, std::move(event));
}

void World::on_command_done(Host& host, const CommandDone& done) {
  log(fmt::format("engine {}: command {} done: {} {}", host.id, done.id, done.error, done.message));
  const auto revert = reverts_.find(done.id);
  if (revert != reverts_.end()) {
    for (SectorModel& sector : sectors_) {
      std::uint64_t submitted = 0;
      for (const auto& entry : sector.possible()) {
        if (entry.uid == revert->second) submitted = entry.submitted;
      }
      if (done.error == 0) {
        // Nothing else was in flight while it happened, but requests may have come and gone since it was
        // asked for.
        sector.acknowledge(revert->second, submitted, clock_, true);
      } else {
        sector.end(revert->second, clock_);
      }
    }
    reverts_.erase(revert);
  }
  if (done.error == 0) {
    ++counts_.snapshots;
    check_layers();
  }
}

void World::stop_member(MemberIndex index, bool power) {
  FakeMember& member = *members_[index];
  log(fmt::format("{} {}", member.name(), power ? "loses power" : "crashes"));
  for (auto& connection : connections_) {
    if (connection->member == index && connection->member_open) {
      close_member_side(*connection, PeerRefusal::none, false);
    }
  }
  if (power) {
    member.power_loss(rng_);
  } else {
    member.crash();
  }
  for (auto& host : hosts_) host->reachable[index] = false;
}

void World::fault() {
  ++counts_.faults;
  const auto index = static_cast<MemberIndex>(pick(members_.size()));
  switch (pick(8)) {
    case 0:
      if (swarm_.cuts && !connections_.empty()) {
        Connection& connection = *connections_[pick(connections_.size())];
        log(fmt::format("link of engine {} to {} breaks", connection.engine, connection.member));
        if (connection.member == kSourceLink) return cut_source_link(connection);
        hosts_[static_cast<std::size_t>(connection.engine) - 1]->reachable[connection.member] = false;
        // What the engine has sent may still be read and done; the answers are lost.
        if (!connection.ended && !connection.hello_pending) {
          connection.outbox.clear();
          connection.ended = true;
          connection.outbox.push_back(
              PeerLost{connection.member, connection.hello.session, PeerRefusal::none, ""});
        }
      }
      break;
    case 1:
      if (swarm_.crashes && members_[index]->running) stop_member(index, false);
      break;
    case 2:
      if (swarm_.power && members_[index]->running) stop_member(index, true);
      break;
    case 3:
      if (swarm_.total_power) {
        for (MemberIndex i = 0; i < members_.size(); ++i) stop_member(i, true);
        for (auto& host : hosts_) {
          if (host->alive) kill(*host);
        }
      }
      break;
    case 4:
      if (swarm_.engine_kills && active() != nullptr) kill(*active());
      break;
    case 5:
      if (swarm_.zombies && active() != nullptr && source_ == 0) start_engine();
      break;
    default:
      for (auto& member : members_) member->running = member->running || chance(70);
  }
}

void World::on_reply(Host& host, const ClientReply& reply) {
  const auto found = requests_.find(reply.cookie);
  if (found == requests_.end()) fail(fmt::format("an answer to nobody, cookie {}", reply.cookie));
  const Request request = std::move(found->second);
  requests_.erase(found);
  log(fmt::format("engine {}: reply to cookie {}: {}", host.id, reply.cookie, reply.error));
  if (reply.error == 0 && !host.asked.empty())
    fail("an answer while the engine asks whether it is superseded");
  if (request.op == ClientOp::read) {
    if (reply.error == 0) on_read(request, reply);
    return;
  }
  if (reply.error == 0) return on_acknowledged(host, request);
  for (std::uint64_t i = 0; i < request.count; ++i) sectors_[request.sector + i].end(request.uid, clock_);
}

// A connection that is opened by an engine that serves: it has lost its last RW member.
void World::on_question(Host& host, MemberIndex member) {
  ++counts_.questions;
  if (host.asked.contains(member)) fail("engine asks " + members_[member]->name() + " a second time");
  if (!host.asked.empty() && host.asked_at != now_) fail("the engine asks in a second round");
  host.asked[member] = false;
  host.asked_at = now_;
}

// A fault is the end only of an engine that could not learn that it is superseded.
void World::on_fault(const Host& host) const {
  for (const auto& [index, unheard] : host.fenced) {
    const std::string& name = members_[index]->name();
    const auto asked = host.asked.find(index);
    if (asked == host.asked.end())
      fail("faulted without asking " + name + ", which a newer engine has fenced");
    if (!asked->second && now_ < host.asked_at + kAskWait) fail("faulted before " + name + " has answered");
    if (asked->second && host.told.contains(index)) fail("faulted though " + name + " said superseded");
  }
}

void World::on_acknowledged(Host& host, const Request& request) {
  if (request.op == ClientOp::flush && host.standby) return;  // nothing was written there
  ++counts_.acknowledged;
  if (!host.lost.empty())
    fail("an acknowledgement while " + host.lost.begin()->first + " is lost and not ERR (S6)");
  if (host.epoch == grant_epoch_ && grant_lost_member_) {
    for (const FakeMember* member : rw_members()) {
      if (member->disk().generation < grant_.generation) {
        fail(fmt::format("an acknowledgement before {} has stored generation {}", member->name(),
                         grant_.generation));
      }
    }
  }
  if (request.op == ClientOp::flush) {
    for (SectorModel& sector : sectors_) sector.flushed(request.submitted);
    return;
  }
  for (std::uint64_t i = 0; i < request.count; ++i) {
    if (request.op == ClientOp::write) {
      for (const FakeMember* member : rw_members()) {
        if (!member->has_applied(request.first_value + i)) {
          fail(fmt::format("write {} is acknowledged and never was on {} (S6)", request.first_value + i,
                           member->name()));
        }
      }
    }
    if (!sectors_[request.sector + i].acknowledge(request.uid, request.submitted, clock_, request.fua)) {
      fail(
          fmt::format("write to sector {} is acknowledged after it was seen to be lost", request.sector + i));
    }
  }
}

void World::on_read(const Request& request, const ClientReply& reply) {
  ++counts_.reads;
  if (reply.payload.size() != request.count * kSector) fail("a read of another length");
  const Host* host = host_of(request.engine);
  const bool standby = host->standby;
  counts_.forwarded += standby ? 1 : 0;
  for (std::uint64_t i = 0; i < request.count; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, reply.payload.data() + i * kSector, sizeof value);
    SectorModel& sector = sectors_[request.sector + i];
    // A fenced engine on a cut-off node may still answer old reads; that is documented, not wrong. A standby
    // reads through the source of its move, which is none.
    const bool strict = request.engine == holder_ || (standby && host->read_through == holder_);
    if (!sector.allows(value) && !SectorModel::allows(request.before[i], value)) {
      if (!strict) continue;
      fail(fmt::format("sector {} reads {}, allowed are{}", request.sector + i, value, sector.describe()));
    }
    if (strict) sector.seen(value, request.submitted);
  }
}

void World::on_serve(Host& host, const Serve& serve) {
  host.open = true;
  if (serve.standby) return;
  host.serving = true;
  host.standby = false;
  // Sessions that go on after a rollback go on from where they were; all others begin now.
  if (host.life_began == 0) host.life_began = clock_;
  if (host.id != holder_) return;
  // Answers of other engines that are under way belong to writes that were done before this moment. What a
  // held engine keeps may still be sent again.
  std::set<std::uint64_t> kept;
  for (const auto& [cookie, request] : requests_) {
    if (is_held(request)) kept.insert(request.uid);
  }
  for (SectorModel& sector : sectors_) sector.end_others(kept, clock_);
  const bool lived_on =
      std::any_of(host.reachable.begin(), host.reachable.end(), [](const auto& item) { return item.second; });
  if (serve.fresh_export && !serve.missed_writes) {
    ++counts_.fresh_starts;
    for (const auto& [index, reachable] : host.reachable) {
      if (reachable)
        fail("a start without a continuous member, though " + members_[index]->name() + " is one");
    }
  }
  // The id counts, not who gave it: an engine may have died after it committed one and before it served.
  // When it only says that clients missed something, nothing may be gone.
  if (serve.export_id != served_export_ && !(serve.missed_writes && lived_on)) {
    for (SectorModel& sector : sectors_) sector.roll_back();
  }
  served_export_ = serve.export_id;
  if (serve.export_id != grant_.export_id) fail("serves under an export id that the Grant does not have");
  const std::vector<FakeMember*> rw = rw_members();
  for (const FakeMember* member : rw) {
    const std::string& name = member->name();
    if (member->disk().floor.epoch < host.epoch) fail("serves before " + name + " has its epoch (S5)");
    if (member->disk().floor.epoch > host.epoch) return;  // fenced while it began
    if (member->disk().generation < grant_.generation) fail("serves before " + name + " has the generation");
    const bool connected = std::any_of(connections_.begin(), connections_.end(), [&](const auto& c) {
      return c->engine == host.id && c->member != kSourceLink && c->member_open &&
             members_[c->member].get() == member;
    });
    if (connected && member->served() != host.epoch)
      fail("serves before " + name + " knows that it is served");
    if (member->current() != rw[0]->current())
      fail(name + " differs from " + rw[0]->name() + " when serving begins");
  }
  check_layers();
}

// Outside the union of the logs all RW members hold the same, on disk too.
void World::check_clean_regions() const {
  const std::vector<FakeMember*> rw = rw_members();
  for (std::size_t sector = 0; sector < sectors_.size(); ++sector) {
    const std::uint64_t region = sector * kSector / kRegionSize;
    bool dirty = false;
    for (const FakeMember* member : rw) dirty = dirty || member->disk().dirty.contains(region);
    if (dirty) continue;
    for (const FakeMember* member : rw) {
      if (member->stable()[sector] != rw[0]->stable()[sector] ||
          member->current()[sector] != rw[0]->current()[sector] ||
          member->current()[sector] != member->stable()[sector]) {
        fail(fmt::format("sector {} is not dirty, yet {} differs from {}", sector, member->name(),
                         rw[0]->name()));
      }
    }
  }
}

void World::check_layers() const {
  const std::vector<FakeMember*> rw = rw_members();
  for (const FakeMember* member : rw) {
    for (const auto& [id, image] : member->disk().layers) {
      const auto other = rw[0]->disk().layers.find(id);
      if (other != rw[0]->disk().layers.end() && other->second != image) {
        fail(fmt::format("layer {} differs between {} and {}", id, member->name(), rw[0]->name()));
      }
    }
  }
}

// No more faults: everything must come to rest with every request answered.
void World::heal() {
  log("healing");
  swarm_.refusals = swarm_.write_errors = swarm_.common_errors = false;
  end_move();
  for (auto& host : hosts_) {
    if (host->alive && host->id != holder_) kill(*host);
  }
  const std::uint64_t limit = clock_ + kHealSteps;
  while (clock_ < limit) {
    for (auto& member : members_) member->running = true;
    if (active() == nullptr) start_engine();
    const bool moved = step(false);
    Host* host = active();
    if (!moved && host != nullptr && host->serving && requests_.empty()) return;
  }
  Host* host = active();
  fail(fmt::format("no rest after healing: {} requests open, engine {}", requests_.size(),
                   host == nullptr ? "gone" : host->engine->status().detail));
}

void World::finish() {
  log("reading everything");
  Host* host = active();
  feed(*host, Commanded{next_++, Thaw{}});
  for (std::uint64_t at = 0; at < sectors_.size(); at += 64) {
    Request request;
    request.engine = host->id;
    request.submitted = clock_;
    request.sector = at;
    request.count = std::min<std::uint64_t>(64, sectors_.size() - at);
    for (std::uint64_t i = 0; i < request.count; ++i) request.before.push_back(sectors_[at + i].possible());
    ClientRequest out;
    out.connection = 1;
    out.cookie = next_++;
    out.offset = at * kSector;
    out.length = static_cast<std::uint32_t>(request.count * kSector);
    requests_[out.cookie] = std::move(request);
    feed(*host, ClientRequested{std::move(out)});
  }
  feed(*host, Commanded{next_++, Shutdown{}});
  const std::uint64_t limit = clock_ + kHealSteps;
  while (host->alive && clock_ < limit) step(false);
  if (host->alive) fail("does not shut down: " + host->engine->status().detail);
  check_clean_regions();
  check_layers();
}

}  // namespace moor::block::engine::test
