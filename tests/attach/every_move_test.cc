// From every combination of spec.nodeID, currentNodeID, state, both migration fields, the phase of the
// record, the engines that a crash may have left behind, and the tickets of a migratable volume, the rules
// reach the stable state that the tickets ask for: one side alone, or a move that is ready and waits for its
// end.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attach/book_for_test.h"
#include "attach/grant.h"
#include "attach/move_steps.h"
#include "attach/moves.h"
#include "attach/table.h"

namespace moor::attach {
namespace {

using model::longhorn::MovePhase;
using model::mooring::ProofType;

struct Process {
  std::int64_t epoch = 0;
  bool standby = false;
};

struct Slot {
  bool run = false;
  std::string node;
  std::int64_t granted = 0;
  std::optional<Process> process;
  std::int64_t ended = 0;  // the last epoch of which its agent said that it is over
};

// The volume with a volume controller that only follows next_move_step() and next_step(), and agents whose
// processes are two numbers.
class MovingWorld {
 public:
  explicit MovingWorld(Book start) : book(std::move(start)) {
    for (const auto& holder : {book.grant->spec.active, book.grant->spec.standby})
      if (holder) {
        const bool standby = holder == book.grant->spec.standby;
        slots[holder->engine] = {true, holder->node, holder->epoch, Process{holder->epoch, standby}, 0};
      }
  }

  Book book;
  std::map<std::string, Slot> slots;
  std::vector<std::string> violations;

  bool run_to_rest() {
    for (int turn = 0; turn < 60; ++turn) {
      const std::string before = text();
      const Book old = book;
      Decision decision = step(book);
      check(old);
      volume_controller();
      agents();
      if (text() == before) return true;
    }
    return false;
  }

  std::string text() const {
    const auto& status = book.volume.status;
    std::string all = fmt::format(
        "wanted={} migration={} state={} current={} currentMigration={} phase={} active={} standby={}\n",
        book.volume.spec.node_id, book.volume.spec.migration_node_id, to_string(status.state),
        status.current_node_id, status.current_migration_node_id,
        status.move ? to_string(status.move->phase) : "-", holder_text(book.grant->spec.active),
        holder_text(book.grant->spec.standby));
    for (const auto& [name, slot] : slots)
      all += fmt::format("  {}@{} run={} granted={} process={} ended={}\n", name, slot.node, slot.run,
                         slot.granted, slot.process ? slot.process->epoch : 0, slot.ended);
    for (const auto& [id, one] : book.attachment.status.attachment_ticket_statuses)
      all += fmt::format("  {}: {}\n", id, one.satisfied ? "satisfied" : one.blockers.front().message);
    return all;
  }

 private:
  static std::string holder_text(const std::optional<GrantHolder>& holder) {
    return holder ? fmt::format("{}@{}/{}", holder->engine, holder->node, holder->epoch) : "-";
  }
  GrantSpec& grant() { return book.grant->spec; }
  // What the Grant's own rules refuse is a fault of whoever asked.
  void take(Result<GrantSpec> next) {
    if (next)
      grant() = std::move(*next);
    else
      violations.push_back("the Grant refuses: " + next.error().message);
  }

  void check(const Book& before) {
    const std::string& from = before.volume.spec.node_id;
    const std::string& to = book.volume.spec.node_id;
    if (!from.empty() && !to.empty() && from != to &&
        !(before.volume.spec.migration_node_id == to && is_move_ready(before.volume)))
      violations.push_back("S9: " + from + " to " + to);
  }

  bool serves(const std::optional<GrantHolder>& holder) const {
    if (!holder) return false;
    const auto slot = slots.find(holder->engine);
    return slot != slots.end() && slot->second.run && slot->second.process &&
           slot->second.process->epoch == holder->epoch && !slot->second.process->standby;
  }
  bool has_ended(const std::optional<GrantHolder>& holder) const {
    if (!holder) return false;
    const auto slot = slots.find(holder->engine);
    return slot == slots.end() || (!slot->second.process && slot->second.ended >= holder->epoch);
  }
  std::string source_slot() const {
    const auto& move = *book.volume.status.move;
    return move.source ? move.source->engine : "v1-e";
  }
  std::string destination_slot() const { return source_slot() == "v1-e" ? "v1-e-b" : "v1-e"; }

