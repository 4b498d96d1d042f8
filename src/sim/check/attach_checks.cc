// What the objects of a volume say to people about its attachment: S7, S9, S10, S15.
#include <fmt/format.h>

#include <set>

#include "sim/check/checks.h"
#include "sim/check/naive_tickets.h"
#include "sim/check/support.h"

namespace moor::sim {
namespace {

using namespace check;

bool was_satisfied(const std::shared_ptr<const lh::VolumeAttachment>& before, const std::string& id) {
  if (!before) return false;
  const auto& statuses = before->status.attachment_ticket_statuses;
  const auto found = statuses.find(id);
  return found != statuses.end() && found->second.satisfied;
}

// A volume of one owner: no two owners are told that they have it, not even on one node.
class OneOwner final : public Checker {
 public:
  OneOwner() : Checker("S7") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto attachment = changed<lh::VolumeAttachment>(change);
      if (!attachment || !attachment->after) continue;
      const auto volume = reality.get<lh::Volume>(change.space, change.name);
      if (!volume || volume->spec.access_mode == lh::AccessMode::rwx ||
          volume->spec.access_mode == lh::AccessMode::rox)
        continue;
      check(change.name, *volume, *attachment->after);
    }
  }

 private:
  void check(const std::string& name, const lh::Volume& volume, const lh::VolumeAttachment& book) const {
    std::set<std::string> nodes;
    std::set<std::string> owners;
    for (const auto& [id, status] : book.status.attachment_ticket_statuses) {
      const auto ticket = book.spec.attachment_tickets.find(id);
      if (!status.satisfied || ticket == book.spec.attachment_tickets.end()) continue;
      if (ticket->second.node_id.empty() || status.generation != ticket->second.generation) continue;
      nodes.insert(ticket->second.node_id);
      if (naive::is_workload(ticket->second)) owners.insert(naive::owner_of(ticket->second));
    }
    if (nodes.size() > 1 && !volume.status.move)
      violated(fmt::format(
          "volume {}: tickets on {} and {} are both told that they have it, and it is of one node", name,
          *nodes.begin(), *nodes.rbegin()));
    if (volume.spec.access_mode == lh::AccessMode::rwop && owners.size() > 1)
      violated(fmt::format("volume {} serves one owner, and the tickets of {} and {} are both satisfied",
                           name, *owners.begin(), *owners.rbegin()));
  }
};

class ThroughEmpty final : public Checker {
 public:
  ThroughEmpty() : Checker("S9") {}
  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto volume = changed<lh::Volume>(change);
      if (!volume || !volume->before || !volume->after) continue;
      const std::string& was = volume->before->spec.node_id;
      const std::string& is = volume->after->spec.node_id;
      const auto& move = volume->before->status.move;
      if (was.empty() || is.empty() || was == is) continue;
      if (move && was == move->source_node_id && is == move->destination_node_id) continue;
      violated(fmt::format("volume {} was sent from node {} straight to node {} without having been detached",
                           change.name, was, is));
    }
  }
};

// currentNodeID appears when the engine has been reported running there, and goes when nobody holds the
// Grant.
class CurrentNodeIsTrue final : public Checker {
 public:
  CurrentNodeIsTrue() : Checker("S10") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      if (const auto engine = changed<lh::Engine>(change); engine && engine->after) {
        if (engine->after->status.current_state == lh::InstanceState::running)
          ran_[engine->after->spec.volume_name].insert(engine->after->status.epoch);
        continue;
      }
      const auto volume = changed<lh::Volume>(change);
      if (!volume || !volume->after) continue;
      if (!volume->before) ran_.erase(change.name);
      check(reality, change, volume->before ? volume->before->status.current_node_id : "", *volume->after);
    }
  }

 private:
  void check(const Reality& reality, const Change& change, const std::string& was, const lh::Volume& volume) {
    const std::string& is = volume.status.current_node_id;
    if (was == is || volume.status.move) return;
    const auto grant = reality.get<mr::Grant>(change.space, change.name);
    const auto* active = grant && grant->spec.active ? &*grant->spec.active : nullptr;
    if (is.empty()) {
      if (active != nullptr)
        violated(fmt::format("volume {} is said to have left node {}, and its Grant still names {}",
                             change.name, was, describe(*active)));
      return;
    }
    if (active == nullptr || active->node != is)
      return violated(fmt::format("volume {} is said to be attached to node {}, and its Grant names {}",
                                  change.name, is, active == nullptr ? "nobody" : describe(*active)));
    if (!ran_[change.name].contains(active->epoch))
      violated(fmt::format(
          "volume {} is said to be attached to node {}, and its engine of epoch {} has never been "
          "reported as running",
          change.name, is, active->epoch));
  }
  std::map<std::string, std::set<std::int64_t>> ran_;  // volume → epochs
};

