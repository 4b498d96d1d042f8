#include "sim/check/naive_tickets.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "model/longhorn/setting.h"
#include "sim/check/checks.h"

namespace moor::sim {
namespace check::naive {

int priority_of(const std::string& type) {
  static const std::map<std::string, int> known = {{"volume-restore-controller", 2000},
                                                   {"volume-expansion-controller", 2000},
                                                   {"longhorn-api", 1000},
                                                   {"csi-attacher", 900},
                                                   {"salvage-controller", 900},
                                                   {"share-manager-controller", 900},
                                                   {"snapshot-controller", 800},
                                                   {"backup-controller", 800},
                                                   {"volume-clone-controller", 800},
                                                   {"volume-eviction-controller", 800},
                                                   {"bim-ds-controller", 800},
                                                   {"volume-rebuilding-controller", 800}};
  const auto found = known.find(type);
  return found == known.end() ? 0 : found->second;
}

bool is_workload(const lh::AttachmentTicket& ticket) {
  return ticket.type == "csi-attacher" || ticket.type == "longhorn-api" ||
         ticket.type == "share-manager-controller";
}

bool may_be_interrupted(const lh::AttachmentTicket& ticket, const lh::Volume& volume) {
  if (ticket.type == "volume-clone-controller")
    return volume.status.clone_status.state != lh::CloneState::none &&
           volume.status.clone_status.state != lh::CloneState::initiated;
  return ticket.type == "snapshot-controller" || ticket.type == "backup-controller" ||
         ticket.type == "volume-rebuilding-controller";
}

bool is_served_by_share(const lh::AttachmentTicket& ticket, const lh::Volume& volume) {
  return volume.spec.access_mode == lh::AccessMode::rwx && !volume.spec.migratable &&
         ticket.type == "csi-attacher";
}

bool is_of_one_node(const lh::Volume& volume) {
  return volume.spec.access_mode != lh::AccessMode::rwx && volume.spec.access_mode != lh::AccessMode::rox;
}

std::string owner_of(const lh::AttachmentTicket& ticket) {
  if (!ticket.owner) return "nobody but ticket " + ticket.id;
  return fmt::format("{} {}/{} ({})", ticket.owner->kind, ticket.owner->space, ticket.owner->name,
                     ticket.owner->uid);
}

bool fits(const lh::AttachmentTicket& ticket, bool frontend_disabled) {
  const auto found = ticket.parameters.find("disableFrontend");
  const std::string wish = found == ticket.parameters.end() ? "false" : found->second;
  return wish == "any" || (wish == "true") == frontend_disabled;
}

std::vector<std::string> in_order(const lh::VolumeAttachment& book, bool by_arrival) {
  using Key = std::tuple<int, model::Time, std::size_t, std::string>;
  std::vector<Key> keys;
  for (const auto& [id, ticket] : book.spec.attachment_tickets) {
    if (ticket.node_id.empty()) continue;
    const bool timed = by_arrival && ticket.requested_at;
    keys.emplace_back(-priority_of(ticket.type), timed ? ticket.requested_at->at : model::Time::min(),
                      by_arrival ? 0 : id.size(), id);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::string> ids;
  for (const Key& key : keys) ids.push_back(std::get<3>(key));
  return ids;
}

}  // namespace check::naive

namespace {

using namespace check;

// Who writes the volume's node has read the book and the volume as they were just before (both are guarded),
// so the decision can be judged by them. What else it read may have changed since: only what has long been so
// counts.
class Judge : public Checker {
 public:
  using Checker::Checker;
  void on_commit(const Reality& reality, const Commit& commit) final {
    ready_.note(commit);
    for (const Change& change : commit.changes) {
      const auto volume = changed<lh::Volume>(change);
      if (!volume || !volume->before || !volume->after || volume->after->status.move) continue;
      const std::string& was = volume->before->spec.node_id;
      const std::string& is = volume->after->spec.node_id;
      if (was == is) continue;
      const auto book = book_before(reality, commit, change);
      if (!book || book->metadata.is_being_deleted()) continue;
      if (was.empty()) chosen(reality, commit, *volume->before, *book, is);
      if (is.empty()) taken_away(reality, commit, *volume->before, *book, was);
    }
  }

