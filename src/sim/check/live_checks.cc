// Faults have stopped and everybody had turns: what must have come to pass by now.
#include <fmt/format.h>

#include <algorithm>

#include "model/kinds.h"
#include "sim/check/checks.h"
#include "sim/check/naive_tickets.h"
#include "sim/check/support.h"

namespace moor::sim {
namespace {

using namespace check;

bool asks(const lh::AttachmentTicket& ticket, const lh::Volume& volume) {
  return !ticket.node_id.empty() && !ticket.expires_at && !naive::is_served_by_share(ticket, volume);
}

// Restarted too often in a row: by design it waits for a person or a new ticket.
bool has_given_up(const Reality& reality, const lh::Volume& volume) {
  return volume.status.restarts.count >= setting(reality, "engine-restart-limit");
}

std::string waits_for(const lh::VolumeAttachment& book, const std::string& id) {
  const auto& statuses = book.status.attachment_ticket_statuses;
  const auto found = statuses.find(id);
  if (found == statuses.end()) return "nothing is said about it";
  if (found->second.blockers.empty()) return "no blocker is named";
  return found->second.blockers.front().message;
}

class TicketsAreSatisfied final : public Checker {
 public:
  TicketsAreSatisfied() : Checker("L1") {}
  void after_healing(const Reality& reality) override {
    for (const lh::VolumeAttachment& book : reality.all<lh::VolumeAttachment>()) {
      const auto volume = reality.get<lh::Volume>(book.metadata.space, book.metadata.name);
      if (!volume || volume->metadata.is_being_deleted() || has_given_up(reality, *volume)) continue;
      check(reality, *volume, book);
    }
  }

 private:
  void check(const Reality& reality, const lh::Volume& volume, const lh::VolumeAttachment& book) const {
    bool wanted = false;
    for (const auto& [id, ticket] : book.spec.attachment_tickets) wanted |= asks(ticket, volume);
    if (!wanted) return;
    const std::string& node = volume.status.current_node_id;
    if (node.empty() || volume.status.state != lh::VolumeState::attached) {
      const auto first =
          std::find_if(book.spec.attachment_tickets.begin(), book.spec.attachment_tickets.end(),
                       [&](const auto& one) { return asks(one.second, volume); });
      if (reality.get<lh::Node>(lh::kDefaultNamespace, first->second.node_id))
        violated(fmt::format(
            "volume {}: everything is well again, ticket {} asks for it on node {}, and it is not attached "
            "({})",
            book.metadata.name, first->first, first->second.node_id, waits_for(book, first->first)));
      return;
    }
    for (const auto& [id, ticket] : book.spec.attachment_tickets) {
      const auto status = book.status.attachment_ticket_statuses.find(id);
      const bool satisfied =
          status != book.status.attachment_ticket_statuses.end() && status->second.satisfied;
      const bool fits =
          asks(ticket, volume) && ticket.node_id == node && naive::fits(ticket, volume.spec.disable_frontend);
      if (fits && !satisfied && volume.spec.access_mode != lh::AccessMode::rwop && !has_reservation(book))
        violated(
            fmt::format("volume {}: it is attached to node {} as ticket {} wants it, and the ticket is not "
                        "satisfied ({})",
                        book.metadata.name, node, id, waits_for(book, id)));
    }
    serves(reality, volume);
  }

  static bool has_reservation(const lh::VolumeAttachment& book) {
    return std::any_of(book.spec.attachment_tickets.begin(), book.spec.attachment_tickets.end(),
                       [](const auto& one) { return one.second.node_id.empty(); });
  }

