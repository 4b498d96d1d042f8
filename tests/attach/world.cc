#include "world.h"

#include <fmt/format.h>

#include <algorithm>

#include "attach/explain.h"

namespace moor::attach {

using model::mooring::ProofType;

World::World(Book start) : book(std::move(start)) {
  if (book.grant && book.grant->spec.active) {
    const auto& active = *book.grant->spec.active;
    wish_ = {.run = true, .node = active.node, .epoch = active.epoch};
    engine = EngineProcess{.node = active.node, .epoch = active.epoch};
    started_epochs_.insert(active.epoch);
  }
  if (!book.grant) {
    book.grant = Grant{};
    book.grant->spec.volume = book.volume.metadata.name;
  }
}

void World::fail(const std::string& what) {
  violations.push_back(what + "\n" + text());
}

Reading World::read() const {
  return {.book = book,
          .engine = engine,
          .stopped_epoch = stopped_epoch_,
          .standby_runs = standby_runs,
          .version = version_};
}

bool World::write_attachment(const Reading& reading) {
  const Decision decision = decide(reading.book);
  if (reading.version != version_) return false;
  const Book before = book;
  if (!apply_decision(decision, book.volume, book.attachment).any()) return true;
  ++version_;
  ++changes;
  check_attachment_write(before);
  check_reservations(before);
  check_statuses();
  return true;
}

void World::check_attachment_write(const Book& before) {
  const std::string& was = before.volume.spec.node_id;
  const std::string& is = book.volume.spec.node_id;
  if (!was.empty() && !is.empty() && was != is) fail(fmt::format("S9: nodeID from {} to {}", was, is));
  if (was.empty() && !is.empty() &&
      (before.volume.status.state != VolumeState::detached || !before.volume.spec.migration_node_id.empty() ||
       !before.volume.status.current_migration_node_id.empty() ||
       before.volume.status.robustness == Robustness::faulted))
    fail("the gate was not open");
  if (!is.empty() && was.empty()) {
    const auto& node = book.nodes.find(is);
    if (node == book.nodes.end() || !node->second.ready || !node->second.agent_reachable)
      fail("a node that cannot take the volume was chosen");
    else if (node->second.attach_limit && *node->second.attach_limit > 0 &&
             node->second.attachments >= *node->second.attach_limit)
      fail("S37: the attach limit is passed");
  }
}

// While a reservation that holds the volume is in the book, nobody else gets in (S20).
void World::check_reservations(const Book& before) {
  if (!is_single_attach(book.volume)) return;
  const auto& tickets = book.attachment.spec.attachment_tickets;
  const auto& statuses = book.attachment.status.attachment_ticket_statuses;
  const auto had = [&](const std::string& id) {
    const auto found = before.attachment.status.attachment_ticket_statuses.find(id);
    return found != before.attachment.status.attachment_ticket_statuses.end() && found->second.satisfied;
  };
  for (const auto& [reservation_id, reservation] : tickets) {
    if (!reservation.node_id.empty() || !had(reservation_id)) continue;
    // A ticket that was changed since is looked at afresh.
    if (before.attachment.status.attachment_ticket_statuses.at(reservation_id).generation !=
        reservation.generation)
      continue;
    if (reservation.expires_at && *reservation.expires_at <= book.now) continue;
    for (const auto& [id, status] : statuses)
      if (status.satisfied && !had(id) && owner_key(tickets.at(id)) != owner_key(reservation))
        fail("S20: " + id + " got a volume that " + reservation_id + " holds");
  }
}

void World::check_statuses() {
  for (const auto& [id, status] : book.attachment.status.attachment_ticket_statuses) {
    if (status.satisfied != status.blockers.empty()) fail("L10: blockers of " + id);
    const auto found = book.attachment.spec.attachment_tickets.find(id);
    if (found == book.attachment.spec.attachment_tickets.end()) continue;
    const AttachmentTicket& ticket = found->second;
    if (!status.satisfied || status.generation != ticket.generation || ticket.node_id.empty() ||
        is_served_by_share(ticket, book.volume))
      continue;
    const auto& active = book.grant->spec.active;
    if (book.volume.status.current_node_id != ticket.node_id || book.volume.spec.node_id != ticket.node_id ||
        !active || active->node != ticket.node_id ||
        !is_compatible(ticket, book.volume.spec.disable_frontend))
      fail("S15: " + id + " is called satisfied");
  }
  if (!waiting_cycle(book.attachment).empty()) fail("L10: tickets wait in a circle");
}

bool World::write_volume(const Reading& reading) {
  Book after = reading.book;
  const auto& active = after.grant->spec.active;
  const bool runs = reading.engine && active && reading.engine->epoch == active->epoch;
  const Progress progress{.opened = runs && active->node == after.volume.spec.node_id,
                          .stopped = !reading.engine && !active,
                          .held = reading.engine || active,
                          .standby_stopped = !reading.standby_runs};
  const EngineWish wish_before = wish_;
  const Step step = next_step(position_of(after.volume), progress);
  if (reading.version != version_) return false;
  if (step.action == Action::open) open(after, reading);
  if (step.action == Action::close) close(after, reading);
  if (step.standby == StandbyAction::close) wish_.run_standby = false;
  apply_step(step, after.volume);
  mirror_grant(after.grant->spec, after.volume.status);
  auto& robustness = after.volume.status.robustness;
  if (!members_usable)
    robustness = Robustness::faulted;
  else if (after.volume.status.state == VolumeState::detached && robustness == Robustness::faulted)
    robustness = Robustness::unknown;
  const bool changed = position_of(after.volume) != position_of(book.volume) ||
                       robustness != book.volume.status.robustness ||
                       after.grant->spec.epoch != book.grant->spec.epoch ||
                       after.grant->spec.active != book.grant->spec.active || wish_before.run != wish_.run ||
                       wish_before.run_standby != wish_.run_standby;
  if (!changed) return true;
  if (after.grant->spec.epoch < book.grant->spec.epoch) fail("S2: the epoch went down");
  if (!check_grant_change(*book.grant, *after.grant, {.role = GrantRole::volume_controller}).empty())
    fail("admission would refuse this change of the grant");
  book = std::move(after);
  ++version_;
  ++changes;
  check_statuses();
  return true;
}

void World::open(Book& after, const Reading& reading) {
  GrantSpec& grant = after.grant->spec;
  const std::string& node = after.volume.spec.node_id;
  if (grant.active) {
    const bool ended = !reading.engine && reading.stopped_epoch == grant.active->epoch;
    if (!ended) {
      if (grant.active->node != node) wish_.run = false;  // somebody's leftover: it stops first
      return;
    }
    grant = *release_active(grant, {.type = ProofType::unmounted, .holder = *grant.active, .by = "agent"});
  }
  grant = *grant_start(grant, {.engine = "v1-e", .node = node, .incarnation = 1});
  wish_ = {.run = true, .node = node, .epoch = grant.epoch, .run_standby = wish_.run_standby};
}

void World::close(Book& after, const Reading& reading) {
  wish_.run = false;
  GrantSpec& grant = after.grant->spec;
  if (grant.active && !reading.engine && reading.stopped_epoch == grant.active->epoch)
    grant = *release_active(grant, {.type = ProofType::unmounted, .holder = *grant.active, .by = "agent"});
}

bool World::agent_turn() {
  // The agent of a silent node does nothing, and nobody else acts in its place.
  const auto silent = [&](const std::string& node) {
    const auto found = book.nodes.find(node);
    return found == book.nodes.end() || !found->second.agent_reachable;
  };
  if (silent(engine ? engine->node : wish_.node) && !wish_.node.empty()) return false;
  bool changed = false;
  if (engine && (!wish_.run || engine->epoch != wish_.epoch)) {
    stopped_epoch_ = engine->epoch;
    engine.reset();
    changed = true;
  } else if (!engine && !wish_.run && stopped_epoch_ != wish_.epoch) {
    stopped_epoch_ = wish_.epoch;  // "it does not run" is an answer too
    changed = true;
  } else if (!engine && wish_.run && !started_epochs_.contains(wish_.epoch)) {
    started_epochs_.insert(wish_.epoch);
    engine = EngineProcess{.node = wish_.node, .epoch = wish_.epoch};
    const auto& active = book.grant->spec.active;
    if (!active || active->epoch != engine->epoch || active->node != engine->node)
      fail("S3: an engine starts that the grant does not name");
    changed = true;
  }
  if (standby_runs && !wish_.run_standby) {
    standby_runs = false;
    changed = true;
  }
  if (changed) {
    ++version_;
    ++changes;
  }
  return changed;
}

void World::crash_engine() {
  if (!engine) return;
  stopped_epoch_ = engine->epoch;
  engine.reset();
  touch();
}

bool World::run_to_rest(int turns) {
  for (int turn = 0; turn < turns; ++turn) {
    const int before = changes;
    book.now += std::chrono::milliseconds(700);  // time alone must change nothing
    if (volume_first) write_volume(read());
    write_attachment(read());
    if (!volume_first) write_volume(read());
    agent_turn();
    if (changes == before) return true;
  }
  return false;
}

std::string World::text() const {
  const Volume& volume = book.volume;
  std::string text = fmt::format(
      "nodeID={} current={} state={} migration={} currentMigration={} robustness={} disableFrontend={} "
      "engine={}\n",
      volume.spec.node_id, volume.status.current_node_id, to_string(volume.status.state),
      volume.spec.migration_node_id, volume.status.current_migration_node_id,
      to_string(volume.status.robustness), volume.spec.disable_frontend, engine ? engine->node : "-");
  for (const Explanation& one : explain_volume(volume, book.attachment, book.grant, book.now))
    text += "  " + one.text + "\n";
  return text;
}

}  // namespace moor::attach
