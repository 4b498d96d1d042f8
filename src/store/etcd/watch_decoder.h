// From etcd's events to transactions of ours. Plain data without I/O.
//
// A watch looks at everything below the root, whatever prefix its reader asked for: only so the place of an
// event among those of its etcd revision is the index of the write. etcd delivers the events of one revision
// together and in the order of the operations; the index kept with every put value and the number of writes
// in the record prove it for each transaction. A revision without a record is one that etcd made itself when
// a lease ended: removals only.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "store/etcd/layout.h"
#include "store/etcd/wire.h"
#include "store/store.h"

namespace moor::store::etcd {

struct DecodedTransaction {
  Revision last = 0;  // of its last write
  std::vector<Event> events;
};

class WatchDecoder {
 public:
  // Events at or before etcd's revision `seen` are dropped.
  WatchDecoder(Layout layout, EtcdRevision seen) : layout_(std::move(layout)), seen_(seen) {}

  // Appends the transactions that this message completes. After an error (corrupt, expired) nothing more
  // follows; what was appended before it stands.
  Result<void> add(WatchMessage message, std::vector<DecodedTransaction>& out);
  // The connection was lost: what is not complete will come again.
  void restart() { pending_.clear(); }
  // Complete up to and including this revision.
  EtcdRevision seen() const { return seen_; }

 private:
  Result<void> finish(std::vector<DecodedTransaction>& out);
  Result<DecodedTransaction> decode(EtcdRevision revision);

  Layout layout_;
  EtcdRevision seen_;
  std::vector<RawEvent> pending_;  // all of one revision
};

}  // namespace moor::store::etcd
