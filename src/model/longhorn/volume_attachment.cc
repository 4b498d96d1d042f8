#include "model/longhorn/volume_attachment.h"

#include <fmt/format.h>

#include <set>

#include "model/make_kind.h"

namespace moor::model::longhorn {

MOOR_DESCRIBE(AttachmentTicket, "One request to have the volume attached: who, where, how and since when.") {
  f.add("id", &AttachmentTicket::id,
        "Identity of the ticket among those of the volume; the same as its key.");
  f.add("type", &AttachmentTicket::type,
        "Kind of requester, which gives the ticket its priority: csi-attacher, longhorn-api, "
        "snapshot-controller, …");
  f.add("nodeID", &AttachmentTicket::node_id,
        "Node the volume is wanted on. Without one the ticket is a reservation: it keeps others away.");
  f.add(
      "parameters", &AttachmentTicket::parameters,
      "How the volume is wanted: disableFrontend is true, false or any; lastAttachedBy names the requester.");
  f.add("generation", &AttachmentTicket::generation, "Counts changes of the ticket. Kept by the server.");
  f.add("owner", &AttachmentTicket::owner,
        "Object the ticket serves; when it is gone, the ticket is retired.")
      .omit_empty();
  f.add("requestedAt", &AttachmentTicket::requested_at, "When the ticket arrived. Kept by the server.")
      .omit_empty();
  f.add("expiresAt", &AttachmentTicket::expires_at, "When the ticket lapses by itself; absent: never.")
      .omit_empty();
}

MOOR_DESCRIBE(Blocker, "What a ticket waits for, who holds it, since when, and who can clear it.") {
  f.omit_empty();
  f.add("type", &Blocker::type, "What the ticket waits for, in one word.").required().omit_empty(false);
  f.add("message", &Blocker::message, "What the ticket waits for, in a sentence.");
  f.add("holder", &Blocker::holder, "Ticket, node or object that stands in the way.");
  f.add("holderType", &Blocker::holder_type, "What the holder is: the type of a ticket, or a kind.");
  f.add("nodeID", &Blocker::node_id, "Node where the holder is.");
  f.add("since", &Blocker::since, "Since when it stands in the way.");
  f.add("clearedBy", &Blocker::cleared_by, "Who can end the wait, and how.");
}

MOOR_DESCRIBE(AttachmentTicketStatus, "How one ticket fares.") {
  f.add("id", &AttachmentTicketStatus::id, "Identity of the ticket.");
  f.add("satisfied", &AttachmentTicketStatus::satisfied, "Whether the volume is attached as the ticket asks.")
      .required();
  f.add("conditions", &AttachmentTicketStatus::conditions,
        "The condition Satisfied, with the reason when it is False.")
      .list_map({"type"})
      .atomic_items();
  f.add("generation", &AttachmentTicketStatus::generation,
        "Generation of the ticket that this status speaks of.");
  f.add("blockers", &AttachmentTicketStatus::blockers,
        "What the ticket waits for; empty once it is satisfied.")
      .omit_empty();
}

MOOR_DESCRIBE(VolumeAttachmentSpec, "The tickets of one volume.") {
  f.add("attachmentTickets", &VolumeAttachmentSpec::attachment_tickets,
        "Requests for the volume, by their id.");
  f.add("volume", &VolumeAttachmentSpec::volume, "Name of the volume.").required().not_empty().immutable();
}

MOOR_DESCRIBE(VolumeAttachmentStatus, "How the tickets fare.") {
  f.add("attachmentTicketStatuses", &VolumeAttachmentStatus::attachment_ticket_statuses,
        "How each ticket fares, by its id.");
}

MOOR_DESCRIBE(VolumeAttachment,
              "The book of one volume: who asks for it, where, and what each request waits for.") {
  f.type_meta(kApiVersion, "VolumeAttachment");
  f.add("metadata", &VolumeAttachment::metadata, "Name, labels and the rest of the metadata.");
  f.add("spec", &VolumeAttachment::spec, "The tickets.");
  f.add("status", &VolumeAttachment::status, "How the tickets fare.");
}

namespace {

const Json* tickets_of(const Json& object) {
  const Json* tickets = object.find_path({"spec", "attachmentTickets"});
  return tickets != nullptr && tickets->is_object() ? tickets : nullptr;
}

const Json* status_of(const Json& object, std::string_view id) {
  const Json* statuses = object.find_path({"status", "attachmentTicketStatuses"});
  return statuses == nullptr ? nullptr : statuses->find(id);
}

bool is_satisfied(const Json& object, std::string_view id) {
  const Json* status = status_of(object, id);
  return status != nullptr && status->get_bool("satisfied").value_or(false);
}

Json ticket_count(const Json& object, Time) {
  const Json* tickets = tickets_of(object);
  return static_cast<std::int64_t>(tickets == nullptr ? 0 : tickets->size());
}

Json satisfied_count(const Json& object, Time) {
  const Json* tickets = tickets_of(object);
  std::size_t satisfied = 0;
  for (std::size_t i = 0; tickets != nullptr && i < tickets->size(); ++i)
    satisfied += is_satisfied(object, tickets->key_at(i)) ? 1 : 0;
  return fmt::format("{}/{}", satisfied, tickets == nullptr ? 0 : tickets->size());
}

// The nodes that satisfied tickets are on: one, or two in a move.
Json attached_nodes(const Json& object, Time) {
  std::set<std::string> nodes;
  const Json* tickets = tickets_of(object);
  for (std::size_t i = 0; tickets != nullptr && i < tickets->size(); ++i)
    if (is_satisfied(object, tickets->key_at(i)))
      if (const auto node = tickets->value_at(i).get_string("nodeID"); node && !node->empty())
        nodes.emplace(*node);
  std::string text;
  for (const std::string& node : nodes) text += (text.empty() ? "" : ",") + node;
  return text;
}

// The first blocker of each waiting ticket: "AttachedElsewhere(node-1)".
Json waiting_for(const Json& object, Time) {
  std::string text;
  std::set<std::string> seen;
  const Json* tickets = tickets_of(object);
  for (std::size_t i = 0; tickets != nullptr && i < tickets->size(); ++i) {
    const Json* status = status_of(object, tickets->key_at(i));
    const Json* blockers = status == nullptr ? nullptr : status->find("blockers");
    if (is_satisfied(object, tickets->key_at(i)) || blockers == nullptr || !blockers->is_array() ||
        blockers->empty())
      continue;
    const Json& first = blockers->at(0);
    auto holder = first.get_string("nodeID").value_or("");
    if (holder.empty()) holder = first.get_string("holder").value_or("");
    std::string one(first.get_string("type").value_or("Unknown"));
    if (!holder.empty()) one += fmt::format("({})", holder);
    if (seen.insert(one).second) text += (text.empty() ? "" : ",") + one;
  }
  return text;
}

}  // namespace

MOOR_KIND(
    VolumeAttachment, .group = kGroup, .version = kVersion, .kind = "VolumeAttachment",
    .plural = "volumeattachments", .singular = "volumeattachment", .short_names = {"lhva"},
    .categories = {"longhorn"}, .custom = true,
    .columns =
        {{.name = "Volume", .path = ".spec.volume", .description = "Volume that the tickets are for."},
         {.name = "Node",
          .description = "Node where tickets are satisfied; two during a move.",
          .cell = attached_nodes},
         {.name = "Tickets", .type = "integer", .description = "Number of tickets.", .cell = ticket_count},
         {.name = "Satisfied",
          .description = "Tickets that have what they ask for.",
          .cell = satisfied_count},
         {.name = "Waiting-For", .description = "What stands in the way of the others.", .cell = waiting_for},
         age_column()},
    .selectable_fields = {"spec.volume"}, .check = typed_check<VolumeAttachment, validate_volume_attachment>,
    .check_update = typed_check_update<VolumeAttachment, validate_volume_attachment_update>,
    .rules_concern_status = false)

Causes validate_volume_attachment(const VolumeAttachment& attachment) {
  Causes causes;
  for (const auto& [key, ticket] : attachment.spec.attachment_tickets) {
    const std::string path = fmt::format("spec.attachmentTickets[{}]", key);
    if (ticket.id != key)
      causes.push_back(invalid(path + ".id", ticket.id, fmt::format("must be equal to its key \"{}\"", key)));
    const auto frontend = ticket.parameters.find(std::string(kParameterDisableFrontend));
    if (frontend != ticket.parameters.end() && frontend->second != "true" && frontend->second != "false" &&
        frontend->second != "any")
      causes.push_back(
          not_supported(path + ".parameters[disableFrontend]", frontend->second, {"true", "false", "any"}));
  }
  return causes;
}

Causes validate_volume_attachment_update(const VolumeAttachment& before, const VolumeAttachment& after) {
  Causes causes;
  const auto label = [](const VolumeAttachment& attachment) {
    const auto found = attachment.metadata.labels.find(std::string(kVolumeLabel));
    return found == attachment.metadata.labels.end() ? std::string() : found->second;
  };
  if (!label(before).empty() && label(before) != label(after))
    causes.push_back(immutable(fmt::format("metadata.labels[{}]", kVolumeLabel), label(after)));
  if (!before.metadata.owner_references.empty() &&
      before.metadata.owner_references != after.metadata.owner_references)
    causes.push_back(forbidden("metadata.ownerReferences", "the volume stays the owner of its attachment"));
  return causes;
}

void number_tickets(const VolumeAttachmentSpec& before, VolumeAttachmentSpec& after, Time now,
                    const VolumeAttachmentStatus& seen) {
  for (auto& [key, ticket] : after.attachment_tickets) {
    const auto found = before.attachment_tickets.find(key);
    if (found == before.attachment_tickets.end()) {
      const auto left = seen.attachment_ticket_statuses.find(key);
      ticket.generation = left == seen.attachment_ticket_statuses.end() ? 0 : left->second.generation + 1;
      ticket.requested_at = MicroTime{now};
      continue;
    }
    const AttachmentTicket& old = found->second;
    ticket.generation = old.generation;
    ticket.requested_at = old.requested_at;
    if (!(ticket == old)) ++ticket.generation;
  }
}

}  // namespace moor::model::longhorn
