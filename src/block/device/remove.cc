#include "block/device/remove.h"

#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "block/device/fuse_file.h"
#include "block/device/link.h"
#include "block/device/loop_device.h"
#include "block/device/nbd_control.h"
#include "block/io/address.h"
#include "block/io/control_client.h"

namespace moor::block::device {

namespace {

constexpr std::chrono::milliseconds kAsk{1'000};
constexpr int kEndMs = 6'500;  // the process itself waits five seconds for the kernel
constexpr int kKillMs = 3'000;

// Whoever listens there, even if it does not run: the kernel knows, and a number in a file could be stale.
io::Descriptor process_behind(const std::string& control) {
  const auto address = io::parse_address("unix:" + control);
  if (!address) return {};
  const auto socket = io::connect_blocking(*address);
  ucred who{};
  socklen_t size = sizeof who;
  if (!socket || ::getsockopt(socket->get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
  return io::Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0)));
}

bool ended_within(const io::Descriptor& process, int milliseconds) {
  pollfd wait{process.get(), POLLIN, 0};
  return ::poll(&wait, 1, milliseconds) > 0;
}

bool ask(const std::string& control) {
  auto client = io::ControlClient::connect(control, kAsk);
  if (!client) return false;
  return client->call("shutdown", Json::object({{"force", true}})).ok();
}

// Only of a dead process: the driver says goodbye to whoever holds its socket, and a hung one does not
// listen.
Result<void> disconnect_leftovers(const DeviceNames& names) {
  Result<void> outcome;
  for (const std::string& device : nbds_of(names.directory)) {
    log_info("removes what was left behind", {{"device", device}});
    if (auto done = kernel_nbd().disconnect(device); !done) outcome = std::move(done);
    remove_link(names.path, {device});
  }
  return outcome;
}

Result<void> remove_fuse_leftovers(const DeviceNames& names) {
  // A detached mount hides the file's path, so the loop devices are looked for first.
  const auto devices = loops_below(names.directory);
  force_unmount(names.directory);
  Result<void> outcome;
  std::vector<std::string> targets{names.directory + "/" + FuseFile::kName};
  for (const std::string& device : devices) {
    log_info("removes what was left behind", {{"device", device}});
    if (auto detached = detach_loop_lazily(device); !detached) outcome = std::move(detached);
    targets.push_back(device);
  }
  remove_link(names.path, targets);
  if (::rmdir(names.directory.c_str()) != 0 && errno != ENOENT && outcome) {
    outcome = errno_error(errno, "rmdir " + names.directory);
  }
  return outcome;
}

}  // namespace

Result<void> remove_leftovers(const DeviceNames& names) {
  TRY_VOID(disconnect_leftovers(names));
  return remove_fuse_leftovers(names);
}

Result<void> force_remove(const DeviceNames& names) {
  const io::Descriptor process = process_behind(names.control);
  if (!process) return remove_leftovers(names);
  if (ask(names.control) && ended_within(process, kEndMs)) return remove_leftovers(names);
  log_warn("the device's process does not end; it is killed");
  (void)remove_fuse_leftovers(names);  // ends what waits in the kernel for this process; again below
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  if (!ended_within(process, kKillMs))
    return make_error(Errc::timed_out, "the device's process does not die");
  const auto outcome = remove_leftovers(names);
  ::unlink(names.control.c_str());
  return outcome;
}

}  // namespace moor::block::device
