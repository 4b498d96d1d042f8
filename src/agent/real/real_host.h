// The machine as it is: processes that outlive the agent, control sockets on the loop, files and disks
// through a pool of threads.
//
//   D/run/KEY.json   the record, durable before the process exists
//   D/run/KEY.lock   locked by the process itself for as long as it lives (it inherits the descriptor), with
//   its
//                    pid inside: who holds the lock is alive, whatever became of the agent that started it,
//                    and a pid that was given to somebody else is never mistaken for it
//   D/run/KEY.ctl    its control socket      D/run/KEY.sock  where it serves      D/run/KEY.out  what it
//   printed D/run/KEY.token  a volume's secret (0600)                                     D/log/KEY.log  its
//   log
#pragma once

#include <memory>
#include <string>

#include "agent/host.h"
#include "base/loop.h"
#include "base/pool.h"
#include "base/random.h"

namespace moor::agent {

struct RealHostOptions {
  std::string directory;  // D
  std::string program;    // moorblk
};

class RealHost final : public Host {
 public:
  // Makes D/run and D/log. invalid: D is too long for the path of a socket.
  static Result<std::unique_ptr<RealHost>> make(Loop& loop, Random& random, RealHostOptions options);

  std::string control_path(const std::string& key) const override { return in_run(key, ".ctl"); }
  std::string socket_path(const std::string& key) const override { return in_run(key, ".sock"); }
  std::string token_path(const std::string& key) const override { return in_run(key, ".token"); }
  Task<Result<std::unique_ptr<Process>>> start(ProcessSpec spec) override;
  Task<Result<std::vector<FoundProcess>>> find_all() override;
  Task<Result<void>> write_record(std::string key, Json record) override;
  Task<Result<void>> forget(std::string key) override;
  Task<Result<std::string>> output(std::string key) override;
  Task<std::string> last_words(std::string key) override;
  Task<Result<std::unique_ptr<Control>>> connect(std::string key, CancelToken token) override;
  Task<Result<std::string>> run(Command command) override;
  Task<Result<bool>> exists(std::string path) override;
  Task<Result<void>> make_directory(std::string path) override;
  Task<Result<void>> remove_tree(std::string path) override;
  Task<Result<void>> rename(std::string from, std::string to) override;
  Task<Result<std::string>> read_file(std::string path) override;
  Task<Result<void>> write_file(std::string path, std::string content) override;
  Task<DiskFacts> look_at_disk(std::string path, bool may_mark) override;
  Task<std::vector<std::string>> users_of(std::string device) override;
  Task<Result<std::string>> boot_id() override;
  Task<std::string> kernel_version() override;

 private:
  RealHost(Loop& loop, Random& random, RealHostOptions options)
      : loop_(loop), random_(random), options_(std::move(options)), pool_(loop, 4) {}
  std::string in_run(const std::string& key, std::string_view suffix) const {
    return options_.directory + "/run/" + key + std::string(suffix);
  }
  std::string log_path(const std::string& key) const { return options_.directory + "/log/" + key + ".log"; }

  Loop& loop_;
  Random& random_;
  RealHostOptions options_;
  Pool pool_;
};

}  // namespace moor::agent
