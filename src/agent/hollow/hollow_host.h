// A machine that is only imagined: processes start, serve and end at once, disks are large and empty, files
// are in memory. An agent on it is a whole agent otherwise, with its own identity, watches and writes: that
// is how many nodes are measured on one machine (`moord hollow`).
//
// What is imagined behaves as moorblk does where an agent can see it: a replica prints its port, an engine
// that starts without an export id asks for one through a change of the Grant before it serves, a device
// serves once its engine does. One executor's thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "agent/host.h"
#include "base/executor.h"

namespace moor::agent {

// One imagined process, shared by the host (which keeps it) and the agent's views of it.
struct HollowProcess;

class HollowHost final : public Host {
 public:
  HollowHost(Executor& executor, std::string node, std::string boot_id);
  ~HollowHost() override;

  std::string control_path(const std::string& key) const override {
    return "/hollow/" + node_ + "/" + key + ".ctl";
  }
  std::string socket_path(const std::string& key) const override {
    return "/hollow/" + node_ + "/" + key + ".sock";
  }
  std::string token_path(const std::string& key) const override {
    return "/hollow/" + node_ + "/" + key + ".token";
  }

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
  Executor& executor_;
  std::string node_;
  std::string boot_id_;
  std::map<std::string, std::shared_ptr<HollowProcess>> processes_;
  std::map<std::string, std::string> files_;  // directories count by what is in them
  int next_pid_ = 1;
};

}  // namespace moor::agent
