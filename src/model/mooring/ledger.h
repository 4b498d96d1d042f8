// The Ledger of a node, same name as the node: what of the node's limits is given out. Every decision that
// spends a limit writes it in its own transaction, so that two decisions can never spend the same room (S37,
// S45). Controllers write it; nobody else needs to.
#pragma once

#include <map>

#include "model/kind.h"
#include "model/meta/object_meta.h"
#include "model/mooring/group.h"

namespace moor::model::mooring {

// One place among the volumes that may be attached to the node at once.
struct LedgerAttachment {
  std::optional<Time> since = {};
  bool operator==(const LedgerAttachment&) const = default;
};
MOOR_DESCRIBED(LedgerAttachment);

struct LedgerSpec {
  std::map<std::string, LedgerAttachment> attachments = {};               // by namespace/volume
  std::map<std::string, std::map<std::string, std::int64_t>> disks = {};  // disk → namespace/replica → bytes
};
MOOR_DESCRIBED(LedgerSpec);

struct Ledger {
  ObjectMeta metadata = {};
  LedgerSpec spec = {};
};
MOOR_DESCRIBED_KIND(Ledger);

}  // namespace moor::model::mooring
