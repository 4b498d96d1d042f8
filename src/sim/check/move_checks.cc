// Moves: who may begin one, who may write while it goes on, and how it ends: S21 to S25, L5.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/check/checks.h"
#include "sim/check/naive_tickets.h"
#include "sim/check/support.h"

namespace moor::sim {
namespace {

using namespace check;
using lh::MovePhase;

bool may_share(const lh::Volume& volume, const lh::AttachmentTicket& one, const lh::AttachmentTicket& other) {
  if (volume.spec.migratable) return true;
  return one.owner && other.owner && naive::owner_of(one) == naive::owner_of(other);
}

std::vector<const lh::AttachmentTicket*> users_on(const lh::VolumeAttachment& book, const std::string& node) {
  std::vector<const lh::AttachmentTicket*> found;
  for (const auto& [id, ticket] : book.spec.attachment_tickets)
    if (ticket.node_id == node && naive::is_workload(ticket)) found.push_back(&ticket);
  return found;
}

// A second node is given only to those who may share the volume, and never a third.
class TwoNodesAtMost final : public Checker {
 public:
  TwoNodesAtMost() : Checker("S21") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      if (const auto volume = changed<lh::Volume>(change); volume && volume->after) begun(reality, *volume);
      if (const auto book = changed<lh::VolumeAttachment>(change); book && book->after)
        told(reality, change, *book);
      if (const auto grant = changed<mr::Grant>(change); grant && grant->after) named(change, *grant->after);
    }
  }

 private:
  void begun(const Reality& reality, const Changed<lh::Volume>& volume) const {
    const std::string& node = volume.after->spec.migration_node_id;
    if (node.empty() || (volume.before && volume.before->spec.migration_node_id == node)) return;
    const model::ObjectMeta& self = volume.after->metadata;
    const auto book = reality.get<lh::VolumeAttachment>(self.space, self.name);
    if (!book) return;
    const auto here = users_on(*book, volume.after->spec.node_id);
    const auto there = users_on(*book, node);
    for (const auto* one : here)
      for (const auto* other : there)
        if (may_share(*volume.after, *one, *other)) return;
    violated(
        fmt::format("volume {} begins to move from node {} to node {}, and no two tickets there may share it",
                    self.name, volume.after->spec.node_id, node));
  }

  void told(const Reality& reality, const Change& change, const Changed<lh::VolumeAttachment>& book) const {
    const auto volume = reality.get<lh::Volume>(change.space, change.name);
    if (!volume || volume->spec.access_mode == lh::AccessMode::rox) return;
    std::set<std::string> nodes;
    std::string fresh;
    for (const auto& [id, status] : book.after->status.attachment_ticket_statuses) {
      const auto ticket = book.after->spec.attachment_tickets.find(id);
      if (!status.satisfied || ticket == book.after->spec.attachment_tickets.end()) continue;
      if (ticket->second.node_id.empty() || naive::is_served_by_share(ticket->second, *volume)) continue;
      nodes.insert(ticket->second.node_id);
      if (!book.before) continue;
      const auto was = book.before->status.attachment_ticket_statuses.find(id);
      if (was == book.before->status.attachment_ticket_statuses.end() || !was->second.satisfied) fresh = id;
    }
    if (fresh.empty() || nodes.size() < 2) return;
    if (nodes.size() > 2)
      return violated(fmt::format("volume {}: ticket {} is told that it has the volume, as the {}th node",
                                  change.name, fresh, nodes.size()));
    if (!volume->status.move)
      violated(
          fmt::format("volume {}: ticket {} is told that it has the volume, which is on another node, "
                      "and no move is recorded",
                      change.name, fresh));
  }

  void named(const Change& change, const mr::Grant& grant) const {
    const auto& active = grant.spec.active;
    const auto& standby = grant.spec.standby;
    if (!standby) return;
    if (!active)
      return violated(fmt::format("volume {}: its Grant names {} as standby and nobody as active",
                                  change.name, describe(*standby)));
    if (active->node == standby->node || active->engine == standby->engine)
      violated(fmt::format("volume {}: {} would stand by for {}", change.name, describe(*standby),
                           describe(*active)));
    if (standby->epoch <= active->epoch)
      violated(fmt::format("volume {}: {} stands by below {}: it could not fence it", change.name,
                           describe(*standby), describe(*active)));
  }
};

