#include "agent/real/real_process.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "http/transport.h"

namespace moor::agent {
namespace {

class RealProcess final : public Process {
 public:
  // Shared as the transport demands it: the reactor's callbacks hold it too.
  RealProcess(int pid, std::shared_ptr<http::Transport> watch) : pid_(pid), watch_(std::move(watch)) {}
  ~RealProcess() override { watch_->close(); }

  int pid() const override { return pid_; }
  // By pidfd: never to another process that got the same number.
  void signal(int number) override {
    if (!watch_->is_closed()) ::syscall(SYS_pidfd_send_signal, watch_->socket(), number, nullptr, 0);
  }

  Task<Result<ProcessEnd>> wait(CancelToken token) override {
    const std::shared_ptr<http::Transport> watch = watch_;
    const CancelCallback on_cancel(token, [watch] { watch->interrupt(); });
    while (true) {
      CO_TRY_VOID(token.check());
      co_await watch->readable();
      CO_TRY_VOID(token.check());
      if (watch->is_closed()) co_return make_error(Errc::cancelled, "no longer watched");
      siginfo_t info{};
      const int done = ::waitid(P_PIDFD, static_cast<id_t>(watch->socket()), &info, WEXITED | WNOHANG);
      if (done != 0 && errno == ECHILD) co_return ProcessEnd{};  // another agent's child
      if (done != 0) co_return errno_error(errno, "wait for a process");
      if (info.si_pid == 0) continue;
      if (info.si_code == CLD_EXITED) co_return ProcessEnd{info.si_status, std::nullopt};
      co_return ProcessEnd{std::nullopt, info.si_status};
    }
  }

 private:
  int pid_;
  std::shared_ptr<http::Transport> watch_;
};

}  // namespace

Result<std::unique_ptr<Process>> watch_process(Loop& loop, Spawned spawned) {
  if (!spawned.process) return make_error(Errc::not_found, "the process has gone");
  TRY(auto watch, http::Transport::adopt(loop, spawned.process.release()));
  return std::unique_ptr<Process>(std::make_unique<RealProcess>(spawned.pid, std::move(watch)));
}

}  // namespace moor::agent
