#include "cmd/moord/store_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "base/units.h"
#include "store/embedded/exchange.h"
#include "store/embedded/maintenance.h"

namespace moor::cmd {
namespace {
using namespace store::embedded;

struct StoreArguments {
  std::string directory;
  std::string file = "-";
  bool force = false;
  std::uint64_t revision_gap = ImportOptions().revision_gap;
};

// To stderr, at most once a second, so that stdout stays clean and a log stays short.
Progress show_progress() {
  using Steady = std::chrono::steady_clock;
  auto last = std::make_shared<Steady::time_point>(Steady::now());  // shared: a std::function gets copied
  return [last](const char* what, std::uint64_t done, std::uint64_t total) {
    const auto now = Steady::now();
    if (now - *last < std::chrono::seconds(1)) return;
    *last = now;
    fmt::print(stderr, "{}: {} of {}\n", what, done, total);
  };
}

int fail(const Error& error) {
  fmt::print(stderr, "moord store: {}\n", error.message);
  return 1;
}

int run_export(const StoreArguments& arguments) {
  const Place place{arguments.directory, ""};
  if (arguments.file == "-") {
    auto done = export_store(place, std::cout, show_progress());
    if (!done) return fail(done.error());
    fmt::print(stderr, "exported {} entries and {} leases at revision {}\n", done->entries, done->leases,
               done->revision);
    return 0;
  }
  // Under another name until it is complete and safe: a half export must not pass for a backup.
  const std::string unfinished = arguments.file + ".unfinished";
  if (auto made = make_private_file(unfinished); !made) return fail(made.error());
  std::ofstream out(unfinished, std::ios::binary);
  auto done = export_store(place, out, show_progress());
  out.close();
  if (done && !out) done = make_error(Errc::internal, "write " + unfinished + " failed: is the disk full?");
  Result<void> kept;
  if (done) kept = sync_file(unfinished);
  if (!done || !kept) {
    unlink(unfinished.c_str());
    return fail(done ? kept.error() : done.error());
  }
  if (rename(unfinished.c_str(), arguments.file.c_str()) != 0)
    return fail(errno_error(errno, "rename " + unfinished));
  if (auto safe = sync_directory(std::filesystem::absolute(arguments.file).parent_path()); !safe)
    return fail(safe.error());
  fmt::print(stderr, "exported {} entries and {} leases at revision {} to {}\n", done->entries, done->leases,
             done->revision, arguments.file);
  return 0;
}

int run_import(const StoreArguments& arguments) {
  const Place place{arguments.directory, ""};
  std::ifstream file;
  if (arguments.file != "-") {
    file.open(arguments.file, std::ios::binary);
    if (!file) return fail(errno_error(errno, "open " + arguments.file));
  }
  std::istream& in = arguments.file == "-" ? std::cin : file;
  auto done = import_store(place, in, {arguments.force, arguments.revision_gap}, show_progress());
  if (!done) return fail(done.error());
  fmt::print("imported {} entries and {} leases of revision {}; the store goes on from revision {}\n",
             done->entries, done->leases, done->exported_revision, done->revision);
  if (!done->replaced.empty()) fmt::print("the old store is kept as {}\n", done->replaced);
  if (!done->warning.empty()) fmt::print(stderr, "warning: {}\n", done->warning);
  return 0;
}

int run_check(const StoreArguments& arguments) {
  auto report = check_store({arguments.directory, ""}, show_progress());
  if (!report) return fail(report.error());
  fmt::print("revision {}, compacted {}, {} keys, {} entries, {} leases, {} bytes\n", report->meta.revision,
             report->meta.compacted, report->keys, report->meta.entries, report->meta.leases, report->bytes);
  if (report->problems.empty()) {
    fmt::print("sound\n");
    return 0;
  }
  for (const std::string& problem : report->problems) fmt::print("damaged: {}\n", problem);
  fmt::print(
      "{} problem(s). Restore an export with `moord store import --force`; the damaged store is kept beside "
      "it.\n",
      report->problems.size());
  return 1;
}

int run_compact(const StoreArguments& arguments) {
  auto report = compact_store({arguments.directory, ""}, show_progress());
  if (!report) return fail(report.error());
  fmt::print("compacted to revision {}: {} old entries forgotten, {} bytes before, {} bytes now\n",
             report->compacted, report->forgotten, report->bytes_before, report->bytes_after);
  return 0;
}

CLI::App* add_verb(CLI::App& store, const std::string& name, const std::string& description,
                   const std::string& examples, const std::shared_ptr<StoreArguments>& arguments) {
  CLI::App* verb = store.add_subcommand(name, description);
  verb->footer("Examples:\n" + examples);
  verb->add_option("--dir", arguments->directory, "Directory of the store (with store.db in it)")->required();
  return verb;
}
}  // namespace

void add_store_command(CLI::App& app, std::function<int()>& run) {
  CLI::App* store = app.add_subcommand("store", "Look after the embedded store while no server has it open");
  store->require_subcommand(1);
  const auto arguments =
      std::make_shared<StoreArguments>();  // shared by the options and the verb that runs after parsing

  CLI::App* exporting = add_verb(*store, "export", "Write the newest state as lines of JSON",
                                 "  moord store export --dir /var/lib/mooring/store --output backup.jsonl\n"
                                 "  moord store export --dir D | zstd > backup.jsonl.zst\n",
                                 arguments);
  exporting->add_option("-o,--output", arguments->file, "File to write; - for stdout")->capture_default_str();
  exporting->callback([=, &run] { run = [=] { return run_export(*arguments); }; });

  CLI::App* importing =
      add_verb(*store, "import", "Make a store out of an export",
               "  moord store import --dir D --input backup.jsonl\n"
               "  moord store import --dir D --input backup.jsonl --force   replaces the store in D\n"
               "Entries keep their revisions; the store goes on --revision-gap above the highest one,\n"
               "so that clients that saw later revisions notice and list again. Give a larger gap when\n"
               "more than that was written since the export.\n",
               arguments);
  importing->add_option("-i,--input", arguments->file, "File to read; - for stdin")->capture_default_str();
  importing->add_flag("--force", arguments->force,
                      "Replace a store that is not empty; it is kept as store.db.replaced-N");
  importing->add_option("--revision-gap", arguments->revision_gap, "Revisions to leave out")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 50))
      ->capture_default_str();
  importing->callback([=, &run] { run = [=] { return run_import(*arguments); }; });

  CLI::App* checking =
      add_verb(*store, "check", "Verify everything and say what is wrong; exit code 1 when damaged",
               "  moord store check --dir D\n", arguments);
  checking->callback([=, &run] { run = [=] { return run_check(*arguments); }; });

  CLI::App* compacting = add_verb(*store, "compact", "Forget all history and give the space back",
                                  "  moord store compact --dir D\n", arguments);
  compacting->callback([=, &run] { run = [=] { return run_compact(*arguments); }; });
}

}  // namespace moor::cmd