  MoveProgress progress() const {
    MoveProgress seen;
    const GrantSpec& spec = book.grant->spec;
    if (!is_moving(book.volume)) {
      seen.source_serves = serves(spec.active) && spec.active->node == book.volume.spec.node_id;
      return seen;
    }
    seen.source_active = spec.active && spec.active->engine == source_slot();
    seen.destination_active = spec.active && spec.active->engine == destination_slot();
    seen.source_serves = seen.source_active && serves(spec.active);
    seen.destination_serves = seen.destination_active && serves(spec.active);
    seen.standby_granted = spec.standby && spec.standby->engine == destination_slot();
    seen.standby_ended = seen.standby_granted && has_ended(spec.standby);
    const auto standby = slots.find(destination_slot());
    seen.standby_ready = seen.standby_granted && seen.source_serves && standby != slots.end() &&
                         standby->second.process && standby->second.process->epoch == spec.standby->epoch;
    const bool confirms = book.volume.spec.node_id == book.volume.status.move->destination_node_id;
    const auto loser = slots.find(confirms ? source_slot() : destination_slot());
    seen.loser_gone = loser == slots.end() || (!loser->second.run && !loser->second.process);
    return seen;
  }

  ReleaseProof proof(const GrantHolder& holder, ProofType type = ProofType::unmounted) {
    return {.type = type, .holder = holder, .fenced_by_epoch = grant().epoch, .by = "agent"};
  }

  // The next epoch for whoever is active and has ended, in its seat.
  void keep_open() {
    if (!grant().active || !has_ended(grant().active)) return;
    const GrantHolder old = *grant().active;
    take(release_active(grant(), proof(old)));
    take(grant_start(grant(), {old.engine, old.node, 1}));
    seat(*grant().active);
    if (grant().standby && grant().standby->epoch < grant().active->epoch) {
      const GrantHolder standby = *grant().standby;
      ReleaseProof fenced = proof(standby, ProofType::fenced);
      take(release_standby(grant(), fenced));
      take(set_standby(grant(), {standby.engine, standby.node, 1}));
      seat(*grant().standby);
    }
  }
  void seat(const GrantHolder& holder) {
    Slot& slot = slots[holder.engine];
    slot.run = true;
    slot.node = holder.node;
    slot.granted = holder.epoch;
  }

  bool follow_move() {
    const MoveStep next = next_move_step(book.volume, progress());
    auto& status = book.volume.status;
    if (next.action == MoveAction::begin) {
      burn_standby();
      status.move = MoveStatus{.phase = MovePhase::preparing,
                               .source_node_id = book.volume.spec.node_id,
                               .destination_node_id = book.volume.spec.migration_node_id,
                               .source = grant().active};
      return true;
    }
    if (!next.handled) return false;
    MoveStatus& move = *status.move;
    const EngineStart there{destination_slot(), move.destination_node_id, 1};
    const EngineStart here{source_slot(), move.source_node_id, 1};
    if (next.action == MoveAction::grant_standby) {
      if (grant().standby) take(release_standby(grant(), proof(*grant().standby)));
      if (!slots.contains(there.engine) || !slots[there.engine].process) {
        take(set_standby(grant(), there));
        seat(*grant().standby);
        move.destination = grant().standby;
      }
    }
    if (next.action == MoveAction::swap) {
      const bool alive = grant().standby && !has_ended(grant().standby);
      take(alive ? activate_standby(grant()) : grant_over(grant(), there));
      seat(*grant().active);
      move.destination = grant().active;
    }
    if (next.action == MoveAction::take_back &&
        (move.destination || grant().standby || !grant().active || grant().active->engine != here.engine)) {
      take(grant_over(grant(), here));
      seat(*grant().active);
      move.source = grant().active;
    }
    if (next.phase == MovePhase::rolling_back && slots.contains(there.engine))
      slots[there.engine].run = false;
    if (next.action == MoveAction::stop_loser && next.keep == MoveSide::destination &&
        slots.contains(here.engine))
      slots[here.engine].run = false;
    move.phase = next.phase;
    status.current_node_id = next.current_node_id;
    status.current_migration_node_id = next.current_migration_node_id;
    if (next.action == MoveAction::finish) {
      slots.erase(next.keep == MoveSide::source ? there.engine : here.engine);
      status.move.reset();
      return true;
    }
    keep_open();
    return true;
  }

  void burn_standby() {
    if (!grant().standby) return;
    ++grant().epoch;
    take(release_standby(grant(), proof(*grant().standby, ProofType::fenced)));
  }

