// The book of tickets of one volume: who wants it where, and what each ticket waits for. Same name and
// namespace as the volume. Only the attach room decides; this is what it reads and writes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/kind.h"
#include "model/longhorn/group.h"
#include "model/meta/condition.h"
#include "model/meta/object_meta.h"

namespace moor::model::longhorn {

// Types of requesters. A ticket's type stays a string: an unknown one is accepted and has priority 0.
namespace attacher {
inline constexpr std::string_view kCsi = "csi-attacher";
inline constexpr std::string_view kApi = "longhorn-api";
inline constexpr std::string_view kSnapshot = "snapshot-controller";
inline constexpr std::string_view kBackup = "backup-controller";
inline constexpr std::string_view kClone = "volume-clone-controller";
inline constexpr std::string_view kSalvage = "salvage-controller";
inline constexpr std::string_view kShareManager = "share-manager-controller";
inline constexpr std::string_view kRestore = "volume-restore-controller";
inline constexpr std::string_view kEviction = "volume-eviction-controller";
inline constexpr std::string_view kExpansion = "volume-expansion-controller";
inline constexpr std::string_view kBackingImageSource = "bim-ds-controller";
inline constexpr std::string_view kRebuilding = "volume-rebuilding-controller";
}  // namespace attacher

inline constexpr std::string_view kParameterDisableFrontend = "disableFrontend";  // true, false, any
inline constexpr std::string_view kParameterLastAttachedBy = "lastAttachedBy";
inline constexpr std::string_view kParameterActivate =
    "activate";  // "true": the destination of a move takes over
inline constexpr std::string_view kConditionSatisfied = "Satisfied";
inline constexpr std::string_view kReasonIncompatibleParameters = "AttachedWithIncompatibleParameters";

struct AttachmentTicket {
  std::string id = {};
  std::string type = {};
  std::string node_id = {};  // empty: a reservation
  std::map<std::string, std::string> parameters = {};
  std::int64_t generation = 0;
  // Beyond Longhorn: whom the ticket serves, since when, and until when.
  std::optional<ObjectReference> owner = {};
  std::optional<MicroTime> requested_at = {};  // the order of arrival
  std::optional<Time> expires_at = {};
  bool operator==(const AttachmentTicket&) const = default;
};
MOOR_DESCRIBED(AttachmentTicket);

enum class BlockerType {
  unknown,
  node_not_ready,
  node_not_found,
  attached_elsewhere,
  incompatible_parameters,
  detaching,
  reserved,
  node_attach_limit,
  no_schedulable_disk,
  insufficient_capacity,
  volume_faulted,
  volume_not_ready,
  volume_deleting,
  moving,
  expired,
  share_manager,
  agent_unreachable,
  engine_failing,
  operator_needed,
};
MOOR_ENUM_NAMES(BlockerType, "Unknown", "NodeNotReady", "NodeNotFound", "AttachedElsewhere",
                "IncompatibleParameters", "Detaching", "Reserved", "NodeAttachLimit", "NoSchedulableDisk",
                "InsufficientCapacity", "VolumeFaulted", "VolumeNotReady", "VolumeDeleting", "Moving",
                "Expired", "ShareManager", "AgentUnreachable", "EngineFailing", "OperatorNeeded")

// What a ticket waits for. The code that refuses makes it; nothing else invents one.
struct Blocker {
  BlockerType type = BlockerType::unknown;
  std::string message = {};
  std::string holder;            // ticket, node or object that stands in the way
  std::string holder_type = {};  // csi-attacher, Node, Replica, …
  std::string node_id;           // where the holder is
  std::optional<Time> since = {};
  std::string cleared_by = {};  // who can end the wait, and how
  bool operator==(const Blocker&) const = default;
};
MOOR_DESCRIBED(Blocker);

struct AttachmentTicketStatus {
  std::string id = {};
  bool satisfied = false;
  std::vector<Condition> conditions = {};
  std::int64_t generation = 0;
  std::vector<Blocker> blockers = {};  // empty once satisfied
  bool operator==(const AttachmentTicketStatus&) const = default;
};
MOOR_DESCRIBED(AttachmentTicketStatus);

struct VolumeAttachmentSpec {
  std::map<std::string, AttachmentTicket> attachment_tickets = {};  // by id
  std::string volume = {};
};
MOOR_DESCRIBED(VolumeAttachmentSpec);

struct VolumeAttachmentStatus {
  std::map<std::string, AttachmentTicketStatus> attachment_ticket_statuses = {};
};
MOOR_DESCRIBED(VolumeAttachmentStatus);

struct VolumeAttachment {
  ObjectMeta metadata = {};
  VolumeAttachmentSpec spec = {};
  VolumeAttachmentStatus status = {};
};
MOOR_DESCRIBED_KIND(VolumeAttachment);

Causes validate_volume_attachment(const VolumeAttachment& attachment);
// spec.volume, the owner references and the volume label stay as they were made.
Causes validate_volume_attachment_update(const VolumeAttachment& before, const VolumeAttachment& after);

// Bumps the generation of each ticket whose wanted state differs from `before` (absent: a new one) and gives
// new tickets their time of arrival. The server does this on every write; what the sender put there does not
// count. `seen` is the status as stored: a ticket that comes back under an old id is numbered above the
// status that its forerunner left there, or that would be taken for its own (S15).
void number_tickets(const VolumeAttachmentSpec& before, VolumeAttachmentSpec& after, Time now,
                    const VolumeAttachmentStatus& seen = {});

}  // namespace moor::model::longhorn