// Nobody acknowledges whom the Grant has never named active, and no two engines could at the same moment.
class OnlyTheNamedAcknowledge final : public Checker {
 public:
  OnlyTheNamedAcknowledge() : Checker("S22") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto grant = changed<mr::Grant>(change);
      if (!grant || !grant->after) continue;
      if (!grant->before) active_.erase(change.name);
      if (grant->after->spec.active) active_[change.name].insert(grant->after->spec.active->epoch);
      if (grant->before) swapped(reality, change, grant->before->spec, grant->after->spec);
    }
  }

  void on_answer(const Reality&, const ClientAnswer& answer) override {
    if (answer.error != 0 || answer.op == ClientOp::read || answer.epoch == 0) return;
    if (active_[answer.volume].contains(static_cast<std::int64_t>(answer.epoch))) return;
    violated(fmt::format(
        "volume {}: epoch {} acknowledged a {} on node {}, and the Grant has never named it "
        "active",
        answer.volume, answer.epoch, answer.op == ClientOp::write ? "write" : "flush", answer.node));
  }

  void at_step(const Reality& reality, const Step& step) override {
    if (!step.processes && !step.engines && !step.replicas) return;
    for (const std::string& volume : step.volumes) {
      if (reality.engine_count_of(volume) < 2) continue;
      auto engines = reality.engines_of(volume);
      std::erase_if(engines, [](const EngineSight& one) { return one.core == nullptr || one.standby; });
      if (engines.size() > 1) compare(reality, volume, engines);
    }
  }

 private:
  // The record is ready when the standby takes over, or the move was confirmed.
  void swapped(const Reality& reality, const Change& change, const mr::GrantSpec& was,
               const mr::GrantSpec& is) const {
    if (!was.standby || is.active != was.standby) return;
    const auto volume = reality.get<lh::Volume>(change.space, change.name);
    const bool ready = volume && volume->status.move &&
                       (volume->status.move->phase == MovePhase::ready ||
                        volume->status.move->phase == MovePhase::confirming);
    if (!ready)
      violated(fmt::format("volume {}: {} becomes active while the move is {}", change.name,
                           describe(*is.active),
                           volume && volume->status.move ? to_string(volume->status.move->phase) : "none"));
  }

  void compare(const Reality& reality, const std::string& volume,
               const std::vector<EngineSight>& engines) const {
    std::map<std::string, std::uint64_t> floors;
    for (const ReplicaSight& replica : reality.replicas_of(volume))
      floors[replica.name] = replica.floor.epoch;
    const EngineSight* writer = nullptr;
    for (const EngineSight& engine : engines) {
      const auto status = engine.core->status();
      if (status.state != block::engine::State::serving) continue;
      const bool fenced = std::any_of(status.members.begin(), status.members.end(), [&](const auto& member) {
        const auto floor = floors.find(member.config.name);
        return member.mode == block::MemberMode::rw && floor != floors.end() && floor->second != engine.epoch;
      });
      if (fenced) continue;
      if (writer != nullptr)
        return violated(fmt::format(
            "volume {}: the engines of epoch {} on node {} and of epoch {} on node {} could both acknowledge",
            volume, writer->epoch, writer->node, engine.epoch, engine.node));
      writer = &engine;
    }
  }

  std::map<std::string, std::set<std::int64_t>> active_;  // epochs that were, by volume
};

