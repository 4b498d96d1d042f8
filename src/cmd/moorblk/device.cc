// moorblk device: shows an engine's export as a block device of this host.
#include "block/device/device.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "base/log.h"
#include "base/units.h"
#include "block/device/nbd_control.h"
#include "block/device/remove.h"
#include "block/io/address.h"
#include "block/io/control_server.h"
#include "block/io/loop.h"
#include "cmd/moorblk/commands.h"

namespace moor::cmd {

namespace {

struct DeviceCommand {
  std::string connect;
  std::string export_name;
  std::string path;
  std::string control;
  std::string start_wait = "30s";
  std::string method = "auto";
  bool no_loop = false;
  bool force_remove = false;
};

block::device::DeviceNames names_of(const DeviceCommand& command) {
  return {command.path, command.control, command.control + ".fuse"};
}

Result<void> serve(const DeviceCommand& command) {
  if (command.connect.empty()) return make_error(Errc::invalid, "--connect is needed");
  block::device::DeviceOptions options;
  TRY(options.engine, block::io::parse_address(command.connect));
  if (!options.engine.is_unix()) return make_error(Errc::unsupported, "--connect takes unix:PATH only");
  TRY(const auto wait, parse_duration(command.start_wait));
  options.start_wait = std::chrono::ceil<std::chrono::milliseconds>(wait);
  options.export_name = command.export_name;
  options.path = command.path;
  options.directory = names_of(command).directory;
  TRY(options.method, block::device::parse_method(command.no_loop ? "fuse" : command.method));
  if (options.method == block::device::Method::nbd) TRY_VOID(block::device::kernel_nbd().check());
  options.on_ready = [&](const std::string& device) {
    fmt::print("ready {} {}\n", command.path, device);
    std::fflush(stdout);
  };
  // Memory that this process asks for must not be won by writing to the device that it serves.
  if (::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0) log_debug("PR_SET_IO_FLUSHER is not permitted");

  TRY(const auto loop, block::io::Loop::create());
  block::BufferPool pool;
  block::io::ControlServer control(
      *loop, pool, Json::object({{"program", "device"}, {"pid", ::getpid()}, {"path", command.path}}));
  block::device::Device device(*loop, pool, std::move(options));
  device.add_control(control);
  TRY(const auto address, block::io::parse_address("unix:" + command.control));
  TRY_VOID(control.listen(address));
  // Having the socket means that no other process serves this device.
  TRY_VOID(block::device::remove_leftovers(names_of(command)));
  TRY_VOID(loop->on_signals({SIGTERM, SIGINT}, [&](int) { device.ask_to_end(); }));
  device.start();
  TRY_VOID(loop->run());
  std::remove(command.control.c_str());
  if (device.failure()) return *device.failure();
  return {};
}

}  // namespace

void add_device(CLI::App& app, Chosen& chosen) {
  auto shared = std::make_shared<DeviceCommand>();  // lives as long as the command's callbacks do
  auto& command = *shared;
  auto* device = app.add_subcommand("device", "Show an engine's export as a block device of this host");
  device->add_option("--connect", command.connect, "the engine: unix:PATH");
  device->add_option("--export", command.export_name, "name of the export; by default the engine's own");
  device->add_option("--path", command.path, "a link to make, to the device")->required();
  device->add_option("--control", command.control, "path of the control socket; FUSE is mounted at PATH.fuse")
      ->required();
  device->add_option("--start-wait", command.start_wait, "how long to wait for the engine at the start")
      ->capture_default_str();
  device
      ->add_option("--method", command.method,
                   "auto (nbd where the kernel has it, else fuse+loop), nbd, fuse+loop, fuse")
      ->capture_default_str();
  device->add_flag("--no-loop", command.no_loop, "the same as --method fuse: the link points to a FUSE file");
  device->add_flag("--force-remove", command.force_remove,
                   "remove the device of this path and control socket now, whatever hangs");
  device->footer(
      "Removal: SIGTERM or `moorblk ctl PATH shutdown` when nobody uses the device; a second SIGTERM "
      "forces.\n"
      "Examples:\n"
      "  moorblk device --connect unix:/run/v1.sock --path /dev/mooring/v1 --control /run/v1.dev.ctl\n"
      "  mkfs.ext4 /dev/mooring/v1 && mount /dev/mooring/v1 /mnt\n"
      "  moorblk device --path /dev/mooring/v1 --control /run/v1.dev.ctl --force-remove");
  device->callback([shared, &chosen] {
    chosen = [shared] {
      const auto done =
          shared->force_remove ? block::device::force_remove(names_of(*shared)) : serve(*shared);
      if (done) return 0;
      log_error("moorblk device failed", {{"error", done.error()}});
      return 1;
    };
  });
}

}  // namespace moor::cmd