  void serves(const Reality& reality, const lh::Volume& volume) const {
    const auto grant = reality.get<mr::Grant>(volume.metadata.space, volume.metadata.name);
    if (!grant || !grant->spec.active) return;
    const auto engines = reality.engines();
    const EngineSight* engine =
        find_engine(engines, volume.metadata.name, static_cast<std::uint64_t>(grant->spec.active->epoch));
    if (engine == nullptr || !engine->serving)
      violated(fmt::format("volume {} is called attached to node {}, and its engine of epoch {} {}",
                           volume.metadata.name, volume.status.current_node_id, grant->spec.active->epoch,
                           engine == nullptr ? "does not run" : "does not serve"));
  }
};

class UnwantedIsDetached final : public Checker {
 public:
  UnwantedIsDetached() : Checker("L3") {}
  void after_healing(const Reality& reality) override {
    const auto engines = reality.engines();
    for (const lh::VolumeAttachment& book : reality.all<lh::VolumeAttachment>()) {
      const auto volume = reality.get<lh::Volume>(book.metadata.space, book.metadata.name);
      if (!volume || volume->metadata.is_being_deleted()) continue;
      const bool wanted =
          std::any_of(book.spec.attachment_tickets.begin(), book.spec.attachment_tickets.end(),
                      [&](const auto& one) { return !one.second.node_id.empty(); });
      if (wanted) continue;
      const auto grant = reality.get<mr::Grant>(book.metadata.space, book.metadata.name);
      if (grant && grant->spec.active)
        violated(fmt::format(
            "volume {}: no ticket asks for it any more, everything is well, and {} still holds it",
            book.metadata.name, describe(*grant->spec.active)));
      else if (!volume->status.current_node_id.empty() || volume->status.state == lh::VolumeState::detaching)
        violated(fmt::format(
            "volume {}: no ticket asks for it any more, and it has not come to rest (node \"{}\")",
            book.metadata.name, volume->status.current_node_id));
      for (const EngineSight& engine : engines)
        if (engine.volume == book.metadata.name)
          violated(
              fmt::format("volume {}: no ticket asks for it, and an engine of epoch {} still runs on node {}",
                          book.metadata.name, engine.epoch, engine.node));
    }
  }
};

class DeletionsEnd final : public Checker {
 public:
  DeletionsEnd() : Checker("L6") {}
  void after_healing(const Reality& reality) override {
    for (const lh::Volume& volume : reality.all<lh::Volume>())
      if (volume.metadata.is_being_deleted())
        violated(fmt::format("volume {}: everything is well, and its deletion does not end (state {})",
                             volume.metadata.name, to_string(volume.status.state)));
    const auto replicas = reality.all<lh::Replica>();
    for (const ReplicaSight& sight : reality.replicas()) {
      const bool known = std::any_of(replicas.begin(), replicas.end(), [&](const lh::Replica& one) {
        return sight.directory.ends_with("/" + one.spec.data_directory_name);
      });
      if (!known)
        violated(fmt::format("node {}: {} holds the data of a replica that no longer exists", sight.node,
                             sight.directory));
    }
  }
};

class TicketsOfTheGoneRetire final : public Checker {
 public:
  TicketsOfTheGoneRetire() : Checker("L7") {}
  void after_healing(const Reality& reality) override {
    for (const lh::VolumeAttachment& book : reality.all<lh::VolumeAttachment>())
      for (const auto& [id, ticket] : book.spec.attachment_tickets) {
        if (!ticket.owner) continue;
        const auto* kind = model::find_kind_by_name(ticket.owner->api_version, ticket.owner->kind);
        if (kind == nullptr ||
            reality.find(*kind, kind->namespaced ? ticket.owner->space : "", ticket.owner->name) != nullptr)
          continue;
        violated(fmt::format("volume {}: ticket {} is kept though its owner, {} {}, is gone",
                             book.metadata.name, id, ticket.owner->kind, ticket.owner->name));
      }
  }
};

// Without new input objects stop changing. Heartbeats and events do not count.
class ComesToRest final : public Checker {
 public:
  ComesToRest() : Checker("L8") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    if (!reality.is_healing()) return;
    for (const Change& change : commit.changes) {
      const bool counts =
          change.kind == &control::kind_of<lh::Volume>() || change.kind == &control::kind_of<lh::Engine>() ||
          change.kind == &control::kind_of<lh::VolumeAttachment>() ||
          change.kind == &control::kind_of<mr::Grant>() || change.kind == &control::kind_of<lh::Replica>();
      if (!counts || ++changes_[change.name] != kMost) continue;
      violated(
          fmt::format("{} {} has changed {} times since everything was well again: it does not come to rest",
                      change.kind->kind, change.name, kMost));
    }
  }

