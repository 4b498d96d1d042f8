// Work on the directory of an embedded store while no server has it open: check, compact. `moord store` is
// made of these and of exchange.h. Each holds the DirectoryLock while it works: a store in use is
// Errc::unavailable, a directory without a store Errc::not_found.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/embedded/database.h"
#include "store/embedded/directory.h"

namespace moor::store::embedded {

// Called now and then with how far the work is. May be empty.
using Progress = std::function<void(const char* what, std::uint64_t done, std::uint64_t total)>;

struct CheckReport {
  std::vector<std::string> problems;  // none: the store is sound
  Meta meta;                          // zeros when it could not be read
  std::uint64_t keys = 0;
  std::uint64_t bytes = 0;
};
// Reads everything: SQLite's own structure, every checksum, the history. Changes nothing. Damage is a problem
// in the report; an Error means that the store could not be looked at.
Result<CheckReport> check_store(const Place& place, const Progress& progress = {});

struct CompactReport {
  Revision compacted = 0;
  std::uint64_t forgotten = 0;  // entries
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
};
// Forgets all history before the newest revision and gives the space back to the file system.
Result<CompactReport> compact_store(const Place& place, const Progress& progress = {});

// For all work on an existing store.
Result<DirectoryLock> lock_existing(const Place& place);

}  // namespace moor::store::embedded
