// moorblk replica: makes, serves and checks the directory of one replica.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <optional>

#include "base/log.h"
#include "base/units.h"
#include "block/core/replica_check.h"
#include "block/io/tls.h"
#include "block/store/replica_server.h"
#include "cmd/moorblk/commands.h"
#include "cmd/moorblk/token_file.h"

namespace moor::cmd {

namespace {

struct ReplicaOptions {
  std::string directory;
  std::string size = "1Gi";
  std::string volume;
  std::string token_file;
  std::string listen;
  std::string control;
  block::io::TlsFiles tls;
};

// Runs one task to its end on a directory, with nothing else going on.
template <class T>
T run_alone(block::PlainDisk& disk, block::Runner& runner, block::Task<T> task) {
  std::optional<T> outcome;
  struct Keep {
    static block::Task<void> result(block::Task<T> work, std::optional<T>& into) {
      into.emplace(co_await std::move(work));
    }
  };
  runner.spawn(Keep::result(std::move(task), outcome));
  do {
    runner.run();
  } while (disk.run_one());
  runner.run();
  return std::move(*outcome);
}

Result<void> create(const ReplicaOptions& options) {
  block::ReplicaCreate wanted;
  TRY(wanted.size, parse_size(options.size));
  wanted.volume = options.volume;
  if (!options.token_file.empty()) {
    TRY(wanted.token, read_token(options.token_file));
  }
  TRY(const auto directory, block::Directory::create(options.directory));
  block::PlainDisk disk(*directory);
  block::Runner runner;
  block::DiskFiles files(disk, runner);
  return run_alone(disk, runner, block::ReplicaStore::create(files, wanted));
}

Result<void> check(const ReplicaOptions& options) {
  TRY(const auto directory, block::Directory::open(options.directory));
  block::PlainDisk disk(*directory);
  block::Runner runner;
  block::DiskFiles files(disk, runner);
  block::BufferPool pool;
  const block::CheckReport report = run_alone(disk, runner, block::check_replica(files, pool));
  for (const auto& note : report.notes) fmt::print("note: {}\n", note);
  for (const auto& problem : report.problems) fmt::print("damage: {}\n", problem);
  fmt::print("{} layers, {} blocks of data, {} verified by checksum, {} problems\n", report.layers,
             report.data_blocks, report.verified_blocks, report.problems.size());
  if (!report.problems.empty()) return make_error(Errc::corrupt, "the replica is damaged");
  return {};
}

// 250 layers have 500 files; the usual soft limit is 1024 for everything.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<void> serve(const ReplicaOptions& options) {
  raise_file_limit();
  TRY(const auto address, block::io::parse_address(options.listen));
  TRY(const auto directory, block::Directory::open(options.directory));
  TRY(const auto loop, block::io::Loop::create());
  std::unique_ptr<block::io::TlsContext> tls;
  if (!options.tls.certificate.empty()) {
    TRY(tls, block::io::TlsContext::server(options.tls));
  }
  block::BufferPool pool;
  block::io::NbdFrontOptions front_options;
  front_options.tls = tls.get();
  std::optional<Result<void>> opened;
  std::optional<Result<void>> stopped;
  block::ReplicaServer server(*loop, pool, *directory, front_options,
                              {[&](const Result<void>& outcome) {
                                 opened = outcome;
                                 loop->stop();
                               },
                               [&](const Result<void>& outcome) {
                                 stopped = outcome;
                                 loop->stop();
                               }});
  server.open();
  // Both words may come at the beginning of a turn; without stop() that turn would still wait for events.
  while (!opened) TRY_VOID(loop->run());
  if (!opened->ok()) return Error(opened->error()).with_context(options.directory);

  block::io::ControlServer control(*loop, pool,
                                   Json::object({{"kind", "replica"}, {"directory", options.directory}}));
  server.register_control(control);
  if (!options.control.empty()) {
    TRY(const auto control_address, block::io::parse_address("unix:" + options.control));
    TRY_VOID(control.listen(control_address));
  }
  TRY_VOID(loop->on_signals({SIGTERM, SIGINT}, [&](int) { server.stop(); }));
  TRY(const auto bound, server.listen(address));
  fmt::print("ready {}\n", bound.text);
  std::fflush(stdout);
  while (!stopped) TRY_VOID(loop->run());
  // A few more turns, so that the last words reach those who listen.
  for (int turn = 0; turn < 3; ++turn) TRY_VOID(loop->run_once(std::chrono::milliseconds(1)));
  if (address.is_unix()) std::remove(options.listen.substr(5).c_str());
  if (!options.control.empty()) std::remove(options.control.c_str());
  return *stopped;
}

using Action = Result<void> (*)(const ReplicaOptions&);

void run_as(CLI::App& command, const std::shared_ptr<ReplicaOptions>& options, Chosen& chosen,
            Action action) {
  command.add_option("DIR", options->directory, "directory of the replica")->required();
  command.callback([options, &chosen, action] {
    chosen = [options, action] {
      const auto done = action(*options);
      if (done) return 0;
      fmt::print(stderr, "moorblk replica: {}\n", done.error().message);
      return 1;
    };
  });
}

}  // namespace

void add_replica(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<ReplicaOptions>();  // lives as long as the command's callbacks do
  auto* replica = app.add_subcommand("replica", "One copy of a volume in a directory")->require_subcommand(1);

  auto* created = replica->add_subcommand("create", "Make an empty replica");
  created->add_option("--size", options->size, "size of the volume, whole 4 KiB blocks")
      ->capture_default_str();
  created->add_option("--volume", options->volume, "serve only engines of this volume");
  created->add_option(
      "--token-file", options->token_file,
      "obey only engines that know the token in this file; without it any engine is obeyed, and "
      "plain NBD clients may use the replica while no engine holds it: for trying things out");
  created->footer("Example:\n  moorblk replica create /tmp/r1 --size 1Gi");
  run_as(*created, options, chosen, create);

  auto* served = replica->add_subcommand("serve", "Serve a replica until SIGTERM");
  served->add_option("--listen", options->listen, "unix:PATH or tcp:HOST:PORT")->required();
  served->add_option("--control", options->control, "path of the control socket (moorblk ctl PATH status)");
  served->add_option("--tls-certificate", options->tls.certificate, "PEM file; TCP then requires TLS");
  served->add_option("--tls-key", options->tls.key, "PEM file");
  served->add_option("--tls-authority", options->tls.authority,
                     "PEM file; engines must show a certificate of it");
  served->footer(
      "Example:\n"
      "  moorblk replica serve /tmp/r1 --listen unix:/tmp/r1.sock --control /tmp/r1.ctl\n"
      "  nbdinfo 'nbd+unix:///?socket=/tmp/r1.sock'");
  run_as(*served, options, chosen, serve);

  auto* checked =
      replica->add_subcommand("check", "Verify everything in a replica's directory; changes nothing");
  checked->footer("Example:\n  moorblk replica check /tmp/r1");
  run_as(*checked, options, chosen, check);
}

}  // namespace moor::cmd
