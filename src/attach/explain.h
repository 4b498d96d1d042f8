// From statuses and blockers to sentences: who waits for what, since when, and who can clear it. For `moor
// why` and the doors. It only reads what the rules have written and invents no reason of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attach/book.h"

namespace moor::attach {

struct Explanation {
  enum class Kind { satisfied, waiting, volume };
  Kind kind = Kind::waiting;
  std::string ticket;  // empty for lines about the volume itself
  std::optional<Blocker> blocker = {};
  std::string text;  // one line
};

// One line for each waiting ticket and blocker (in the order of the statuses), then one for each satisfied
// ticket, then what holds for the volume itself: deletion, faults, members that missed writes. Never empty.
std::vector<Explanation> explain_volume(const Volume& volume, const VolumeAttachment& attachment,
                                        const std::optional<Grant>& grant, Time now);

// "NodeNotReady: node-2 is not ready …, since 5m; cleared by …".
std::string explain_blocker(const Blocker& blocker, Time now);

// The tickets of a cycle in "waits for", in order; empty when there is none (L10). A ticket waits for another
// when a blocker's holder is that ticket.
std::vector<std::string> waiting_cycle(const VolumeAttachment& attachment);

}  // namespace moor::attach
