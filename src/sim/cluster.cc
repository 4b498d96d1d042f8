#include "sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "block/core/replica_store.h"
#include "model/coordination/lease.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "registry/keys.h"
#include "sim/check/support.h"
#include "sim/trace.h"

namespace moor::sim {

using namespace std::chrono_literals;
namespace lh = model::longhorn;

namespace {
constexpr std::uint64_t kSector = 512;
constexpr std::uint64_t kMostAtOnce = 300'000;
constexpr std::size_t kSlots = 24;  // at the beginning, and as many around the first border of two regions
}  // namespace

Cluster::Cluster(WorldOptions options) : context(std::move(options)) {
  const WorldOptions& wanted = context.options;
  context.on_commit = [this](const Commit& commit) { see_commit(commit); };
  context.on_serve = [this](const EngineSight& engine, const block::engine::Serve& serve) {
    see_serve(engine, serve);
  };
  context.on_answer = [this](const ClientAnswer& answer) {
    for (const auto& checker : checkers) checker->on_answer(*this, answer);
  };
  context.on_watch = [this](const Watched& watched) {
    for (const auto& checker : checkers) checker->on_watch(*this, watched);
  };
  context.on_decision = [this](const Decision& decision) {
    for (const auto& checker : checkers) checker->on_decision(*this, decision);
  };
  if (wanted.keep_trace || wanted.on_trace)
    context.on_trace = [this](TraceLine line) {
      if (context.options.on_trace)
        context.options.on_trace(fmt::format("{:>12.6f} {:>8} {:<10} {:<8} {}",
                                             std::chrono::duration<double>(line.at.since_start).count() - 1,
                                             line.step, line.who, line.kind, line.text));
      if (context.options.keep_trace) trace.push_back(std::move(line));
    };
  if (wanted.shared_store) place = std::make_unique<StorePlace>(context);
  const std::uint32_t servers = wanted.shared_store ? wanted.servers : 1;
  for (std::uint32_t i = 1; i <= servers; ++i)
    machines_of_servers.push_back(
        std::make_unique<Server>(context, fmt::format("server-{}", i), place.get()));
  for (std::uint32_t i = 1; i <= wanted.nodes; ++i)
    machines.push_back(std::make_unique<Machine>(context, i, machines_of_servers, machines));
  if (!wanted.check) return;
  for (const CheckerEntry& entry : sim::checkers()) checkers.push_back(entry.make());
  for (const auto& checker : checkers)
    checker->report_to(
        [this](std::string_view rule, std::string message) { violated(rule, std::move(message)); });
}

Cluster::~Cluster() {
  context.on_commit = nullptr;
  context.on_serve = nullptr;
  context.on_answer = nullptr;
  context.on_decision = nullptr;
  context.on_watch = nullptr;
  context.on_trace = nullptr;
  for (auto& [ticket, client] : clients_) client->die();
  people.reset();
  twins.clear();
  machines.clear();
  machines_of_servers.clear();
  place.reset();
}

void Cluster::start() {
  for (const auto& server : machines_of_servers) server->start();
  people = std::make_unique<People>(context, machines_of_servers);
  people->on_counted = [this](const std::string& volume, std::int64_t times) {
    const JsonPtr object = find(control::kind_of<lh::Volume>(), "longhorn-system", volume);
    if (object == nullptr || count_of(*object) >= times) return;
    violated("S38", fmt::format("volume {}: its clerks were told {} times that they have counted on, and it "
                                "says {}: a write with an old version has replaced another",
                                volume, times, count_of(*object)));
  };
  for (const auto& machine : machines) machine->boot();
}

void Cluster::violated(std::string_view rule, std::string message) {
  if (violation) return;
  violation =
      Violation{std::string(rule), std::move(message), context.scheduler.steps(), context.scheduler.now()};
  context.trace("world", "violation", violation->rule + ": " + violation->message);
}

void Cluster::see_commit(const Commit& commit) {
  for (const Change& change : commit.changes) {
    if (context.is_traced() && change.kind->kind != "Lease" && change.kind->kind != "Event")
      context.trace(change.name, "commit",
                    fmt::format("{} {}{}", change.kind->kind, change.name, describe_change(change)));
    if (change.kind->kind == "Lease" && change.name == "mooring-controllers-term") {
      ++context.counts.leader_changes;
      context.trace("world", "leader", "another leader begins: " + commit.through);
    }
    // Another volume of an old name has no past.
    if (change.kind->kind == "Volume" && change.before == nullptr && histories_.contains(change.name))
      histories_.at(change.name).begin_again();
    if (change.kind->kind == "VolumeAttachment" && change.after != nullptr) {
      const auto book = decode_with<lh::VolumeAttachment>(change.decoder, change.after);
      const auto old = decode_with<lh::VolumeAttachment>(change.decoder, change.before);
      if (book && old) {
        for (const auto& [id, status] : book->status.attachment_ticket_statuses) {
          const auto was = old->status.attachment_ticket_statuses.find(id);
          const bool satisfied = was != old->status.attachment_ticket_statuses.end() && was->second.satisfied;
          if (status.satisfied && !satisfied) ++context.counts.attachments;
        }
      }
    }
  }
  for (const auto& checker : checkers) checker->on_commit(*this, commit);
}

VolumeHistory& Cluster::history_of(const std::string& volume) {
  VolumeHistory& history = histories_[volume];
  if (!history.slots.empty()) return history;
  history.volume = volume;
  history.size = context.options.volume_bytes;
  for (std::size_t i = 0; i < kSlots; ++i) history.offsets.push_back(i * kSector);
  for (std::size_t i = 0; i < kSlots && history.size > block::kRegionSize + kSlots * kSector; ++i)
    history.offsets.push_back(block::kRegionSize - kSlots / 2 * kSector + i * kSector);
  history.slots.resize(history.offsets.size());
  return history;
}

void Cluster::see_serve(const EngineSight& engine, const block::engine::Serve& serve) {
  VolumeHistory& history = history_of(engine.volume);
  if (engine.epoch <= history.serving) return;
  history.serving = engine.epoch;
  for (SlotHistory& slot : history.slots) slot.end_orphans(engine.epoch, context.scheduler.steps());
  if (serve.export_id != history.export_id && !history.export_id.empty()) {
    ++history.lives;
    ++context.counts.lives;
    for (SlotHistory& slot : history.slots) slot.roll_back();
  }
  history.export_id = serve.export_id;
}

void Cluster::wish(const Wish& wish) {
  context.trace("people", "wish",
                fmt::format("{} {} {} {}", to_string(wish.kind), volume_name(wish.volume),
                            wish.node == 0 ? "" : fmt::format("node-{}", wish.node), wish.ticket));
  // Where a volume changes hands, what is under way matters most.
  const bool moves = (wish.kind == WishKind::open_client && wish.ticket.ends_with('m')) ||
                     (wish.kind == WishKind::set_parameter && wish.parameters.contains("activate"));
  for (auto& [ticket, client] : clients_)
    if (moves && ticket != wish.ticket && client->volume() == volume_name(wish.volume)) client->hurry();
  if (wish.kind == WishKind::open_client) return void(open_client(wish));
  if (wish.kind == WishKind::hand_over) return hand_over(wish);
  if (wish.kind == WishKind::close_client) return close_client(wish);
  people->wish(wish, context.options.volume_bytes);
}

std::shared_ptr<Client> Cluster::open_client(const Wish& wish) {
  if (wish.node == 0 || wish.node > machines.size()) return nullptr;
  // On a node without power it begins when there is some again.
  Machine& machine = *machines[wish.node - 1];
  const auto may_open = [this, volume = volume_name(wish.volume), ticket = wish.ticket] {
    const auto book = get<lh::VolumeAttachment>("longhorn-system", volume);
    if (!book) return false;
    const auto found = book->status.attachment_ticket_statuses.find(ticket);
    return found != book->status.attachment_ticket_statuses.end() && found->second.satisfied;
  };
  const auto client = std::make_shared<Client>(
      machine, history_of(volume_name(wish.volume)), next_client_++, may_open,
      [this](const std::string& rule, std::string message) { violated(rule, std::move(message)); });
  clients_[wish.ticket] = client;
  if (wish.type == "reader") client->only_read();
  client->open();
  return client;
}

// As a hypervisor moves a guest: it rests here, goes on there with everything it knows, and only when it runs
// there is it gone from here. If it cannot run there it goes on here.
void Cluster::hand_over(const Wish& wish) {
  const auto found = clients_.find(wish.ticket);
  if (found == clients_.end()) return;
  found->second->rest([this, wish] {
    Wish there = wish;
    there.ticket = wish.type;
    const auto client = open_client(there);
    if (client != nullptr) client->read_all([] {});
    watch_guest(wish);
  });
}

void Cluster::watch_guest(const Wish& wish) {
  const auto here = clients_.find(wish.ticket);
  if (here == clients_.end()) return;
  const auto there = clients_.find(wish.type);
  const auto book = get<lh::VolumeAttachment>("longhorn-system", volume_name(wish.volume));
  const bool wanted = book && book->spec.attachment_tickets.contains(wish.type);
  if (there == clients_.end() || there->second->is_over() || !wanted) {
    context.trace("people", "wish", "the guest of " + wish.ticket + " goes on where it was");
    here->second->go_on();
    if (there == clients_.end()) return;
    there->second->close();
    past_clients_.push_back(there->second);
    clients_.erase(there);
    return;
  }
  if (!there->second->is_open()) {
    context.scheduler.after(200ms, [this, wish] { watch_guest(wish); });
    return;
  }
  context.trace("people", "wish",
                "the guest of " + wish.ticket + " runs on node-" + std::to_string(wish.node));
  here->second->close();
  past_clients_.push_back(here->second);
  clients_.erase(here);
}

void Cluster::close_client(const Wish& wish) {
  auto node = clients_.extract(wish.ticket);
  if (node.empty()) return;
  node.mapped()->close();
  past_clients_.push_back(node.mapped());
}

void Cluster::schedule_all(const Schedule& wanted) {
  schedule = wanted;
  const TimePoint start{1s};
  for (const Wish& wish : schedule.wishes)
    context.scheduler.at(start + wish.at, [this, wish] {
      if (!healing) this->wish(wish);
    });
  for (const Fault& fault : schedule.faults)
    context.scheduler.at(start + fault.at, [this, fault] {
      if (!healing) inject(fault);
    });
}

void Cluster::ask_checkers() {
  if (!context.changed.is_anything()) return;
  Step step = std::exchange(context.changed, {});
  step.number = context.scheduler.steps();
  step.at = context.scheduler.now();
  ++context.counts.checks;
  for (const auto& checker : checkers) checker->at_step(*this, step);
}

bool Cluster::step_once() {
  if (violation || !context.scheduler.run_one()) return false;
  if (context.scheduler.now() - moment_ > 1ms) {
    moment_ = context.scheduler.now();
    steps_at_once_ = 0;
  }
  if (++steps_at_once_ > kMostAtOnce)
    violated("L8", fmt::format("{} things have happened within a millisecond: somebody tries again and again "
                               "without a pause",
                               kMostAtOnce));
  ask_checkers();
  return !violation;
}

void Cluster::run_for(Duration duration) {
  const TimePoint end = context.scheduler.now() + duration;
  while (context.scheduler.next_due() <= end && step_once()) {
  }
}

bool Cluster::run_until(const std::function<bool(const Reality&)>& holds, Duration limit) {
  const TimePoint end = context.scheduler.now() + limit;
  TimePoint look = context.scheduler.now();
  while (true) {
    if (violation) return false;
    if (context.scheduler.now() >= look) {
      if (holds(*this)) return true;
      look = context.scheduler.now() + 100ms;
    }
    if (context.scheduler.next_due() > end || !step_once()) return false;
  }
}

bool Cluster::is_ready() const {
  return std::all_of(machines.begin(), machines.end(), [](const auto& one) { return one->agent_is_ready(); });
}

bool Cluster::is_quiet() const {
  const bool idle = std::all_of(machines_of_servers.begin(), machines_of_servers.end(),
                                [](const auto& server) { return server->is_idle(); });
  return idle && people->under_way() == 0;
}

bool Cluster::is_content() const {
  for (const auto& book : all<lh::VolumeAttachment>()) {
    const auto volume = get<lh::Volume>(book.metadata.space, book.metadata.name);
    if (!volume) continue;
    const auto& statuses = book.status.attachment_ticket_statuses;
    const bool satisfied =
        std::any_of(statuses.begin(), statuses.end(), [](const auto& one) { return one.second.satisfied; });
    const bool wanted = !book.spec.attachment_tickets.empty();
    if (wanted ? !satisfied : volume->status.state != lh::VolumeState::detached) return false;
  }
  return true;
}

void Cluster::begin_final_reads() {
  for (auto& [ticket, client] : clients_) {
    if (!client->is_open()) continue;
    final_reads_[ticket] = client;
    client->read_all([this, ticket] { final_reads_.erase(ticket); });
  }
}

void Cluster::judge_unanswered() {
  for (const auto& [ticket, client] : final_reads_) {
    const auto volume = get<lh::Volume>("longhorn-system", client->volume());
    // One whose engine failed too often waits for a person, and so do its clients.
    if (!volume || volume->status.restarts.count >= check::setting(*this, "engine-restart-limit")) continue;
    // The source of an activated move keeps what its clients ask for until the move has ended.
    const auto& move = volume->status.move;
    const bool held =
        move && move->phase == lh::MovePhase::activated && move->source_node_id == client->machine().name();
    if (held) continue;
    violated("L1", fmt::format("volume {}: everything is well, and requests of a workload on node {} are not "
                               "answered for two minutes",
                               client->volume(), client->machine().name()));
  }
}

void Cluster::end_clients() {
  for (auto& [ticket, client] : std::exchange(clients_, {})) {
    client->close();
    past_clients_.push_back(client);
  }
}

void Cluster::close_leftover_clients() {
  std::set<std::string> tickets;
  for (const auto& book : all<lh::VolumeAttachment>()) {
    // Who deletes a volume ends its workloads too; until then the deletion waits for them, as it should.
    const auto volume = get<lh::Volume>(book.metadata.space, book.metadata.name);
    if (!volume || volume->metadata.is_being_deleted()) continue;
    for (const auto& [id, ticket] : book.spec.attachment_tickets) tickets.insert(id);
  }
  std::vector<std::string> gone;
  for (const auto& [ticket, client] : clients_)
    if (!tickets.contains(ticket)) gone.push_back(ticket);
  for (const std::string& ticket : gone) {
    auto node = clients_.extract(ticket);
    node.mapped()->close();
    past_clients_.push_back(node.mapped());
  }
}

void Cluster::remove_all_tickets() {
  std::vector<Wish> wishes;
  for (const auto& book : all<lh::VolumeAttachment>())
    for (const auto& [id, ticket] : book.spec.attachment_tickets) {
      Wish wish;
      wish.kind = WishKind::detach;
      wish.volume = static_cast<std::uint32_t>(std::atoi(book.metadata.name.c_str() + 7));
      wish.ticket = id;
      wishes.push_back(wish);
    }
  for (const Wish& one : wishes) wish(one);
}

std::uint64_t Cluster::state_hash() const {
  Scheduler sum(0);
  sum.mix(context.scheduler.hash());
  sum.mix(context.scheduler.steps());
  for (const auto& [key, object] : disk().objects()) {
    sum.mix(key);
    sum.mix(object.first);
  }
  return sum.hash();
}

std::vector<std::shared_ptr<BlockProcess>> Cluster::living() const {
  std::vector<std::shared_ptr<BlockProcess>> found;
  for (const auto& machine : machines)
    for (const auto& [key, process] : machine->processes)
      if (process->is_alive()) found.push_back(process);
  return found;
}

}  // namespace moor::sim
