#include "attach/tickets.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/plant.h"

namespace moor::attach {

namespace attacher = model::longhorn::attacher;
using model::longhorn::AccessMode;
using model::longhorn::CloneState;

const std::vector<TicketType>& ticket_types() {
  static const std::vector<TicketType> types = {
      {.name = attacher::kRestore, .priority = 2000},
      {.name = attacher::kExpansion, .priority = 2000},
      {.name = attacher::kApi, .priority = 1000, .workload = true},
      {.name = attacher::kCsi, .priority = 900, .workload = true},
      {.name = attacher::kSalvage, .priority = 900},
      {.name = attacher::kShareManager, .priority = 900, .workload = true},
      {.name = attacher::kSnapshot, .priority = 800, .interruptible = true},
      {.name = attacher::kBackup, .priority = 800, .interruptible = true},
      {.name = attacher::kClone, .priority = 800, .interruptible = true},
      {.name = attacher::kEviction, .priority = 800},
      {.name = attacher::kBackingImageSource, .priority = 800},
      {.name = attacher::kRebuilding, .priority = 800, .interruptible = true},
  };
  return types;
}

TicketType ticket_type(std::string_view name) {
  for (const TicketType& type : ticket_types())
    if (type.name == name) return type;
  return {.name = name};
}

bool is_workload(const AttachmentTicket& ticket) {
  return ticket_type(ticket.type).workload;
}

bool is_interruptible(const AttachmentTicket& ticket, const Volume& volume) {
  if (ticket.type == attacher::kClone) {
    // Interrupting a copy would begin it again from the start, for ever when workloads keep coming.
    const CloneState state = volume.status.clone_status.state;
    return state == CloneState::copy_completed_awaiting_healthy || state == CloneState::completed ||
           state == CloneState::failed;
  }
  return ticket_type(ticket.type).interruptible;
}

bool is_reservation(const AttachmentTicket& ticket) {
  return ticket.node_id.empty();
}

std::strong_ordering compare_tickets(const AttachmentTicket& left, const AttachmentTicket& right,
                                     TieBreak tie_break) {
  const int left_priority = ticket_type(left.type).priority;
  const int right_priority = ticket_type(right.type).priority;
  if (left_priority != right_priority && !MOOR_PLANT("attach-priority-ignored"))
    return right_priority <=> left_priority;
  if (tie_break == TieBreak::arrival) {
    // Tickets from before arrivals were recorded are the oldest.
    const Time left_arrival = left.requested_at ? left.requested_at->at : Time::min();
    const Time right_arrival = right.requested_at ? right.requested_at->at : Time::min();
    if (left_arrival != right_arrival) return left_arrival <=> right_arrival;
  } else if (left.id.size() != right.id.size()) {
    return MOOR_PLANT("attach-longer-id-first") ? right.id.size() <=> left.id.size()
                                                : left.id.size() <=> right.id.size();
  }
  return left.id <=> right.id;
}

std::string owner_key(const model::ObjectReference& owner) {
  return fmt::format("{}/{}/{}/{}", owner.kind, owner.space, owner.name, owner.uid);
}

std::string owner_key(const AttachmentTicket& ticket) {
  return ticket.owner ? owner_key(*ticket.owner) : fmt::format("ticket/{}", ticket.id);
}

FrontendWish frontend_wish(const AttachmentTicket& ticket) {
  const auto found = ticket.parameters.find(std::string(model::longhorn::kParameterDisableFrontend));
  if (found == ticket.parameters.end()) return FrontendWish::enabled;
  if (found->second == "true") return FrontendWish::disabled;
  if (found->second == "any") return FrontendWish::any;
  return FrontendWish::enabled;
}

bool is_compatible(const AttachmentTicket& ticket, bool frontend_disabled) {
  switch (frontend_wish(ticket)) {
    case FrontendWish::enabled: return !frontend_disabled;
    case FrontendWish::disabled: return frontend_disabled;
    case FrontendWish::any: return true;
  }
  return false;
}

std::optional<Time> expiry_of(const AttachmentTicket& ticket, const Settings& settings) {
  if (ticket.expires_at) return ticket.expires_at;
  const std::chrono::seconds lifetime = settings.api_ticket_expiry();
  if (ticket.type == attacher::kApi && lifetime.count() > 0 && ticket.requested_at)
    return ticket.requested_at->at + lifetime;
  return std::nullopt;
}

bool is_served_by_share(const AttachmentTicket& ticket, const Volume& volume) {
  return ticket.type == attacher::kCsi && volume.spec.access_mode == AccessMode::rwx &&
         !volume.spec.migratable;
}

bool is_single_attach(const Volume& volume) {
  return volume.spec.access_mode != AccessMode::rwx && volume.spec.access_mode != AccessMode::rox;
}

model::Causes check_ticket_change(const Volume& volume, const VolumeAttachment* before,
                                  const VolumeAttachment& after) {
  model::Causes causes;
  // Who has the volume is known by ticket; another owner behind the same id would inherit it (S20).
  for (const auto& [id, ticket] : after.spec.attachment_tickets) {
    if (before == nullptr) break;
    const auto old = before->spec.attachment_tickets.find(id);
    if (old == before->spec.attachment_tickets.end() || !old->second.owner) continue;
    if (!ticket.owner || owner_key(*ticket.owner) != owner_key(*old->second.owner))
      causes.push_back(model::forbidden(fmt::format("spec.attachmentTickets[{}].owner", id),
                                        "a ticket stays with its owner; another owner asks with another "
                                        "ticket"));
  }
  if (!volume.spec.migratable) return causes;
  const auto is_csi = [](const auto& one) { return one.second.type == attacher::kCsi; };
  const auto& tickets = after.spec.attachment_tickets;
  const auto now = std::count_if(tickets.begin(), tickets.end(), is_csi);
  std::ptrdiff_t earlier = 0;
  if (before != nullptr)
    earlier =
        std::count_if(before->spec.attachment_tickets.begin(), before->spec.attachment_tickets.end(), is_csi);
  if (now <= earlier || now < 2) return causes;
  if (now > 2)
    causes.push_back(model::forbidden(
        "spec.attachmentTickets",
        fmt::format("volume {} is migratable and has room for two csi-attacher tickets, one on each side of "
                    "a move; this makes {}",
                    volume.metadata.name, now)));
  else if (volume.status.state != model::longhorn::VolumeState::attached)
    causes.push_back(
        model::forbidden("spec.attachmentTickets",
                         fmt::format("the second csi-attacher ticket begins a move, and volume {} is not "
                                     "attached yet",
                                     volume.metadata.name)));
  return causes;
}

}  // namespace moor::attach
