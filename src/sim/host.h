// agent::Host on a simulated machine, for one life of its agent: every call takes time, is a crash point, and
// has no effect once the agent is severed. What it starts and writes belongs to the machine and outlives the
// agent.
#pragma once

#include "agent/host.h"
#include "sim/machine.h"

namespace moor::sim {

class HostFace final : public agent::Host {
 public:
  HostFace(Machine& machine, Caller& caller) : machine_(machine), caller_(caller) {}

  std::string control_path(const std::string& key) const override { return path(key, ".ctl"); }
  std::string socket_path(const std::string& key) const override { return path(key, ".sock"); }
  std::string token_path(const std::string& key) const override { return path(key, ".token"); }

  Task<Result<std::unique_ptr<agent::Process>>> start(agent::ProcessSpec spec) override;
  Task<Result<std::vector<agent::FoundProcess>>> find_all() override;
  Task<Result<void>> write_record(std::string key, Json record) override;
  Task<Result<void>> forget(std::string key) override;
  Task<Result<std::string>> output(std::string key) override;
  Task<std::string> last_words(std::string key) override;
  Task<Result<std::unique_ptr<agent::Control>>> connect(std::string key, CancelToken token) override;
  Task<Result<std::string>> run(agent::Command command) override;
  Task<Result<bool>> exists(std::string path) override;
  Task<Result<void>> make_directory(std::string path) override;
  Task<Result<void>> remove_tree(std::string path) override;
  Task<Result<void>> rename(std::string from, std::string to) override;
  Task<Result<std::string>> read_file(std::string path) override;
  Task<Result<void>> write_file(std::string path, std::string content) override;
  Task<agent::DiskFacts> look_at_disk(std::string path, bool may_mark) override;
  Task<std::vector<std::string>> users_of(std::string device) override;
  Task<Result<std::string>> boot_id() override;
  Task<std::string> kernel_version() override;

  // A crash point that is no call of the host.
  void pass(const std::string& what);

 private:
  std::string path(const std::string& key, const char* suffix) const {
    return "/run/" + machine_.name() + "/" + key + suffix;
  }
  // Time passes; an error: severed meanwhile.
  Task<Result<void>> enter(std::string what);
  Task<Result<void>> leave();
  Task<Result<void>> wait(Duration duration);
  void crash(bool power);

  Machine& machine_;
  Caller& caller_;
  CrashPoints::Verdict verdict_;
};

}  // namespace moor::sim
