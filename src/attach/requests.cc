#include "attach/requests.h"

#include <fmt/format.h>

#include <set>

#include "attach/moves.h"

namespace moor::attach {

namespace attacher = model::longhorn::attacher;
using model::longhorn::AccessMode;

namespace {

bool is_shared_by_nfs(const Volume& volume) {
  return volume.spec.access_mode == AccessMode::rwx && !volume.spec.migratable;
}

// Made by somebody who called attach, as opposed to a controller that looks after its own ticket.
bool is_of_caller(const AttachmentTicket& ticket) {
  return ticket.type == attacher::kApi || ticket.type == attacher::kCsi;
}

std::string ticket_id(const AttachRequest& request, const std::string& type) {
  return request.ticket.empty() ? fmt::format("{}-{}", type, request.node) : request.ticket;
}

// "csi-17 (csi-attacher)": those that keep the volume on a node and will not give way.
std::string holders_of(const Volume& volume, const VolumeAttachment& attachment, const std::string& node) {
  std::string names;
  for (const auto& [id, ticket] : attachment.spec.attachment_tickets) {
    if (ticket.node_id != node || is_interruptible(ticket, volume)) continue;
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", id, ticket.type);
  }
  return names;
}

Result<void> check_node(const Volume& volume, const std::optional<NodeFacts>& node, const std::string& name) {
  if (!node)
    return make_error(Errc::not_found,
                      fmt::format("there is no node {} to attach volume {} to", name, volume.metadata.name));
  if (node->ready && node->agent_reachable) return {};
  return make_error(Errc::unavailable,
                    fmt::format("node {} is not ready, volume {} cannot be attached to it{}{}", name,
                                volume.metadata.name, node->reason.empty() ? "" : ": ", node->reason));
}

// Single-writer modes: the volume is where it is until its holder lets go.
Result<void> check_single_attach(const Volume& volume, const VolumeAttachment& attachment,
                                 const std::string& node) {
  const std::string& where = volume.spec.node_id;
  if (where.empty() || where == node) return {};
  const std::string holders = holders_of(volume, attachment, where);
  if (holders.empty()) return {};  // on its way off, or kept by work that gives way to workloads
  return make_error(Errc::conflict,
                    fmt::format("volume {} cannot be attached to node {}: it is attached to node {} by {}",
                                volume.metadata.name, node, where, holders));
}

// A migratable volume is on one node, or on two while it moves; there is no third.
Result<RequestEffect> check_migratable(const Volume& volume, const VolumeAttachment& attachment,
                                       const std::string& node) {
  const std::string& where = volume.spec.node_id;
  const std::string& name = volume.metadata.name;
  if (where.empty()) {
    for (const auto& [id, ticket] : attachment.spec.attachment_tickets)
      if (is_of_caller(ticket) && !ticket.node_id.empty() && ticket.node_id != node)
        return make_error(Errc::unavailable,
                          fmt::format("volume {} is on its way to node {} for {}; a move to node {} can "
                                      "start once it is attached",
                                      name, ticket.node_id, id, node));
    return RequestEffect::attach;
  }
  if (where == node) return RequestEffect::attach;
  std::string destination = volume.spec.migration_node_id;
  for (const auto& [id, ticket] : attachment.spec.attachment_tickets)
    if (destination.empty() && is_of_caller(ticket) && !ticket.node_id.empty() && ticket.node_id != where)
      destination = ticket.node_id;
  if (!destination.empty() && destination != node)
    return make_error(Errc::conflict,
                      fmt::format("volume {} cannot be attached to node {}: it moves from node {} to node {}",
                                  name, node, where, destination));
  if (volume.status.current_node_id != where)
    return make_error(
        Errc::unavailable,
        fmt::format("volume {} is not attached to node {} yet; a move to node {} can start once "
                    "it is",
                    name, where, node));
  return RequestEffect::start_move;
}

bool is_alike(const AttachmentTicket& old, const AttachmentTicket& wanted) {
  return old.type == wanted.type && old.node_id == wanted.node_id && old.parameters == wanted.parameters;
}

}  // namespace

std::string_view to_string(RequestEffect effect) {
  switch (effect) {
    case RequestEffect::nothing: return "nothing";
    case RequestEffect::attach: return "attach";
    case RequestEffect::start_move: return "start-move";
    case RequestEffect::detach: return "detach";
    case RequestEffect::confirm_move: return "confirm-move";
    case RequestEffect::roll_back_move: return "roll-back-move";
  }
  return "";
}

Result<TicketChange> plan_attach(const Volume& volume, const VolumeAttachment& attachment,
                                 const std::optional<NodeFacts>& node, const AttachRequest& request) {
  const std::string& name = volume.metadata.name;
  if (request.node.empty())
    return make_error(Errc::invalid, fmt::format("volume {}: attach needs the node (hostId)", name));
  if (volume.metadata.is_being_deleted())
    return make_error(Errc::conflict, fmt::format("volume {} is being deleted", name));
  AttachmentTicket ticket;
  ticket.type = request.type.empty() ? std::string(attacher::kApi) : request.type;
  ticket.id = ticket_id(request, ticket.type);
  ticket.node_id = request.node;
  ticket.parameters[std::string(model::longhorn::kParameterDisableFrontend)] =
      request.disable_frontend ? "true" : "false";
  ticket.parameters[std::string(model::longhorn::kParameterLastAttachedBy)] = request.attached_by;

  TicketChange change;
  const auto& tickets = attachment.spec.attachment_tickets;
  const auto old = tickets.find(ticket.id);
  const bool repeated = old != tickets.end() && is_alike(old->second, ticket);
  // Asking again for what one has is answered whatever has become of the node since.
  if (repeated) {
    const bool moving =
        volume.spec.migratable && !volume.spec.node_id.empty() && volume.spec.node_id != request.node;
    if (moving) change.acknowledge_with = ticket.id;
    return change;
  }
  TRY_VOID(check_node(volume, node, request.node));
  // The clients of a share are wherever they like (S17); everybody else would take the engine from it.
  if (is_shared_by_nfs(volume) && !is_served_by_share(ticket, volume) && !request.disable_frontend)
    return make_error(Errc::conflict,
                      fmt::format("volume {} is shared by NFS: its share manager attaches it, and others "
                                  "only in maintenance mode (disableFrontend)",
                                  name));
  change.effect = RequestEffect::attach;
  if (volume.spec.migratable) {
    if (old != tickets.end() && !volume.spec.node_id.empty() && old->second.node_id != request.node)
      return make_error(Errc::conflict,
                        fmt::format("ticket {} has volume {} on node {}; a move to node {} needs a ticket of "
                                    "its own (attachmentID)",
                                    ticket.id, name, old->second.node_id, request.node));
    TRY(change.effect, check_migratable(volume, attachment, request.node));
  } else if (!is_served_by_share(ticket, volume)) {
    TRY_VOID(check_single_attach(volume, attachment, request.node));
  }
  if (change.effect == RequestEffect::start_move) change.acknowledge_with = ticket.id;
  if (old != tickets.end()) {
    ticket.owner = old->second.owner;
    ticket.expires_at = old->second.expires_at;
  }
  change.write = std::move(ticket);
  return change;
}

Result<TicketChange> plan_detach(const Volume& volume, const VolumeAttachment& attachment,
                                 const DetachRequest& request) {
  TicketChange change;
  const bool shared = is_shared_by_nfs(volume);
  std::set<std::string> left_on;   // nodes that lose a ticket
  std::set<std::string> stays_on;  // nodes that keep one
  for (const auto& [id, ticket] : attachment.spec.attachment_tickets) {
    bool meant = request.force;
    if (!meant && !request.ticket.empty()) meant = id == request.ticket;
    // What serves a share is its share manager's business, unless the volume is in maintenance.
    if (!meant && request.ticket.empty())
      meant = is_of_caller(ticket) && (!shared || (frontend_wish(ticket) == FrontendWish::disabled &&
                                                   !is_served_by_share(ticket, volume)));
    if (meant && !request.node.empty() && ticket.node_id != request.node) meant = false;
    if (meant) change.remove.push_back(id);
    (meant ? left_on : stays_on).insert(ticket.node_id);
  }
  if (change.remove.empty()) return change;
  change.effect = RequestEffect::detach;
  const std::string& source = volume.spec.node_id;
  const std::string& destination = volume.spec.migration_node_id;
  if (!destination.empty()) {
    const auto leaves = [&](const std::string& node) {
      return left_on.contains(node) && !stays_on.contains(node);
    };
    if (leaves(source) && !leaves(destination)) change.effect = RequestEffect::confirm_move;
    if (leaves(destination) && !leaves(source)) change.effect = RequestEffect::roll_back_move;
  }
  return change;
}

Result<Acknowledgement> acknowledgement(const VolumeAttachment& attachment, const std::string& ticket) {
  const auto& tickets = attachment.spec.attachment_tickets;
  const auto found = tickets.find(ticket);
  if (found == tickets.end())
    return make_error(Errc::not_found, fmt::format("ticket {} of volume {} was removed while it waited",
                                                   ticket, attachment.metadata.name));
  Acknowledgement answer;
  const auto& statuses = attachment.status.attachment_ticket_statuses;
  const auto status = statuses.find(ticket);
  if (status == statuses.end() || status->second.generation != found->second.generation) {
    answer.waits_for = "nobody has looked at it yet";
    return answer;
  }
  answer.satisfied = status->second.satisfied;
  for (const Blocker& blocker : status->second.blockers)
    answer.waits_for += fmt::format("{}{}", answer.waits_for.empty() ? "" : "; ", blocker.message);
  return answer;
}

}  // namespace moor::attach