  void close_both() {
    burn_standby();
    for (auto& [name, slot] : slots) slot.run = false;
    if (grant().active && has_ended(grant().active)) take(release_active(grant(), proof(*grant().active)));
  }

  bool all_stopped() const {
    return !book.grant->spec.active && !book.grant->spec.standby &&
           std::none_of(slots.begin(), slots.end(), [](const auto& one) { return one.second.process; });
  }

  void volume_controller() {
    if (!follow_move()) {
      const bool stopped = all_stopped();
      const auto& active = grant().active;
      const Progress seen{.opened = serves(active) && active->node == book.volume.spec.node_id,
                          .stopped = stopped,
                          .held = !stopped,
                          .standby_stopped = !grant().standby};
      const Step next = next_step(position_of(book.volume), seen);
      if (next.action == Action::close) close_both();
      if (next.standby == StandbyAction::close) burn_standby();
      if (next.action == Action::open) {
        if (!grant().active) {  // what is left of a move that was cut off goes first
          burn_standby();
          for (auto& [name, slot] : slots) slot.run = false;
        }
        if (!grant().active && stopped) {
          take(grant_start(grant(), {"v1-e", book.volume.spec.node_id, 1}));
          seat(*grant().active);
        } else if (grant().active && grant().active->node != book.volume.spec.node_id) {
          slots[grant().active->engine].run = false;
          if (has_ended(grant().active)) take(release_active(grant(), proof(*grant().active)));
        } else {
          keep_open();
        }
      }
      apply_step(next, book.volume);
    }
    const auto on = [&](const std::string& node) {
      for (const auto& [id, ticket] : book.attachment.spec.attachment_tickets)
        if (ticket.node_id == node) return true;
      return false;
    };
    auto& move = book.volume.status.move;
    if (move && all_stopped_but_active() &&
        record_may_go(book.volume, on(move->source_node_id) && on(move->destination_node_id)))
      move.reset();
    // What no move and no Grant needs.
    if (!move) burn_standby();
    for (auto one = slots.begin(); one != slots.end() && !move;) {
      const auto named = [&](const auto& holder) { return holder && holder->engine == one->first; };
      if (!named(grant().active) && !named(grant().standby)) one->second.run = false;
      one = one->second.run || one->second.process ? std::next(one) : slots.erase(one);
    }
    book.volume.status.robustness = serves(grant().active) ? Robustness::healthy : Robustness::unknown;
  }
  bool all_stopped_but_active() const {
    return std::none_of(slots.begin(), slots.end(), [&](const auto& one) {
      const auto& active = book.grant->spec.active;
      return one.second.process && !(active && active->engine == one.first);
    });
  }

