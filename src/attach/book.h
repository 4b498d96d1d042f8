// What a decision about one volume is made from (Book) and what it says (Decision). Plain values: the caller
// fills in the Book from what it has read, and writes the Decision in one transaction, conditioned on the
// versions of the objects that it read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attach/settings.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "model/mooring/grant.h"

namespace moor::attach {

using model::Time;
using model::longhorn::AttachmentTicketStatus;
using model::longhorn::Blocker;
using model::longhorn::Volume;
using model::longhorn::VolumeAttachment;
using model::mooring::Grant;

// A node that is not in Book::nodes does not exist.
struct NodeFacts {
  bool ready = true;            // its own word: the Ready condition is True
  bool agent_reachable = true;  // its agent renews its lease
  bool cordoned = false;
  std::optional<Time> since = {};  // since when it is not ready or not reachable
  std::string reason = {};         // why, for people
  // Attachments of *other* volumes on this node, those under way included (the node's Ledger).
  std::int64_t attachments = 0;
  std::optional<std::int64_t> attach_limit = {};  // absent: the setting node-attach-limit; 0: none
};

// How opening and closing the volume goes; what is not known stays at its default.
struct EngineFacts {
  bool failing = false;  // it ended and is being restarted
  std::int64_t restarts = 0;
  bool exhausted = false;  // no further restart is tried
  std::string error = {};  // the cause, for people
  std::optional<Time> since = {};
  std::string device_in_use_by = {};  // who keeps the device open while it is to be removed
  std::optional<Time> device_in_use_since = {};
  std::string operator_needed = {};  // what only a person can decide (S36), in a sentence
};

// What keeps the volume from being opened for want of places; a volume that can be opened with fewer replicas
// than wanted has nothing to say here.
struct StorageFacts {
  bool no_schedulable_disk = false;
  std::string detail = {};  // "3 disks: 2 not ready, 1 lacks tag ssd"
  bool insufficient_capacity = false;
  std::int64_t needed_bytes = 0;
  std::int64_t largest_free_bytes = 0;
  std::optional<Time> since = {};
};

// What is seen of a move, or would be in the way of one.
struct MoveFacts {
  std::string chains_differ = {};      // how the snapshot chains of both engines differ; empty: they do not
  std::string destination_error = {};  // why the standby does not come up
  bool source_has_no_peer = false;     // the engine was started without a way for a standby to reach it
  std::string slot_taken_on = {};      // node whose engine of an earlier move is not cleaned up yet
};

// A ticket goes when its owner is known to be gone; what was not looked up counts as alive.
enum class OwnerState { unknown, alive, gone };

struct Book {
  Volume volume = {};
  VolumeAttachment attachment = {};
  std::optional<Grant> grant = {};
  // The nodes that tickets, volume and Grant name are enough.
  std::map<std::string, NodeFacts> nodes = {};
  EngineFacts engine = {};
  StorageFacts storage = {};
  MoveFacts move = {};
  Settings settings = {};
  std::map<std::string, OwnerState> owners = {};  // by owner_key()
  Time now = {};
};

// Fields of Volume.spec to write; absent: leave.
struct VolumeChanges {
  std::optional<std::string> node_id = {};
  std::optional<std::string> migration_node_id = {};
  std::optional<bool> disable_frontend = {};
  std::optional<std::string> last_attached_by = {};
  bool any() const { return node_id || migration_node_id || disable_frontend || last_attached_by; }
  bool operator==(const VolumeChanges&) const = default;
};

struct Retirement {
  std::string ticket;
  std::string reason;  // for people
  bool operator==(const Retirement&) const = default;
};

// Something a person may want to read later; made only when something changes.
struct Notice {
  bool warning = false;
  std::string reason;  // CamelCase: Attaching, Detaching, Interrupted, MoveStarted, TicketExpired, Waiting, …
  std::string message;
  bool operator==(const Notice&) const = default;
};

struct Decision {
  VolumeChanges volume = {};
  // Every ticket that stays, by id; replaces status.attachmentTicketStatuses as a whole.
  std::map<std::string, AttachmentTicketStatus> statuses = {};
  std::vector<Retirement> retire = {};  // tickets to remove from the spec
  // The node whose attach limit this decision spends: the transaction must also write that node's Ledger
  // (S37, S45). Absent: none.
  std::optional<std::string> takes_place_on = {};
  std::optional<Time> again_at = {};  // when time alone changes the answer
  std::vector<Notice> notices = {};
};

}  // namespace moor::attach
