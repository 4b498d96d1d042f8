// A program that runs as our child and is started again when it ends, until told to stop. For `moord dev`:
// the server and each agent are processes of their own there, as on a real cluster, so that one of them can
// be killed without the others and whatever works here works there.
//
// A child ends with us (the kernel sends it SIGTERM if we die without a word), writes to a log file, has its
// own process group (Ctrl-C reaches only us: we stop them in order), and may live in a network namespace.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/executor.h"
#include "base/result.h"
#include "base/task.h"

namespace moor::cmd {

struct ChildSpec {
  std::string name;
  // The first is the program. Asked for at each start: a server that chose its port keeps it.
  std::function<std::vector<std::string>()> arguments;
  std::filesystem::path log;  // stderr is appended; stdout too, unless on_line is set
  std::string network;        // of `ip netns`; empty: ours
  // Each line of its stdout, on the executor's thread.
  std::function<void(std::string)> on_line = {};
};

// Until the token is cancelled: then SIGTERM, and SIGKILL to one that does not obey in time. A child that
// ends by itself is started again after a pause that doubles while it keeps dying young.
// `may_fail_first`: when false, a child that ends before it printed its first line is an error at once, with
// the end of its log: it will not do better next time (port taken, directory damaged).
struct Supervision {
  bool may_fail_first = true;
  Duration shortest_pause = std::chrono::milliseconds(200);
  Duration longest_pause = std::chrono::seconds(5);
  Duration long_life = std::chrono::seconds(5);
  Duration stop_grace = std::chrono::seconds(15);
};
Task<Result<void>> supervise(Executor& executor, ChildSpec spec, Supervision how, CancelToken token);

// Runs a program to its end and answers what it printed; an error carries its stderr. Blocks: for short ones.
Result<std::string> run_program(const std::vector<std::string>& arguments);

}  // namespace moor::cmd
