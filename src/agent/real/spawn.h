// Starting and finding processes that outlive us, with plain system calls. Everything here may block for a
// moment (files, fork): for threads of a pool.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace moor::agent {

// Closes what it holds.
class Handle {
 public:
  Handle() = default;
  explicit Handle(int number) : number_(number) {}
  Handle(Handle&& other) noexcept : number_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();
  int get() const { return number_; }
  int release();
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

struct Spawned {
  int pid = -1;
  Handle process;  // a pidfd
};

struct SpawnFiles {
  std::string lock;
  std::string output;
  std::string log;
};

// A session of its own, standard output and error into files, no other descriptors but the lock.
Result<Spawned> spawn_detached(const std::vector<std::string>& words, Handle lock, const SpawnFiles& files);
// The lock of a process; already_exists: one lives.
Result<Handle> take_lock(const std::string& path);
// The process that holds the lock; not_found: none.
Result<Spawned> find_holder(const std::string& path);

// Runs a program to its end; what it printed. An error when its code is not 0, or after `milliseconds`.
Result<std::string> run_to_end(const std::vector<std::string>& words, int milliseconds);

}  // namespace moor::agent