 private:
  static constexpr int kMost = 600;  // ten restarts with all their reports take far fewer
  std::map<std::string, int> changes_;
};

class EveryWaitIsExplained final : public Checker {
 public:
  EveryWaitIsExplained() : Checker("L10") {}
  void after_healing(const Reality& reality) override {
    for (const lh::VolumeAttachment& book : reality.all<lh::VolumeAttachment>())
      for (const auto& [id, ticket] : book.spec.attachment_tickets) {
        const auto& statuses = book.status.attachment_ticket_statuses;
        const auto found = statuses.find(id);
        if (found == statuses.end()) {
          violated(fmt::format("volume {}: nothing is said about ticket {}", book.metadata.name, id));
          continue;
        }
        if (found->second.satisfied) continue;
        const auto& blockers = found->second.blockers;
        const bool explained =
            !blockers.empty() && std::all_of(blockers.begin(), blockers.end(), [](const lh::Blocker& one) {
              return !one.message.empty() && !one.cleared_by.empty();
            });
        if (!explained)
          violated(
              fmt::format("volume {}: ticket {} waits, and no blocker says for what and who can clear it",
                          book.metadata.name, id));
      }
  }
};

class WhatReturnsServes final : public Checker {
 public:
  WhatReturnsServes() : Checker("L11") {}
  void after_healing(const Reality& reality) override {
    for (const NodeSight& sight : reality.nodes()) {
      const auto node = reality.get<lh::Node>(lh::kDefaultNamespace, sight.name);
      if (sight.up && sight.agent_up && !sight.cut && node && !is_ready(*node))
        violated(fmt::format("node {} is up and reachable again, and is still called not ready", sight.name));
    }
    for (const lh::Volume& volume : reality.all<lh::Volume>()) {
      if (volume.metadata.is_being_deleted() || has_given_up(reality, volume)) continue;
      if (volume.status.robustness == lh::Robustness::faulted)
        violated(fmt::format("volume {} is still faulted though all nodes are back", volume.metadata.name));
    }
    for (const mr::Grant& grant : reality.all<mr::Grant>())
      if (grant.spec.active) check_members(reality, grant);
  }

 private:
  void check_members(const Reality& reality, const mr::Grant& grant) const {
    for (const auto& [name, mode] : grant.spec.members) {
      if (mode != mr::MemberMode::rw) continue;
      const auto replica = reality.get<lh::Replica>(grant.metadata.space, name);
      if (replica && replica->spec.desire_state == lh::InstanceState::running &&
          replica->status.current_state != lh::InstanceState::running)
        violated(fmt::format("replica {} on node {} shall run, everything is well, and it is {}", name,
                             replica->spec.node_id, to_string(replica->status.current_state)));
    }
  }
};

class StatusMirrorsTheGrant final : public Checker {
 public:
  StatusMirrorsTheGrant() : Checker("MIRROR") {}
  void after_healing(const Reality& reality) override {
    for (const mr::Grant& grant : reality.all<mr::Grant>()) {
      const auto volume = reality.get<lh::Volume>(grant.metadata.space, grant.metadata.name);
      if (!volume || volume->metadata.is_being_deleted()) continue;
      if (volume->status.epoch != grant.spec.epoch)
        violated(fmt::format("volume {}: its status shows epoch {}, its Grant has {}", grant.metadata.name,
                             volume->status.epoch, grant.spec.epoch));
      const std::int64_t good = count_rw(grant.spec);
      const std::int64_t wanted = volume->spec.number_of_replicas;
      const auto robustness = volume->status.robustness;
      if ((robustness == lh::Robustness::healthy && good < wanted) ||
          (robustness == lh::Robustness::degraded && good >= wanted))
        violated(fmt::format("volume {} is called {} with {} of {} replicas in step", grant.metadata.name,
                             to_string(robustness), good, wanted));
    }
  }
};

}  // namespace

std::unique_ptr<Checker> liveness_l01_tickets_are_satisfied() {
  return std::make_unique<TicketsAreSatisfied>();
}
std::unique_ptr<Checker> liveness_l03_unwanted_is_detached() {
  return std::make_unique<UnwantedIsDetached>();
}
std::unique_ptr<Checker> liveness_l06_deletions_end() {
  return std::make_unique<DeletionsEnd>();
}
std::unique_ptr<Checker> liveness_l07_tickets_of_the_gone_retire() {
  return std::make_unique<TicketsOfTheGoneRetire>();
}
std::unique_ptr<Checker> liveness_l08_comes_to_rest() {
  return std::make_unique<ComesToRest>();
}
std::unique_ptr<Checker> liveness_l10_every_wait_is_explained() {
  return std::make_unique<EveryWaitIsExplained>();
}
std::unique_ptr<Checker> liveness_l11_what_returns_serves() {
  return std::make_unique<WhatReturnsServes>();
}
std::unique_ptr<Checker> rule_status_mirrors_the_grant() {
  return std::make_unique<StatusMirrorsTheGrant>();
}

}  // namespace moor::sim
