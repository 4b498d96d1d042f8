// One imagined process: what it answers on its control socket, what it says by itself, when it ends. Private
// to this room. One executor's thread.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/host.h"
#include "base/completion.h"
#include "base/executor.h"

namespace moor::agent {

struct HollowProcess {
  HollowProcess(Executor& executor_, ProcessSpec spec_, int pid_);

  // The value after an option, "" when it is absent; all of one that may come several times.
  std::string option(std::string_view name) const;
  std::vector<std::string> options(std::string_view name) const;
  std::string role() const { return spec.arguments.empty() ? "" : spec.arguments.front(); }

  Json status() const;
  Result<Json> answer(const std::string& op, const Json& arguments);
  void say(std::string name, Json data);
  void end(int code);
  void wake();

  Executor& executor;
  ProcessSpec spec;
  int pid;
  std::optional<ProcessEnd> ended;
  // An engine: where its membership stands.
  std::int64_t generation = 0;
  std::string export_id;
  bool confirmed = false;  // serves
  std::int64_t epoch = 0;
  bool standby = false;
  bool holding = false;
  std::string source;  // of a standby

  std::deque<Control::Event> events;  // for the one connection that an agent has
  std::vector<Completion<bool>> waiting;

 private:
  Json members() const;
  Json proposal() const;
  Json engine_status() const;
};

std::unique_ptr<Process> view_process(std::shared_ptr<HollowProcess> process);
std::unique_ptr<Control> view_control(std::shared_ptr<HollowProcess> process);

}  // namespace moor::agent
