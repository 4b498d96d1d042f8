#include "cmd/moord/stop_signals.h"

#include <unistd.h>

#include <csignal>

namespace moor::cmd {
namespace {

// SIGUSR1 is ours: it ends the waiting thread.
sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

StopSignals::StopSignals(Executor& executor, std::function<void(int)> on_stop) {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([&executor, set, on_stop = std::move(on_stop)] {
    bool asked = false;
    int signal = 0;
    while (sigwait(&set, &signal) == 0 && signal != SIGUSR1) {
      if (asked) _exit(128 + signal);
      asked = true;
      executor.post([on_stop, signal] { on_stop(signal); });
    }
  });
}

StopSignals::~StopSignals() {
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

}  // namespace moor::cmd
