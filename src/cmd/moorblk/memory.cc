// moorblk memory: a RAM export, the floor of what the protocol and the loop cost.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "block/io/address.h"
#include "block/io/control_server.h"
#include "block/io/loop.h"
#include "block/io/memory_backend.h"
#include "block/io/nbd_front.h"
#include "block/io/tls.h"
#include "cmd/moorblk/commands.h"

namespace moor::cmd {

namespace {

struct MemoryOptions {
  std::string listen;
  std::string size = "1Gi";
  std::string name = "memory";
  std::string control;
  std::string export_id;
  block::io::TlsFiles tls;
};

void add_handlers(block::io::ControlServer& control, block::io::Loop& loop, block::io::MemoryBackend& backend,
                  block::io::NbdFront& front) {
  control.on("status", [&](const Json&, block::io::Responder responder) {
    responder.reply(Json::object({{"size", backend.size()},
                                  {"allocated", backend.allocated_bytes()},
                                  {"connections", front.connections()}}));
  });
  control.on("stats", [&](const Json&, block::io::Responder responder) {
    responder.reply(Json::object({{"requests", backend.requests()},
                                  {"turns", loop.statistics().turns},
                                  {"completions", loop.statistics().completions}}));
  });
  control.on("shutdown", [&](const Json&, block::io::Responder responder) {
    responder.reply(Json::object());
    control.publish("stopping", Json::object());
    loop.stop();
  });
}

Result<void> serve(const MemoryOptions& options) {
  TRY(const auto size, parse_size(options.size));
  TRY(const auto address, block::io::parse_address(options.listen));
  TRY(const auto loop, block::io::Loop::create());
  TRY(const auto backend, block::io::MemoryBackend::create(size, options.name));
  std::unique_ptr<block::io::TlsContext> tls;
  if (!options.tls.certificate.empty()) {
    TRY(tls, block::io::TlsContext::server(options.tls));
  }
  block::BufferPool pool;
  block::io::NbdFrontOptions front_options;
  front_options.tls = tls.get();
  block::io::NbdFront front(*loop, pool, *backend, front_options);
  backend->attach(front);
  backend->set_export_id(options.export_id.empty()
                             ? fmt::format("memory-{}-{}", ::getpid(), RealClock().wall().since_epoch.count())
                             : options.export_id);
  TRY(const auto bound, front.listen(address));
  block::io::ControlServer control(*loop, pool, Json::object({{"program", "memory"}, {"pid", ::getpid()}}));
  if (!options.control.empty()) {
    add_handlers(control, *loop, *backend, front);
    TRY(const auto path, block::io::parse_address("unix:" + options.control));
    TRY_VOID(control.listen(path));
  }
  TRY_VOID(loop->on_signals({SIGTERM, SIGINT}, [&](int) { loop->stop(); }));
  fmt::print("ready {}\n", bound.text);
  std::fflush(stdout);
  TRY_VOID(loop->run());
  if (address.is_unix()) std::remove(options.listen.substr(5).c_str());
  if (!options.control.empty()) std::remove(options.control.c_str());
  return {};
}

}  // namespace

void add_memory(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<MemoryOptions>();  // lives as long as the command's callbacks do
  auto* command =
      app.add_subcommand("memory", "Serve RAM over NBD: for tests and benchmarks, data is lost at exit");
  command->add_option("--listen", options->listen, "unix:PATH or tcp:HOST:PORT")->required();
  command->add_option("--size", options->size, "size of the export")->capture_default_str();
  command->add_option("--name", options->name, "name of the export; the empty name finds it too")
      ->capture_default_str();
  command->add_option("--control", options->control, "path of a control socket (status, stats, shutdown)");
  command->add_option("--export-id", options->export_id,
                      "for tests of clients: claims to be the volume of an earlier process");
  command->add_option("--tls-certificate", options->tls.certificate, "PEM file; TCP then requires TLS");
  command->add_option("--tls-key", options->tls.key, "PEM file");
  command->add_option("--tls-authority", options->tls.authority,
                      "PEM file; clients must show a certificate of it");
  command->footer(
      "Examples:\n"
      "  moorblk memory --listen unix:/run/ram.sock --size 1Gi\n"
      "  nbdcopy disk.img 'nbd+unix:///?socket=/run/ram.sock'");
  command->callback([options, &chosen] {
    chosen = [options] {
      const auto served = serve(*options);
      if (served) return 0;
      log_error("moorblk memory failed", {{"error", served.error()}});
      return 1;
    };
  });
}

}  // namespace moor::cmd