// When the record goes one side is left; at rest there is one engine for each side that is left.
class OneSideIsLeft final : public Checker {
 public:
  OneSideIsLeft() : Checker("S23") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto volume = changed<lh::Volume>(change);
      if (!volume || !volume->before || !volume->after) continue;
      if (volume->before->status.move && !volume->after->status.move) ended(reality, change, *volume->after);
    }
  }

  void after_healing(const Reality& reality) override {
    const auto engines = reality.engines();
    for (const lh::Volume& volume : reality.all<lh::Volume>()) {
      if (volume.metadata.is_being_deleted() || volume.status.move) continue;
      std::int64_t processes = 0;
      for (const EngineSight& engine : engines) {
        if (engine.volume != volume.metadata.name) continue;
        ++processes;
        if (engine.standby)
          violated(fmt::format("volume {}: no move is recorded, and a standby runs on node {}",
                               volume.metadata.name, engine.node));
      }
      if (processes > 1)
        violated(fmt::format("volume {}: no move is recorded, and {} engines run", volume.metadata.name,
                             processes));
      std::int64_t objects = 0;
      for (const lh::Engine& engine : reality.all<lh::Engine>())
        if (engine.spec.volume_name == volume.metadata.name) ++objects;
      if (objects > 1)
        violated(fmt::format("volume {}: no move is recorded, and {} Engine objects are left",
                             volume.metadata.name, objects));
    }
  }

 private:
  void ended(const Reality& reality, const Change& change, const lh::Volume& volume) const {
    const auto grant = reality.get<mr::Grant>(change.space, change.name);
    if (!grant) return;
    if (grant->spec.standby)
      violated(fmt::format("volume {}: its move is over, and its Grant still names {} as standby",
                           change.name, describe(*grant->spec.standby)));
    const std::string& node = volume.status.current_node_id;
    const std::string holder = grant->spec.active ? grant->spec.active->node : "";
    if (!node.empty() && holder != node)
      violated(
          fmt::format("volume {}: its move is over, it is said to be on node {}, and its Grant names "
                      "\"{}\"",
                      change.name, node, holder));
  }
};

// A confirm needs a destination that is ready, and is final.
class ConfirmIsFinal final : public Checker {
 public:
  ConfirmIsFinal() : Checker("S24") {}
  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto volume = changed<lh::Volume>(change);
      if (!volume || !volume->before || !volume->after || !volume->before->status.move) continue;
      check(change, *volume->before, *volume->after);
    }
  }

 private:
  void check(const Change& change, const lh::Volume& was, const lh::Volume& is) const {
    const lh::MoveStatus& move = *was.status.move;
    const bool open = move.phase == MovePhase::ready || move.phase == MovePhase::activated;
    const std::string& from = was.spec.node_id;
    const std::string& to = is.spec.node_id;
    if (!from.empty() && !to.empty() && from != to) {
      if (from != move.source_node_id || to != move.destination_node_id)
        return violated(fmt::format("volume {} was sent from node {} to node {} while it moves from {} to {}",
                                    change.name, from, to, move.source_node_id, move.destination_node_id));
      if (!open)
        return violated(fmt::format("volume {}: its move to node {} was confirmed while it was {}",
                                    change.name, to, to_string(move.phase)));
    }
    if (!is.status.move || move.started_at != is.status.move->started_at) return;
    const MovePhase next = is.status.move->phase;
    if (move.phase == MovePhase::confirming && next != MovePhase::confirming)
      violated(fmt::format("volume {}: its move was confirmed and is {} now", change.name, to_string(next)));
    if (move.phase == MovePhase::rolling_back && next != MovePhase::rolling_back)
      violated(
          fmt::format("volume {}: its move was rolled back and is {} now", change.name, to_string(next)));
    if (move.phase == MovePhase::activated && (next == MovePhase::ready || next == MovePhase::preparing))
      violated(fmt::format("volume {}: its destination is active, and the move is {} again", change.name,
                           to_string(next)));
  }
};

// Cleaning up never takes the engine that the Grant names.
class TheHolderIsKept final : public Checker {
 public:
  TheHolderIsKept() : Checker("S25") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto engine = changed<lh::Engine>(change);
      if (!engine || !engine->before) continue;
      const bool going = !engine->after || engine->after->metadata.is_being_deleted();
      if (!going || engine->before->metadata.is_being_deleted()) continue;
      const std::string& name = engine->before->spec.volume_name;
      const auto volume = reality.get<lh::Volume>(change.space, name);
      const auto grant = reality.get<mr::Grant>(change.space, name);
      if (!volume || volume->metadata.is_being_deleted() || !grant) continue;
      for (const auto& holder : {grant->spec.active, grant->spec.standby})
        if (holder && holder->engine == change.name)
          violated(fmt::format("volume {}: Engine {} is removed, and the Grant names {}", name, change.name,
                               describe(*holder)));
    }
  }
};