  void agents() {
    for (auto& [name, slot] : slots) {
      const auto named = [&](const std::optional<GrantHolder>& holder) {
        return holder && holder->engine == name && holder->node == slot.node;
      };
      if (!slot.run) {
        slot.process.reset();
        slot.ended = std::max(slot.ended, slot.granted);
        continue;
      }
      const bool active = named(grant().active);
      const std::int64_t epoch = active                   ? grant().active->epoch
                                 : named(grant().standby) ? grant().standby->epoch
                                                          : 0;
      if (epoch == 0) {
        // A standby that the Grant forgot is refused and ends; a source holds its clients.
        if (slot.process && slot.process->standby) {
          slot.ended = std::max(slot.ended, slot.process->epoch);
          slot.process.reset();
        }
        continue;
      }
      if (!slot.process && epoch <= slot.ended) continue;
      slot.process = Process{epoch, !active};
    }
    int writers = 0;
    for (const auto& [name, slot] : slots)
      writers += slot.process && !slot.process->standby && grant().active && grant().active->engine == name;
    if (writers > 1) violations.push_back("S22");
  }
};

struct Start {
  std::string wanted, current;
  VolumeState state;
  std::string migration, current_migration;
  MovePhase phase;
  int engines;  // 0: none; 1: active on n1; 2: and a standby on n2; 3: active on n2, as after an activation
};

Book book_of(const Start& start, bool here, bool there) {
  Book book = make_book();
  book.volume.spec.access_mode = model::longhorn::AccessMode::rwx;
  book.volume.spec.migratable = true;
  if (here) add_ticket(book, {.id = "here"});
  if (there) add_ticket(book, {.id = "there", .node = "n2"});
  book.volume.spec.node_id = start.wanted;
  book.volume.spec.migration_node_id = start.migration;
  auto& status = book.volume.status;
  status.current_node_id = start.current;
  status.state = start.state;
  status.current_migration_node_id = start.current_migration;
  book.grant = Grant{};
  book.grant->spec.volume = "v1";
  const GrantHolder one{.epoch = 7, .engine = "v1-e", .node = "n1", .incarnation = 1};
  const GrantHolder two{.epoch = 8, .engine = "v1-e-b", .node = "n2", .incarnation = 1};
  if (start.engines > 0) book.grant->spec.epoch = 8;
  if (start.engines == 1 || start.engines == 2) book.grant->spec.active = one;
  if (start.engines == 2) book.grant->spec.standby = two;
  if (start.engines == 3) book.grant->spec.active = two;
  if (start.phase != MovePhase::none) {
    status.move = MoveStatus{.phase = start.phase, .source_node_id = "n1", .destination_node_id = "n2"};
    status.move->source = one;
    if (start.engines >= 2) status.move->destination = two;
  }
  return book;
}

std::vector<std::string> faults(const MovingWorld& world, bool here, bool there) {
  std::vector<std::string> found = world.violations;
  const auto expect = [&](bool fine, const std::string& what) {
    if (!fine) found.push_back(what);
  };
  const Volume& volume = world.book.volume;
  const auto& status = volume.status;
  const auto& statuses = world.book.attachment.status.attachment_ticket_statuses;
  for (const auto& [id, one] : statuses) expect(one.satisfied, "L1: " + id + " waits");
  if (!here && !there) {
    expect(status.state == VolumeState::detached && status.current_node_id.empty(), "detached");
    expect(!status.move && !world.book.grant->spec.active && !world.book.grant->spec.standby, "S12");
    return found;
  }
  expect(status.state == VolumeState::attached && status.current_node_id == volume.spec.node_id, "attached");
  const auto& active = world.book.grant->spec.active;
  expect(active.has_value(), "the grant names nobody");
  if (here != there) {
    expect(volume.spec.node_id == (here ? "n1" : "n2"), "the side that the ticket asks for");
    expect(!status.move && volume.spec.migration_node_id.empty() && status.current_migration_node_id.empty(),
           "L5");
    expect(world.slots.size() == 1 && active && active->node == volume.spec.node_id, "S23");
    return found;
  }
  const std::string other = volume.spec.node_id == "n1" ? "n2" : "n1";
  expect(status.move && is_move_ready(volume) && status.move->destination_node_id == other, "ready to move");
  expect(status.current_migration_node_id == other && volume.spec.migration_node_id == other,
         "fields of the move");
  return found;
}

TEST(EveryMove, ReachesTheStableStateThatTheTicketsAskFor) {
  const std::vector<std::string> places = {"", "n1", "n2"};
  const std::vector<MovePhase> phases = {MovePhase::none,       MovePhase::preparing,
                                         MovePhase::ready,      MovePhase::activated,
                                         MovePhase::confirming, MovePhase::rolling_back};
  int worlds = 0;
  int failed = 0;
  for (const std::string& wanted : places)
    for (const std::string& current : places)
      for (int state = 0; state < 7; ++state)
        for (const std::string& migration : places)
          for (const std::string& current_migration : places)
            for (const MovePhase phase : phases)
              for (int engines = 0; engines < 4; ++engines)
                for (int tickets = 0; tickets < 4; ++tickets) {
                  if (failed >= 12) return;  // they tell enough
                  const Start start{wanted,    current,           static_cast<VolumeState>(state),
                                    migration, current_migration, phase,
                                    engines};
                  const bool here = (tickets & 1) != 0;
                  const bool there = (tickets & 2) != 0;
                  MovingWorld world(book_of(start, here, there));
                  const std::string before = world.text();
                  const bool rests = world.run_to_rest();
                  auto wrong = faults(world, here, there);
                  if (!rests) wrong.push_back("no rest");
                  failed += wrong.empty() ? 0 : 1;
                  EXPECT_TRUE(wrong.empty()) << wrong.front() << "\ntickets " << tickets << " from " << before
                                             << "to " << world.text();
                  ++worlds;
                }
  EXPECT_EQ(worlds, 3 * 3 * 7 * 3 * 3 * 6 * 4 * 4);
}

}  // namespace
}  // namespace moor::attach
