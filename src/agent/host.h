// Everything an agent does to its machine, behind one interface: processes, their control sockets, commands,
// files and disks. The real one is real/real_host.h; the simulator has its own. Nothing here blocks the
// executor; all calls belong to its thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/core/node_plan.h"
#include "base/cancel.h"
#include "base/json.h"
#include "base/result.h"
#include "base/task.h"

namespace moor::agent {

// How a process ended. Of one that another agent started only the fact is known.
struct ProcessEnd {
  std::optional<int> code;
  std::optional<int> signal;
  std::string text() const;
};

// A process of ours. It outlives the agent, and this object.
class Process {
 public:
  virtual ~Process() = default;
  virtual int pid() const = 0;
  virtual void signal(int number) = 0;
  // Once. cancelled: the token's reason; the process goes on.
  virtual Task<Result<ProcessEnd>> wait(CancelToken token) = 0;
};

// A connection to a process's control socket (docs/control-protocol.md), greeted and subscribed to all
// events. Calls are answered only while somebody awaits next().
class Control {
 public:
  struct Event {
    std::string name;
    Json data;
  };
  virtual ~Control() = default;
  virtual Task<Result<Json>> call(std::string op, Json arguments) = 0;
  // An error: the connection is lost, which says nothing about the process.
  virtual Task<Result<Event>> next(CancelToken token) = 0;
};

struct ProcessSpec {
  std::string key;                     // one process per key, ever at a time
  std::vector<std::string> arguments;  // after the program's name
  Json record;                         // kept durably, and written before the process exists
};

struct FoundProcess {
  std::string key;
  Json record;
  std::unique_ptr<Process> process;  // null: it has ended
};

struct Command {
  std::vector<std::string> arguments;  // the program first; "moorblk" is our own
  Duration limit = std::chrono::seconds(60);
};

class Host {
 public:
  virtual ~Host() = default;

  // Where things of a key lie; the host removes stale ones when it starts a process.
  virtual std::string control_path(const std::string& key) const = 0;
  virtual std::string socket_path(const std::string& key) const = 0;
  virtual std::string token_path(const std::string& key) const = 0;

  // The record is durable before the process is made; already_exists: one of this key lives.
  virtual Task<Result<std::unique_ptr<Process>>> start(ProcessSpec spec) = 0;
  // Everything that was ever started here and not forgotten, dead or alive.
  virtual Task<Result<std::vector<FoundProcess>>> find_all() = 0;
  // Another record for this key, durably, whether or not its process lives.
  virtual Task<Result<void>> write_record(std::string key, Json record) = 0;
  // The record and what else is left of a process that has ended.
  virtual Task<Result<void>> forget(std::string key) = 0;
  // What it printed on its standard output; the end of its log, for people.
  virtual Task<Result<std::string>> output(std::string key) = 0;
  virtual Task<std::string> last_words(std::string key) = 0;
  // Waits until the process listens; ends early with the token.
  virtual Task<Result<std::unique_ptr<Control>>> connect(std::string key, CancelToken token) = 0;

  // Runs to its end. The error, if it failed, carries what it printed.
  virtual Task<Result<std::string>> run(Command command) = 0;

  virtual Task<Result<bool>> exists(std::string path) = 0;
  virtual Task<Result<void>> make_directory(std::string path) = 0;
  virtual Task<Result<void>> remove_tree(std::string path) = 0;
  virtual Task<Result<void>> rename(std::string from, std::string to) = 0;  // durable
  virtual Task<Result<std::string>> read_file(std::string path) = 0;
  virtual Task<Result<void>> write_file(std::string path, std::string content) = 0;  // durable, mode 0600
  // `may_mark`: a directory without an identity gets one, and is made if need be.
  virtual Task<DiskFacts> look_at_disk(std::string path, bool may_mark) = 0;
  // Who has a block device open: "mounted at /mnt", "pid 4711 (fio)". Empty: nobody that can be seen.
  virtual Task<std::vector<std::string>> users_of(std::string device) = 0;
  virtual Task<Result<std::string>> boot_id() = 0;
  virtual Task<std::string> kernel_version() = 0;
};

}  // namespace moor::agent