 protected:
  virtual void chosen(const Reality&, const Commit&, const lh::Volume&, const lh::VolumeAttachment&,
                      const std::string&) {}
  virtual void taken_away(const Reality&, const Commit&, const lh::Volume&, const lh::VolumeAttachment&,
                          const std::string&) {}
  // Times are of machines whose clocks may jump: a ticket that can lapse is not judged.
  static bool may_lapse(const Reality& reality, const lh::AttachmentTicket& ticket) {
    if (ticket.expires_at) return true;
    return ticket.type == "longhorn-api" &&
           reality.find(control::kind_of<lh::Setting>(), lh::kDefaultNamespace, "api-ticket-expiry") !=
               nullptr;
  }
  Readiness ready_;

 private:
  static std::optional<lh::VolumeAttachment> book_before(const Reality& reality, const Commit& commit,
                                                         const Change& of) {
    for (const Change& change : commit.changes)
      if (const auto book = changed<lh::VolumeAttachment>(change); book && change.name == of.name)
        return book->before ? std::optional(*book->before) : std::nullopt;
    return reality.get<lh::VolumeAttachment>(of.space, of.name);
  }
};

bool is_held_reservation(const lh::VolumeAttachment& book, const lh::AttachmentTicket& ticket) {
  const auto& statuses = book.status.attachment_ticket_statuses;
  const auto found = statuses.find(ticket.id);
  return ticket.node_id.empty() && found != statuses.end() && found->second.satisfied;
}

class NoWorkloadIsInterrupted final : public Judge {
 public:
  NoWorkloadIsInterrupted() : Judge("S18") {}

 private:
  void taken_away(const Reality& reality, const Commit&, const lh::Volume& volume,
                  const lh::VolumeAttachment& book, const std::string& node) override {
    if (volume.metadata.is_being_deleted() || volume.status.robustness == lh::Robustness::faulted) return;
    if (volume.status.current_node_id != node) return;  // nobody has it yet
    const lh::AttachmentTicket* yields = nullptr;
    bool workload_elsewhere = false;
    for (const auto& [id, ticket] : book.spec.attachment_tickets) {
      if (ticket.node_id.empty() || may_lapse(reality, ticket) || naive::is_served_by_share(ticket, volume))
        continue;
      if (ticket.node_id != node) {
        workload_elsewhere |= naive::is_workload(ticket);
        continue;
      }
      if (ticket.owner) continue;  // its owner may be gone, and with it the ticket
      if (!naive::fits(ticket, volume.spec.disable_frontend)) continue;
      if (naive::may_be_interrupted(ticket, volume)) {
        yields = &ticket;
        continue;
      }
      const auto found = book.status.attachment_ticket_statuses.find(id);
      if (found == book.status.attachment_ticket_statuses.end() || !found->second.satisfied) continue;
      return violated(
          fmt::format("volume {} was taken from node {}, where ticket {} of type {} uses it and cannot be "
                      "interrupted",
                      volume.metadata.name, node, id, ticket.type));
    }
    if (yields != nullptr && !workload_elsewhere)
      violated(fmt::format(
          "volume {} was taken from node {}, where ticket {} of type {} uses it, though no workload "
          "wants it elsewhere",
          volume.metadata.name, node, yields->id, yields->type));
  }
};

class TheBestTicketWins final : public Judge {
 public:
  TheBestTicketWins() : Judge("S19") {}

