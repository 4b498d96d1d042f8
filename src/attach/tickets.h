// What a ticket means by itself: its type and priority, the order among tickets, whom it serves, how it wants
// the volume, and until when it counts. Pure functions; every answer depends on the arguments alone.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attach/settings.h"
#include "model/cause.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"

namespace moor::attach {

using model::Time;
using model::longhorn::AttachmentTicket;
using model::longhorn::Volume;
using model::longhorn::VolumeAttachment;

struct TicketType {
  std::string_view name;
  int priority = 0;
  bool workload = false;       // its owner uses the data: csi, api, share manager
  bool interruptible = false;  // can be taken off the volume and try again later
};

// The twelve types, best first. A type that is not listed has priority 0 and is neither workload nor
// interruptible.
const std::vector<TicketType>& ticket_types();
TicketType ticket_type(std::string_view name);

bool is_workload(const AttachmentTicket& ticket);
// A clone's ticket can be interrupted only once its data are copied, which the volume knows.
bool is_interruptible(const AttachmentTicket& ticket, const Volume& volume);
// A ticket without a node keeps others away and attaches nothing.
bool is_reservation(const AttachmentTicket& ticket);

// The order of selection (S19), total and deterministic: priority, then the shorter id, then the smaller id;
// with TieBreak::arrival: priority, arrival, id. `less` means "is chosen before".
std::strong_ordering compare_tickets(const AttachmentTicket& left, const AttachmentTicket& right,
                                     TieBreak tie_break);

// Whom a ticket serves, as text that can be compared: "Pod/default/web-0/<uid>"; a ticket without an owner
// serves itself ("ticket/<id>").
std::string owner_key(const AttachmentTicket& ticket);
std::string owner_key(const model::ObjectReference& owner);

// How a ticket wants the front end. Absent in the ticket means `enabled`, as in Longhorn.
enum class FrontendWish { enabled, disabled, any };
FrontendWish frontend_wish(const AttachmentTicket& ticket);
// Whether a volume that is attached with this front end serves the ticket.
bool is_compatible(const AttachmentTicket& ticket, bool frontend_disabled);

// When the ticket lapses: its own expiresAt, else for tickets of the plain API the setting
// `api-ticket-expiry`; absent: never.
std::optional<Time> expiry_of(const AttachmentTicket& ticket, const Settings& settings);

// The node of such a ticket is where its client is; the share manager's ticket says where the volume goes
// (S17).
bool is_served_by_share(const AttachmentTicket& ticket, const Volume& volume);
// Modes in which the volume serves one owner at a time, unless tickets agree on node and parameters.
bool is_single_attach(const Volume& volume);

// What admission says about a change of the tickets, beyond what the object itself can tell: a ticket stays
// with its owner; a migratable volume has at most two CSI tickets, and the second only once the volume is
// attached (checked only when the change adds one, so that what is there can always be mended).
model::Causes check_ticket_change(const Volume& volume, const VolumeAttachment* before,
                                  const VolumeAttachment& after);

}  // namespace moor::attach
