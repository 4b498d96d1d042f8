#include "sim/check/first.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <set>

#include "attach/settings.h"
#include "model/longhorn/engine.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "model/mooring/grant.h"
#include "sim/check/support.h"

namespace moor::sim {
namespace {

namespace lh = model::longhorn;
using model::mooring::Grant;
using model::mooring::MemberMode;

class AcknowledgedDataStays final : public Checker {
 public:
  AcknowledgedDataStays() : Checker("S1") {}

  void after_healing(const Reality& reality) override {
    for (const auto& [name, history] : reality.histories()) {
      const auto volume = reality.get<lh::Volume>("longhorn-system", name);
      const auto grant = reality.get<Grant>("longhorn-system", name);
      // While it is attached the bytes are under way; its clients read them.
      if (!volume || !grant || grant->spec.active || volume->status.state != lh::VolumeState::detached)
        continue;
      compare(reality, history, *grant);
    }
  }

 private:
  // After an engine that died members may differ where their logs say so, until the next start.
  static bool is_clean(const Reality& reality, const VolumeHistory& history, const Grant& grant) {
    for (const ReplicaSight& replica : reality.replicas_of(history.volume)) {
      const auto mode = grant.spec.members.find(replica.name);
      if (replica.core != nullptr) continue;
      if (mode == grant.spec.members.end() || mode->second != MemberMode::rw) continue;
      const auto answer = reality.answer_of(replica);
      if (answer && (!answer->clean || !answer->dirty.empty())) return false;
    }
    return true;
  }

  void compare(const Reality& reality, const VolumeHistory& history, const Grant& grant) const {
    std::string first;
    std::vector<std::byte> reference;
    if (!is_clean(reality, history, grant)) return;
    for (const ReplicaSight& replica : reality.replicas_of(history.volume)) {
      const auto mode = grant.spec.members.find(replica.name);
      if (replica.core != nullptr) continue;
      if (mode == grant.spec.members.end() || mode->second != MemberMode::rw) continue;
      const auto bytes = reality.bytes_of(replica);
      if (!bytes)
        return violated(
            fmt::format("{} on {} is RW in the Grant and cannot be opened", replica.name, replica.node));
      for (std::size_t i = 0; i < history.slots.size(); ++i) {
        std::uint64_t value = 0;
        std::memcpy(&value, bytes->data() + history.offsets[i], sizeof value);
        if (history.slots[i].allows(value)) continue;
        return violated(fmt::format("sector {} of {} is {} on {} ({}); what it may hold is{}",
                                    history.offsets[i] / 512, history.volume, value, replica.name,
                                    replica.node, history.slots[i].describe()));
      }
      if (first.empty()) {
        first = replica.name;
        reference = *bytes;
      } else if (!check::are_equal(*bytes, reference)) {
        return violated(
            fmt::format("{} and {} of {} are both RW and differ", first, replica.name, history.volume));
      }
    }
  }
};

class EpochsOnlyGrow final : public Checker {
 public:
  EpochsOnlyGrow() : Checker("S2") {}

  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      if (change.kind != &control::kind_of<Grant>()) continue;
      const auto before = decode_with<Grant>(change.decoder, change.before);
      const auto after = decode_with<Grant>(change.decoder, change.after);
      if (before && after && after->spec.epoch < before->spec.epoch)
        violated(fmt::format("the epoch of {} goes from {} down to {}", change.name, before->spec.epoch,
                             after->spec.epoch));
    }
  }
  void at_step(const Reality& reality, const Step& step) override {
    if (!step.processes && !step.floors) return;
    for (const std::string& volume : step.volumes) look(reality.replicas_of(volume));
  }

 private:
  void look(const std::vector<ReplicaSight>& replicas) {
    for (const ReplicaSight& replica : replicas) {
      auto& known = floors_[replica.node + replica.directory + replica.name];
      if (replica.floor.epoch < known)
        violated(fmt::format("the floor of {} on {} goes from epoch {} down to {}", replica.name,
                             replica.node, known, replica.floor.epoch));
      known = std::max(known, replica.floor.epoch);
    }
  }

  std::map<std::string, std::uint64_t> floors_;
};

class AnEpochHasOneEngine final : public Checker {
 public:
  AnEpochHasOneEngine() : Checker("S3") {}
  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes)
      if (change.kind == &control::kind_of<Grant>() && change.before == nullptr)  // another of that name
        std::erase_if(owners_, [&](const auto& one) { return one.first.first == change.name; });
  }
  void at_step(const Reality& reality, const Step& step) override {
    if (!step.processes) return;
    for (const std::string& volume : step.volumes) look(reality.engines_of(volume));
  }

 private:
  void look(const std::vector<EngineSight>& engines) {
    for (const EngineSight& engine : engines) {
      const auto key = std::pair(engine.volume, engine.epoch);
      const std::string who = fmt::format("{} pid {}", engine.node, engine.pid);
      const auto [place, fresh] = owners_.emplace(key, who);
      if (!fresh && place->second != who)
        violated(fmt::format("epoch {} of {} is used by {} and by {}", engine.epoch, engine.volume,
                             place->second, who));
    }
  }

  std::map<std::pair<std::string, std::uint64_t>, std::string> owners_;
};

