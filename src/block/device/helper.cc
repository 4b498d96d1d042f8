#include "block/device/helper.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "block/io/address.h"

namespace moor::block::device {

namespace {

constexpr std::size_t kMaxAnswer = 4096;

[[noreturn]] void child(int socket, const Work& work) {
  if (::dup2(socket, 3) < 0 || ::close_range(4, ~0u, 0) != 0) ::_exit(1);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const auto result = work();
  std::string answer =
      result ? "\xff" + *result : static_cast<char>(result.error().code) + result.error().message;
  answer.resize(std::min(answer.size(), kMaxAnswer));
  const auto sent = ::send(3, answer.data(), answer.size(), MSG_NOSIGNAL);
  ::_exit(sent == static_cast<ssize_t>(answer.size()) ? 0 : 1);
}

class Child final : public io::Retired, public io::Completion {
 public:
  Child(io::Loop& loop, io::Descriptor socket, pid_t pid, WorkDone done)
      : loop_(loop), socket_(std::move(socket)), pid_(pid), done_(std::move(done)) {
    loop_.receive(*this, socket_.get(), std::as_writable_bytes(std::span(answer_)));
  }
  void on_complete(int result) override {
    // It has sent its answer as one message and only exits now, or it is dead.
    ::waitpid(pid_, nullptr, 0);
    Result<std::string> outcome = make_error(Errc::unavailable, "a helper process died");
    if (result > 0) {
      std::string text(answer_.data() + 1, static_cast<std::size_t>(result) - 1);
      if (answer_[0] == '\xff') {
        outcome = std::move(text);
      } else {
        outcome = make_error(static_cast<Errc>(answer_[0]), std::move(text));
      }
    }
    done_(std::move(outcome));
    loop_.retired_done(*this);
  }

 private:
  io::Loop& loop_;
  io::Descriptor socket_;
  pid_t pid_;
  WorkDone done_;
  std::array<char, kMaxAnswer> answer_{};
};

}  // namespace

void run_in_child(io::Loop& loop, Work work, WorkDone done) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return done(errno_error(errno, "socketpair"));
  }
  io::Descriptor ours(sockets[0]);
  const io::Descriptor theirs(sockets[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return done(errno_error(errno, "fork"));
  if (pid == 0) child(theirs.get(), work);
  loop.retire(std::make_unique<Child>(loop, std::move(ours), pid, std::move(done)));
}

}  // namespace moor::block::device
