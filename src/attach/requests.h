// Calls that say "attach" and "detach" (the /v1 door, CSI, the command line) turned into changes of tickets.
// A ticket waits; a caller wants an answer. So here is what such a call may ask, which tickets it writes or
// removes, and when it can be acknowledged. What becomes of the tickets is decided elsewhere (decide.h).
//
// Pure: the caller writes the change conditioned on the version of the VolumeAttachment that it read, and
// asks again when that has changed.
//
// A call refused here leaves nothing behind; the same wish written as a ticket by hand waits instead.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attach/book.h"
#include "attach/tickets.h"
#include "base/result.h"

namespace moor::attach {

struct AttachRequest {
  std::string node;
  bool disable_frontend = false;  // maintenance mode
  std::string attached_by = {};
  std::string type = {};    // empty: longhorn-api
  std::string ticket = {};  // empty: one per type and node, so that the same call finds its own
};

struct DetachRequest {
  std::string ticket = {};  // empty: the tickets of workloads; those of controllers leave by name only
  std::string node = {};    // empty: all nodes
  bool force = false;       // every ticket there is, whoever made it
};

// What the call amounts to, for audit and events.
enum class RequestEffect { nothing, attach, start_move, detach, confirm_move, roll_back_move };
std::string_view to_string(RequestEffect effect);

struct TicketChange {
  RequestEffect effect = RequestEffect::nothing;
  std::optional<AttachmentTicket> write = {};
  std::vector<std::string> remove = {};
  // The call is acknowledged when this ticket is satisfied: the destination of a move, which its caller will
  // use at once. Empty: with the change itself; the caller follows the volume's state.
  std::string acknowledge_with = {};
  bool any() const { return write.has_value() || !remove.empty(); }
};

// `node` says what is known of the request's node; absent: there is no such node.
// Errc::conflict: another holds the volume, by name; Errc::not_found: no such node; Errc::unavailable: not
// now; Errc::invalid: never.
Result<TicketChange> plan_attach(const Volume& volume, const VolumeAttachment& attachment,
                                 const std::optional<NodeFacts>& node, const AttachRequest& request);
Result<TicketChange> plan_detach(const Volume& volume, const VolumeAttachment& attachment,
                                 const DetachRequest& request);

// How the ticket that an attach waits for stands. Errc::not_found: somebody removed it.
struct Acknowledgement {
  bool satisfied = false;
  std::string waits_for = {};  // in a sentence
};
Result<Acknowledgement> acknowledgement(const VolumeAttachment& attachment, const std::string& ticket);

}  // namespace moor::attach