class OneNodeIsGranted final : public Checker {
 public:
  OneNodeIsGranted() : Checker("S7") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      if (change.kind != &control::kind_of<Grant>()) continue;
      const auto before = decode_with<Grant>(change.decoder, change.before);
      const auto after = decode_with<Grant>(change.decoder, change.after);
      if (!before || !after || !before->spec.active || !after->spec.active) continue;
      const auto volume = reality.get<lh::Volume>(change.space, change.name);
      const bool moves = volume && volume->status.move;
      const auto& old = *before->spec.active;
      const auto& now = *after->spec.active;
      if (old.node != now.node && !after->spec.standby && !before->spec.standby && !moves)
        violated(fmt::format("the Grant of {} goes from {} (epoch {}) to {} (epoch {}) without a release",
                             change.name, old.node, old.epoch, now.node, now.epoch));
      if (old.epoch == now.epoch && (old.node != now.node || old.incarnation != now.incarnation))
        violated(fmt::format("epoch {} of {} is given to a second holder", now.epoch, change.name));
    }
  }
};

class CurrentNodeMeansAttached final : public Checker {
 public:
  CurrentNodeMeansAttached() : Checker("S10") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      if (change.kind != &control::kind_of<lh::Volume>()) continue;
      const auto before = decode_with<lh::Volume>(change.decoder, change.before);
      const auto after = decode_with<lh::Volume>(change.decoder, change.after);
      if (!after) continue;
      const std::string was = before ? before->status.current_node_id : "";
      const std::string& is = after->status.current_node_id;
      if (was == is) continue;
      const auto grant = reality.get<Grant>(change.space, change.name);
      const std::string holder = grant && grant->spec.active ? grant->spec.active->node : "";
      if (!is.empty() && holder != is)
        violated(fmt::format("{} says that it is attached to {}, and the Grant names {}", change.name, is,
                             holder.empty() ? "nobody" : holder));
      if (is.empty() && !holder.empty())
        violated(
            fmt::format("{} says that it is detached, and the Grant still names {}", change.name, holder));
      if (!was.empty() && !is.empty())
        violated(fmt::format("the current node of {} goes from {} to {} at once", change.name, was, is));
    }
  }
};

class TicketsAreSatisfied final : public Checker {
 public:
  TicketsAreSatisfied() : Checker("L1") {}
  void after_healing(const Reality& reality) override {
    for (const auto& book : reality.all<lh::VolumeAttachment>()) {
      if (book.spec.attachment_tickets.empty() || book.metadata.is_being_deleted()) continue;
      bool satisfied = false;
      std::string waiting;
      for (const auto& [id, ticket] : book.spec.attachment_tickets) {
        const auto status = book.status.attachment_ticket_statuses.find(id);
        if (status != book.status.attachment_ticket_statuses.end() && status->second.satisfied)
          satisfied = true;
        std::string blockers;
        if (status != book.status.attachment_ticket_statuses.end())
          for (const auto& blocker : status->second.blockers)
            blockers += fmt::format(" {}", to_string(blocker.type));
        waiting += fmt::format(" {} for {}:{};", id, ticket.node_id, blockers);
      }
      if (satisfied) continue;
      const auto volume = reality.get<lh::Volume>(book.metadata.space, book.metadata.name);
      violated(fmt::format("no ticket of {} is satisfied ({}, {}):{}", book.metadata.name,
                           volume ? to_string(volume->status.state) : "gone",
                           volume ? to_string(volume->status.robustness) : "", waiting));
    }
  }
};

class NoTicketMeansDetached final : public Checker {
 public:
  NoTicketMeansDetached() : Checker("L3") {}
  void after_healing(const Reality& reality) override {
    for (const auto& book : reality.all<lh::VolumeAttachment>()) {
      if (!book.spec.attachment_tickets.empty()) continue;
      const auto volume = reality.get<lh::Volume>(book.metadata.space, book.metadata.name);
      if (!volume || volume->status.state == lh::VolumeState::detached ||
          volume->status.state == lh::VolumeState::creating)
        continue;
      violated(fmt::format("{} has no ticket and is {} on {}", book.metadata.name,
                           to_string(volume->status.state), volume->status.current_node_id));
    }
  }
};

}  // namespace

std::unique_ptr<Checker> invariant_s01_acknowledged_data_stays() {
  return std::make_unique<AcknowledgedDataStays>();
}
std::unique_ptr<Checker> invariant_s02_epochs_only_grow() {
  return std::make_unique<EpochsOnlyGrow>();
}
std::unique_ptr<Checker> invariant_s03_an_epoch_has_one_engine() {
  return std::make_unique<AnEpochHasOneEngine>();
}
std::unique_ptr<Checker> invariant_s07_one_node_is_granted() {
  return std::make_unique<OneNodeIsGranted>();
}
std::unique_ptr<Checker> invariant_s10_current_node_means_attached() {
  return std::make_unique<CurrentNodeMeansAttached>();
}
std::unique_ptr<Checker> invariant_l01_tickets_are_satisfied() {
  return std::make_unique<TicketsAreSatisfied>();
}
std::unique_ptr<Checker> invariant_l03_no_ticket_means_detached() {
  return std::make_unique<NoTicketMeansDetached>();
}

}  // namespace moor::sim
