// The embedded store: everything in memory, durable in one directory through SQLite. The default store of a
// single server. README.md in this folder says what it promises and how.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/executor.h"
#include "store/embedded/sqlite_journal.h"
#include "store/journaled_store.h"
#include "store/store.h"

namespace moor::store {

struct EmbeddedOptions {
  JournaledOptions journaled;
  embedded::CheckpointOptions checkpoint;
  std::string vfs;  // for tests: the SQLite layer that the files are reached through
};

// Makes the directory and an empty store when there is none. Verifies everything while loading, and refuses:
//   unavailable  another process (named) has it open
//   corrupt      damaged: the message says what and what to do; nothing was changed
//   unsupported  written by a newer format
//   invalid      the file belongs to another program
// Blocks while it reads the file. The executor must outlive the store.
Result<std::unique_ptr<Store>> open_embedded_store(Executor& executor, const std::filesystem::path& directory,
                                                   EmbeddedOptions options = {});

}  // namespace moor::store
