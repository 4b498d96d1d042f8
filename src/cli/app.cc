#include "cli/app.h"

#include <fmt/format.h>

#include <sstream>

#include "cli/command_line.h"
#include "cli/objects.h"
#include "registry/prepare.h"

namespace moor::cli {
namespace {

namespace lh = model::longhorn;

struct Connection {
  ClusterAccess access;
  std::string because;
  std::unique_ptr<registry::Registry> registry;
};

Outcome<Connection> connect(const CommandLine& line, const Surroundings& around) {
  auto found = find_kubeconfig(line.kubeconfig, around.environment);
  if (!found)
    return Failure{ExitCode::unreachable, found.error().message,
                   "start one with ./up.sh or: moord dev --dir ~/mooring"};
  auto access = load_kubeconfig(found->path);
  if (!access) {
    Failure failure = failure_of(access.error());
    failure.code = ExitCode::unreachable;
    failure.hint =
        fmt::format("that is what {} says; point --kubeconfig at the kubeconfig of a server", found->because);
    return failure;
  }
  Connection connection{std::move(*access), found->because, nullptr};
  TRY(connection.registry, around.connect(connection.access));
  return connection;
}

// A server that does not answer is the most common trouble of all: say which, why that one, and what to do.
Failure with_advice(Failure failure, const Connection& connection) {
  if (failure.code == ExitCode::unreachable && failure.hint.empty()) {
    failure.message = fmt::format("cannot reach the server at {}: {}",
                                  connection.access.client.endpoint.to_string(), failure.message);
    failure.hint =
        fmt::format("{} names it (by {}). Is it running? Start a dev cluster with: moord dev --dir {}",
                    connection.access.source, connection.because,
                    std::filesystem::path(connection.access.source).parent_path().string());
  } else if (failure.code == ExitCode::refused && failure.hint.empty()) {
    failure.hint = fmt::format("who you are to the server is said by {} (by {})", connection.access.source,
                               connection.because);
  }
  return failure;
}

std::string namespace_of(const CommandLine& line, const Connection& connection) {
  if (!line.space.empty()) return line.space;
  return connection.access.space.empty() ? std::string(lh::kDefaultNamespace) : connection.access.space;
}

Outcome<void> run_command(const CommandLine& line, Surroundings& around, Printer& printer) {
  TRY(const Connection connection, connect(line, around));
  Context context{around.executor, *connection.registry, printer, namespace_of(line, connection),
                  around.environment("USER").value_or("")};
  auto done = block_on(around.executor, line.command(context));
  if (done) return done;
  return with_advice(done.error(), connection);
}

Task<Outcome<std::vector<std::string>>> names_for_completion(Context& context, std::string what) {
  std::vector<std::string> names;
  registry::ListOptions everything;
  if (what == "tickets") {
    CO_TRY(const auto books, co_await list_typed<lh::VolumeAttachment>(context, everything));
    for (const auto& book : books)
      for (const auto& [id, ticket] : book.object.spec.attachment_tickets) names.push_back(id);
    co_return names;
  }
  const registry::ResourceName all =
      what == "nodes" ? resource<lh::Node>(context) : resource<lh::Volume>(context);
  CO_TRY(const auto items, co_await list_objects(context, all, everything));
  for (const Json& item : items) names.push_back(registry::metadata_text(item, "name"));
  co_return names;
}

// Completion never complains: without a server there are no names to offer.
int run_completion(const std::vector<std::string>& words, Surroundings& around) {
  CommandLine line;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "--kubeconfig") line.kubeconfig = words[i + 1];
    if (words[i] == "-n" || words[i] == "--namespace") line.space = words[i + 1];
  }
  const NameSource names = [&](std::string_view what) -> std::vector<std::string> {
    auto connection = connect(line, around);
    if (!connection) return {};
    Printer silent(around.streams, Format::name);
    Context context{around.executor, *connection->registry, silent, namespace_of(line, *connection), ""};
    auto found = block_on(around.executor, names_for_completion(context, std::string(what)));
    return found ? std::move(*found) : std::vector<std::string>();
  };
  for (const std::string& candidate : complete(line, words, names)) around.streams.out(candidate + "\n");
  return 0;
}

}  // namespace

int run(const std::vector<std::string>& arguments, Surroundings& around) {
  if (!arguments.empty() && arguments.front() == "__complete")
    return run_completion({arguments.begin() + 1, arguments.end()}, around);
  CommandLine line;
  try {
    line.app.parse(
        std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 pops from the back
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    const int code = line.app.exit(error, out, err);
    if (!out.str().empty()) around.streams.out(out.str());
    if (!err.str().empty()) around.streams.err("moor: " + err.str());
    return code == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  if (line.local) return line.local(around.streams);
  if (!line.text.empty()) {
    around.streams.out(line.text);
    return 0;
  }
  const auto format = parse_format(line.output);
  Printer printer(around.streams, format ? *format : Format::table);
  const Outcome<void> done =
      format ? run_command(line, around, printer) : Outcome<void>(failure_of(format.error()));
  if (done) return 0;
  printer.fail(done.error());
  return static_cast<int>(done.error().code);
}

}  // namespace moor::cli
