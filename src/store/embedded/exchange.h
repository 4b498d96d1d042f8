// Export and import of an embedded store as lines of JSON, for backups that people can read and for moving
// house.
//
//   {"format":"mooring-store-export","version":1,"revision":42,"entries":2,"leases":1}
//   {"lease":1,"ttlNanoseconds":60000000000}
//   {"key":"/a","revision":7,"value":"text"}
//   {"key":"/b","revision":42,"lease":1,"value64":"AP8="}       bytes that are no UTF-8 (key64 for such keys)
//   {"end":"mooring-store-export","xxh3":"0123456789abcdef"}    of all bytes before this line
//
// Entries come by revision. An export is the newest state, not the history.
//
// Import keeps each entry's revision, so that whoever remembers one can still compare with it. The store's
// own revision then goes `revision_gap` above the highest that the export (and the store it replaces) knew:
// clients may have seen revisions that were written after the export, and must not meet them again with
// another meaning. All of them list again, because everything before counts as compacted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>

#include "base/result.h"
#include "store/embedded/maintenance.h"

namespace moor::store::embedded {

struct ExportSummary {
  Revision revision = 0;
  std::uint64_t entries = 0;
  std::uint64_t leases = 0;
};
Result<ExportSummary> export_store(const Place& place, std::ostream& out, const Progress& progress = {});

struct ImportOptions {
  bool force = false;  // replace a store that has entries or is damaged; it is kept beside the new one
  std::uint64_t revision_gap = 1'000'000;
};
struct ImportSummary {
  Revision exported_revision = 0;
  Revision revision = 0;
  std::uint64_t entries = 0;
  std::uint64_t leases = 0;
  std::string replaced;  // the file that the old store was kept as; "" when there was nothing to keep
  std::string warning;   // "" or what the person should know
};
// The new store takes the place of the old one in one step, after the whole export has been read and
// verified: an import that fails changes nothing. already_exists: there is a store with entries, and no
// force. invalid: not an export, cut off or altered; the message names the line.
Result<ImportSummary> import_store(const Place& place, std::istream& in, const ImportOptions& options = {},
                                   const Progress& progress = {});

}  // namespace moor::store::embedded
