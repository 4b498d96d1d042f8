// The directory of a dev cluster, and what runs in it. The server keeps its files in D itself (D/kubeconfig,
// D/admin.token), each node in D/nodes/node-N, logs lie in D/logs. One `moord dev` at a time: D/dev.lock is
// locked for as long as it runs and names its process.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace moor::cmd {

class DevPlace {
 public:
  // Absolute, with every directory made. Does not lock.
  static Result<DevPlace> open(const std::string& directory);

  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path node_directory(int number) const;
  std::filesystem::path log_of(const std::string& part) const {
    return directory_ / "logs" / (part + ".log");
  }
  static std::string node_name(int number) { return "node-" + std::to_string(number); }
  int known_nodes() const;  // how many there were last time; 0: none yet
  // Six characters that tell this cluster's networks from those of others on the machine.
  std::string tag() const;

 private:
  explicit DevPlace(std::filesystem::path directory) : directory_(std::move(directory)) {}
  std::filesystem::path directory_;
};

// Holds D/dev.lock. Errc::conflict: another process has it, and its id is in the message.
class DevLock {
 public:
  static Result<DevLock> take(const DevPlace& place);
  ~DevLock();
  DevLock(DevLock&& other) noexcept;
  DevLock& operator=(DevLock&&) = delete;

  // The process that has it now.
  static std::optional<pid_t> holder(const DevPlace& place);

 private:
  explicit DevLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// Block processes (moorblk) that work in the directory: they outlive agents and `moord dev`, so that I/O goes
// on; only going down ends them.
struct BlockProcess {
  pid_t pid = 0;
  std::string role;     // device, engine, replica
  std::string command;  // for messages
};
std::vector<BlockProcess> find_block_processes(const std::filesystem::path& directory);

// Devices first, then engines, then replicas, each role gone before the next is told. A device that somebody
// uses holds everything up: Errc::conflict names it, unless `force`. Blocks.
Result<void> stop_block_processes(const std::filesystem::path& directory, bool force);

}  // namespace moor::cmd
