// FaultVfs: a layer between SQLite and the file system for tests. It fails operations on command, and it
// knows which bytes a power cut would leave: what was synced, and of the rest nothing, all, or any part.
//
// Thread-safe. Lives longer than every connection opened through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/random.h"

namespace moor::store::embedded {

class FaultVfs {
 public:
  enum class Operation { write, sync, truncate };
  enum class Failure { no_space, io_error };
  struct Fault {
    Operation operation = Operation::write;
    Failure failure = Failure::io_error;
    std::string file_ends_with;  // "" for every file
    std::uint64_t nth = 1;       // the nth such operation from now on
    bool lasting = false;        // and all after it, until clear()
    std::size_t space = 0;       // a failing write leaves so many bytes behind, at most all but one
  };
  enum class Unsynced { lost, kept, any_sectors };

  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  const std::string& name() const;
  void inject(const Fault& fault);
  void clear();
  std::uint64_t faults_hit() const;

  // Writes, syncs and truncations so far.
  std::uint64_t operations() const;
  // The nth operation from now on does not happen any more, nor does anything after it.
  void cut_power_at(std::uint64_t nth);
  bool is_cut() const;
  // What a machine would find after the cut, written into another directory under the same file names.
  void write_survivors(const std::filesystem::path& target, Unsynced unsynced, Random& random) const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace moor::store::embedded