 private:
  void chosen(const Reality& reality, const Commit& commit, const lh::Volume& volume,
              const lh::VolumeAttachment& book, const std::string& node) override {
    const auto tie_break = reality.get<lh::Setting>(lh::kDefaultNamespace, "attachment-tie-break");
    const bool by_arrival = tie_break && tie_break->value == "arrival";
    const bool limited = setting(reality, "node-attach-limit") > 0;
    bool reserved = false;
    bool asked = false;
    for (const auto& [id, ticket] : book.spec.attachment_tickets) {
      reserved |= ticket.node_id.empty();
      asked |= ticket.node_id == node && !naive::is_served_by_share(ticket, volume);
    }
    if (!asked)
      return violated(fmt::format("volume {} was given to node {}, and no ticket asks for it there",
                                  volume.metadata.name, node));
    if (reserved || limited) return;  // S20 and S37 judge those
    for (const std::string& id : naive::in_order(book, by_arrival)) {
      const lh::AttachmentTicket& ticket = book.spec.attachment_tickets.at(id);
      if (naive::is_served_by_share(ticket, volume)) continue;
      if (ticket.node_id == node) return;
      if (may_lapse(reality, ticket) || ticket.owner ||
          !ready_.has_long_been(ticket.node_id, true, commit.at))
        continue;
      return violated(
          fmt::format("volume {} was given to node {}, and ticket {} of type {} for node {} comes before all "
                      "that ask for {}",
                      volume.metadata.name, node, id, ticket.type, ticket.node_id, node));
    }
  }
};

class ReservationKeepsOthersAway final : public Judge {
 public:
  ReservationKeepsOthersAway() : Judge("S20") {}

  void after_healing(const Reality& reality) override {
    for (const lh::VolumeAttachment& book : reality.all<lh::VolumeAttachment>()) {
      const auto volume = reality.get<lh::Volume>(book.metadata.space, book.metadata.name);
      if (!volume || !naive::is_of_one_node(*volume)) continue;
      for (const auto& [id, status] : book.status.attachment_ticket_statuses)
        for (const lh::Blocker& blocker : status.blockers) check_blocker(book, id, blocker);
    }
  }

 private:
  void check_blocker(const lh::VolumeAttachment& book, const std::string& id,
                     const lh::Blocker& blocker) const {
    const auto& tickets = book.spec.attachment_tickets;
    const auto waits = tickets.find(id);
    const auto holder = tickets.find(blocker.holder);
    if (blocker.type != lh::BlockerType::reserved || waits == tickets.end() || holder == tickets.end())
      return;
    if (holder->second.node_id.empty() && waits->second.owner && holder->second.owner &&
        naive::owner_of(waits->second) == naive::owner_of(holder->second))
      violated(fmt::format("volume {}: ticket {} waits for the reservation {} of its own owner, {}",
                           book.metadata.name, id, blocker.holder, naive::owner_of(waits->second)));
  }

  void chosen(const Reality& reality, const Commit&, const lh::Volume& volume,
              const lh::VolumeAttachment& book, const std::string& node) override {
    if (!naive::is_of_one_node(volume)) return;
    for (const auto& [id, ticket] : book.spec.attachment_tickets) {
      if (!is_held_reservation(book, ticket) || may_lapse(reality, ticket)) continue;
      const bool own = std::any_of(
          book.spec.attachment_tickets.begin(), book.spec.attachment_tickets.end(), [&](const auto& one) {
            return one.second.node_id == node && naive::owner_of(one.second) == naive::owner_of(ticket);
          });
      if (own || ticket.owner) continue;
      violated(fmt::format("volume {} was given to node {}, and ticket {} had reserved it for {}",
                           volume.metadata.name, node, id, naive::owner_of(ticket)));
    }
  }
};

}  // namespace

std::unique_ptr<Checker> invariant_s18_no_workload_is_interrupted() {
  return std::make_unique<NoWorkloadIsInterrupted>();
}
std::unique_ptr<Checker> invariant_s19_the_best_ticket_wins() {
  return std::make_unique<TheBestTicketWins>();
}
std::unique_ptr<Checker> invariant_s20_reservation_keeps_others_away() {
  return std::make_unique<ReservationKeepsOthersAway>();
}

}  // namespace moor::sim