class SatisfiedMeansAttached final : public Checker {
 public:
  SatisfiedMeansAttached() : Checker("S15") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto book = changed<lh::VolumeAttachment>(change);
      if (!book || !book->after) continue;
      const auto& statuses = book->after->status.attachment_ticket_statuses;
      if (book->before && book->before->status.attachment_ticket_statuses == statuses) continue;
      for (const auto& [id, status] : statuses) {
        const auto ticket = book->after->spec.attachment_tickets.find(id);
        if (!status.satisfied || ticket == book->after->spec.attachment_tickets.end()) continue;
        check(reality, change, ticket->second, status, was_satisfied(book->before, id));
      }
    }
  }

 private:
  void check(const Reality& reality, const Change& change, const lh::AttachmentTicket& ticket,
             const lh::AttachmentTicketStatus& status, bool before) const {
    if (status.generation != ticket.generation)
      return violated(
          fmt::format("volume {}: ticket {} is called satisfied for its generation {}, and it is at {}",
                      change.name, ticket.id, status.generation, ticket.generation));
    if (before || ticket.node_id.empty()) return;
    const auto volume = reality.get<lh::Volume>(change.space, change.name);
    const auto grant = reality.get<mr::Grant>(change.space, change.name);
    if (!volume || !grant || naive::is_served_by_share(ticket, *volume)) return;
    if (volume->status.move) return check_moving(change, ticket, *volume, *grant);
    const auto say = [&](const std::string& why) {
      violated(fmt::format("volume {}: ticket {} is told that it has the volume on node {}, and {}",
                           change.name, ticket.id, ticket.node_id, why));
    };
    if (volume->spec.node_id != ticket.node_id)
      return say(fmt::format("it is wanted on \"{}\"", volume->spec.node_id));
    if (volume->status.current_node_id != ticket.node_id)
      return say(fmt::format("it is attached to \"{}\"", volume->status.current_node_id));
    if (!grant->spec.active || grant->spec.active->node != ticket.node_id)
      return say("the Grant names another");
    if (!naive::fits(ticket, volume->spec.disable_frontend))
      say(volume->spec.disable_frontend ? "it is attached without the front end that the ticket wants"
                                        : "it is attached with a front end that the ticket does not want");
  }

  // The source keeps what it has; the destination has it when its standby is ready and granted.
  void check_moving(const Change& change, const lh::AttachmentTicket& ticket, const lh::Volume& volume,
                    const mr::Grant& grant) const {
    if (ticket.node_id == volume.status.current_node_id && ticket.node_id == volume.spec.node_id) return;
    const auto at = [&](const auto& holder) { return holder && holder->node == ticket.node_id; };
    const bool granted = at(grant.spec.active) || at(grant.spec.standby);
    if (granted && volume.status.current_migration_node_id == ticket.node_id) return;
    violated(
        fmt::format("volume {}: ticket {} is told that it has the volume on node {}, and the move there "
                    "is not ready ({})",
                    change.name, ticket.id, ticket.node_id, to_string(volume.status.move->phase)));
  }
};

}  // namespace

std::unique_ptr<Checker> invariant_s07_one_owner() {
  return std::make_unique<OneOwner>();
}
std::unique_ptr<Checker> invariant_s09_through_empty() {
  return std::make_unique<ThroughEmpty>();
}
std::unique_ptr<Checker> invariant_s10_current_node_is_true() {
  return std::make_unique<CurrentNodeIsTrue>();
}
std::unique_ptr<Checker> invariant_s15_satisfied_means_attached() {
  return std::make_unique<SatisfiedMeansAttached>();
}

}  // namespace moor::sim