// A volume that lies detached between two nodes that both want it goes to the side that the record chooses.
class TheRecordChooses final : public Checker {
 public:
  TheRecordChooses() : Checker("S24") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    ready_.note(commit);
    for (const Change& change : commit.changes) {
      const auto volume = changed<lh::Volume>(change);
      if (!volume || !volume->before || !volume->after || !volume->before->status.move) continue;
      if (!volume->before->spec.node_id.empty() || volume->after->spec.node_id.empty()) continue;
      const lh::MoveStatus& move = *volume->before->status.move;
      const bool there = move.phase == MovePhase::activated || move.phase == MovePhase::confirming;
      const std::string& side = there ? move.destination_node_id : move.source_node_id;
      const auto book = reality.get<lh::VolumeAttachment>(change.space, change.name);
      if (volume->after->spec.node_id == side || !book || users_on(*book, side).empty()) continue;
      // Both must have been there for a while: a ticket may have come since the decision was read.
      if (!ready_.has_long_been(side, true, commit.at)) continue;
      const std::string& other = there ? move.source_node_id : move.destination_node_id;
      if (users_on(*book, other).empty()) continue;
      violated(
          fmt::format("volume {} was detached while its move was {}: it belongs to node {}, and went to "
                      "{}",
                      change.name, to_string(move.phase), side, volume->after->spec.node_id));
    }
  }

 private:
  Readiness ready_;
};

// Everything is well: a move is over, or waits for those who began it.
class EveryMoveEnds final : public Checker {
 public:
  EveryMoveEnds() : Checker("L5") {}
  void after_healing(const Reality& reality) override {
    for (const lh::Volume& volume : reality.all<lh::Volume>()) {
      const auto book = reality.get<lh::VolumeAttachment>(volume.metadata.space, volume.metadata.name);
      if (volume.metadata.is_being_deleted() || !book) continue;
      if (volume.status.move) {
        check(volume, *book, *volume.status.move);
      } else if (!volume.spec.migration_node_id.empty() || !volume.status.current_migration_node_id.empty()) {
        violated(fmt::format("volume {}: no move is recorded, and it is still said to go to \"{}\"",
                             volume.metadata.name, volume.spec.migration_node_id));
      }
    }
  }

 private:
  void check(const lh::Volume& volume, const lh::VolumeAttachment& book, const lh::MoveStatus& move) const {
    const bool both =
        !users_on(book, move.source_node_id).empty() && !users_on(book, move.destination_node_id).empty();
    const bool waits = move.phase == MovePhase::ready || move.phase == MovePhase::activated;
    if (both && waits) return;
    violated(fmt::format("volume {}: everything is well, and its move from node {} to node {} is still {}{}",
                         volume.metadata.name, move.source_node_id, move.destination_node_id,
                         to_string(move.phase), both ? "" : ", though only one side is wanted"));
  }
};

}  // namespace

std::unique_ptr<Checker> invariant_s21_two_nodes_at_most() {
  return std::make_unique<TwoNodesAtMost>();
}
std::unique_ptr<Checker> invariant_s22_only_the_named_acknowledge() {
  return std::make_unique<OnlyTheNamedAcknowledge>();
}
std::unique_ptr<Checker> invariant_s23_one_side_is_left() {
  return std::make_unique<OneSideIsLeft>();
}
std::unique_ptr<Checker> invariant_s24_confirm_is_final() {
  return std::make_unique<ConfirmIsFinal>();
}
std::unique_ptr<Checker> invariant_s24_the_record_chooses() {
  return std::make_unique<TheRecordChooses>();
}
std::unique_ptr<Checker> invariant_s25_the_holder_is_kept() {
  return std::make_unique<TheHolderIsKept>();
}
std::unique_ptr<Checker> liveness_l05_every_move_ends() {
  return std::make_unique<EveryMoveEnds>();
}

}  // namespace moor::sim
