#include "cli/command_line.h"

#include <fmt/format.h>

#include "base/units.h"
#include "cli/inventory.h"
#include "cli/migrate.h"
#include "cli/sim_command.h"
#include "cli/tickets.h"
#include "cli/volume_commands.h"
#include "cli/why.h"

namespace moor::cli {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 error, 2 wrong usage (nothing was changed), 3 not found, 4 timed out while\n"
    "waiting (what was asked for stays asked for), 5 exists already or in use, 6 no server, 7 not allowed.\n";
constexpr const char* kDefaultTimeout = "2m";

// `timeout` stays text until the command runs: a wrong one is a wrong usage like any other.
struct Waiting {
  bool wait = false;
  std::string timeout = kDefaultTimeout;

  void add_to(CLI::App& command, const std::string& until) {
    command.add_flag("--wait", wait, "Wait until " + until + ", telling each change of state on stderr");
    command.add_option("--timeout", timeout, "How long to wait")->capture_default_str();
  }
  Outcome<Duration> duration() const {
    TRY(const Duration parsed, parse_duration(timeout));
    return parsed;
  }
};

template <class Request>
Task<Outcome<void>> with_waiting(Context& context, Request request, Waiting waiting,
                                 Task<Outcome<void>> (*command)(Context&, Request)) {
  request.wait = waiting.wait;
  CO_TRY(request.timeout, waiting.duration());
  co_return co_await command(context, std::move(request));
}

CLI::App& add(CLI::App& parent, const std::string& name, const std::string& what,
              const std::string& examples) {
  CLI::App& command = *parent.add_subcommand(name, what);
  command.footer("Examples:\n" + examples);
  return command;
}

void add_create(CLI::App& volume, CommandLine& line) {
  struct Wanted {
    CreateVolume create;
    Waiting waiting;
  };
  const auto wanted = std::make_shared<Wanted>();  // shared by the options and the run after parsing
  CLI::App& create = add(volume, "create", "Make a volume",
                         "  moor volume create v1 --size 1Gi --replicas 3\n"
                         "  moor volume create shared --size 10Gi --access-mode rwx --migratable --wait\n");
  create.add_option("VOLUME", wanted->create.name, "Name of the new volume")->required();
  create.add_option("--size", wanted->create.size, "Size: 512Mi, 10Gi, or bytes")->required();
  create.add_option("--replicas", wanted->create.replicas, "Copies, each on a node of its own")
      ->capture_default_str();
  create.add_option("--access-mode", wanted->create.access_mode, "rwo, rwop or rwx")->capture_default_str();
  create.add_flag("--migratable", wanted->create.migratable, "May move between nodes while in use");
  wanted->waiting.add_to(create, "it has its replicas placed");
  create.callback([wanted, &line] {
    line.command = [wanted](Context& context) {
      return with_waiting(context, wanted->create, wanted->waiting, create_volume);
    };
  });
}

void add_delete(CLI::App& volume, CommandLine& line) {
  struct Wanted {
    DeleteVolume remove;
    Waiting waiting;
  };
  const auto wanted = std::make_shared<Wanted>();
  CLI::App& remove = add(volume, "delete", "Delete a volume and its data",
                         "  moor volume delete v1\n  moor volume delete v1 --wait --timeout 30s\n");
  remove.add_option("VOLUME", wanted->remove.name, "The volume")->required();
  remove.add_flag("--force", wanted->remove.force, "Also while tickets ask for it on a node");
  wanted->waiting.add_to(remove, "it is gone");
  remove.callback([wanted, &line] {
    line.command = [wanted](Context& context) {
      return with_waiting(context, wanted->remove, wanted->waiting, delete_volume);
    };
  });
}

// A command with one name and nothing else; `required` or all of them.
template <class Function>
void add_named(CLI::App& command, CommandLine& line, bool required, Function function) {
  const auto name = std::make_shared<std::string>();
  CLI::Option* option =
      command.add_option("VOLUME", *name, required ? "The volume" : "Only those of this volume");
  if (required) option->required();
  command.callback([name, function, &line] {
    line.command = [name, function](Context& context) { return function(context, *name); };
  });
}

void add_volume(CommandLine& line) {
  CLI::App& volume = add(line.app, "volume", "Make, show and delete volumes",
                         "  moor volume create v1 --size 1Gi\n  moor volume list\n");
  volume.require_subcommand(1);
  add_create(volume, line);
  CLI::App& list = add(volume, "list", "All volumes", "  moor volume list\n  moor volume list -o wide\n");
  list.callback([&line] { line.command = [](Context& context) { return list_volumes(context); }; });
  add_named(add(volume, "show", "One volume with its tickets and replicas",
                "  moor volume show v1\n  moor volume show v1 -o yaml\n"),
            line, true, show_volume);
  add_delete(volume, line);
  add_named(add(volume, "device", "Where an attached volume can be used: device path and NBD URI",
                "  moor volume device v1\n  mkfs.ext4 $(moor volume device v1 -o name)\n"
                "  moor volume device v1 -o json\n"),
            line, true, show_device);
}

void add_attach(CommandLine& line) {
  struct Wanted {
    Attach attach;
    Waiting waiting;
  };
  const auto wanted = std::make_shared<Wanted>();
  CLI::App& attach = add(line.app, "attach", "Ask for a volume on a node (writes a ticket)",
                         "  moor attach v1 --node node-1 --wait\n"
                         "  moor attach v1 --node node-2 --expires 1h --disable-frontend\n");
  attach.add_option("VOLUME", wanted->attach.volume, "The volume")->required();
  attach.add_option("--node", wanted->attach.node, "The node that shall have it")->required();
  attach.add_option("--ticket", wanted->attach.ticket, "Id of the ticket (default moor-NODE)");
  attach.add_option("--expires", wanted->attach.expires, "The ticket ends by itself after: 30m, 1h, …");
  attach.add_flag("--disable-frontend", wanted->attach.disable_frontend, "Engine only, no block device");
  wanted->waiting.add_to(attach, "the node can use it");
  attach.callback([wanted, &line] {
    line.command = [wanted](Context& context) {
      return with_waiting(context, wanted->attach, wanted->waiting, attach_volume);
    };
  });
}

void add_detach(CommandLine& line) {
  struct Wanted {
    Detach detach;
    Waiting waiting;
  };
  const auto wanted = std::make_shared<Wanted>();
  CLI::App& detach = add(line.app, "detach", "Take tickets back; the last one's leaving detaches",
                         "  moor detach v1 --wait\n  moor detach v1 --node node-1\n"
                         "  moor detach v1 --ticket csi-1234 --wait\n");
  detach.add_option("VOLUME", wanted->detach.volume, "The volume")->required();
  detach.add_option("--node", wanted->detach.node, "Only tickets for this node");
  detach.add_option("--ticket", wanted->detach.ticket,
                    "This ticket, whoever made it (default: those that people made)");
  wanted->waiting.add_to(detach, "the node has let go");
  detach.callback([wanted, &line] {
    line.command = [wanted](Context& context) {
      return with_waiting(context, wanted->detach, wanted->waiting, detach_volume);
    };
  });
}

void add_migrate(CommandLine& line) {
  struct Wanted {
    Migrate migrate;
    Waiting waiting;
  };
  const auto wanted = std::make_shared<Wanted>();
  CLI::App& migrate =
      add(line.app, "migrate", "Move a volume that is in use to another node, and end the move",
          "  moor migrate v1 --to node-2 --wait          a second engine is ready there\n"
          "  moor migrate v1 --activate --wait           it takes over (its first write does so too)\n"
          "  moor migrate v1 --confirm --wait            the volume stays there\n"
          "  moor migrate v1 --rollback --wait           the volume stays where it was\n"
          "  moor migrate v1 --to node-2 --confirm --wait\n");
  migrate.add_option("VOLUME", wanted->migrate.volume, "The volume: attached, and migratable")->required();
  migrate.add_option("--to", wanted->migrate.to, "The node that it shall go to");
  migrate.add_flag("--activate", wanted->migrate.activate, "Let the destination take over now");
  migrate.add_flag("--confirm", wanted->migrate.confirm, "End the move on its destination");
  migrate.add_flag("--rollback", wanted->migrate.roll_back, "End the move where it began");
  wanted->waiting.add_to(migrate, "that is so");
  migrate.callback([wanted, &line] {
    line.command = [wanted](Context& context) {
      return with_waiting(context, wanted->migrate, wanted->waiting, migrate_volume);
    };
  });
}

void add_lists(CommandLine& line) {
  add_named(
      add(line.app, "tickets", "Who wants which volume where", "  moor tickets\n  moor tickets v1 -o wide\n"),
      line, false, list_tickets);
  CLI::App& nodes =
      add(line.app, "nodes", "The nodes and their disks", "  moor nodes\n  moor nodes -o wide\n");
  nodes.callback([&line] { line.command = [](Context& context) { return list_nodes(context); }; });
  add_named(add(line.app, "replicas", "The copies of the data", "  moor replicas\n  moor replicas v1\n"),
            line, false, list_replicas);
  add_named(add(line.app, "engines", "The engines that serve volumes", "  moor engines\n  moor engines v1\n"),
            line, false, list_engines);
}

void add_why(CommandLine& line) {
  CLI::App& why = add(line.app, "why", "What something waits for, since when, and who can clear it",
                      "  moor why volume v1\n  moor why ticket moor-node-2\n");
  why.require_subcommand(1);
  add_named(add(why, "volume", "Why a volume is not as its tickets ask",
                "  moor why volume v1\n  moor why volume v1 -o json\n"),
            line, true, why_volume);
  struct Wanted {
    std::string ticket;
    std::string volume;
  };
  const auto wanted = std::make_shared<Wanted>();
  CLI::App& ticket = add(why, "ticket", "Why a ticket waits",
                         "  moor why ticket moor-node-2\n  moor why ticket csi-1234 --volume v1\n");
  ticket.add_option("TICKET", wanted->ticket, "Id of the ticket")->required();
  ticket.add_option("--volume", wanted->volume, "Only this volume's ticket of that id");
  ticket.callback([wanted, &line] {
    line.command = [wanted](Context& context) {
      return why_ticket(context, {wanted->ticket, wanted->volume});
    };
  });
}

void add_completion(CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  CLI::App& completion = add(line.app, "completion", "A script for your shell's completion",
                             "  source <(moor completion bash)\n"
                             "  moor completion zsh > ~/.zfunc/_moor\n"
                             "  moor completion fish > ~/.config/fish/completions/moor.fish\n");
  completion.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion.callback([shell, &line] {
    if (auto script = completion_script(*shell)) line.text = *script;
  });
}

}  // namespace

CommandLine::CommandLine() : app("Volumes, where they are attached, and why not.", "moor") {
  app.fallthrough();  // moor volume list -o json: the options of the whole may stand last
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("moor ") + MOOR_VERSION);
  app.add_option("--kubeconfig", kubeconfig,
                 "Which cluster (default: $MOOR_KUBECONFIG, $KUBECONFIG, the dev cluster)");
  app.add_option("-n,--namespace", space, "Namespace (default: the kubeconfig's, else longhorn-system)");
  app.add_option("-o,--output", output, "table, wide, json, yaml or name")->capture_default_str();
  app.footer(std::string("Examples:\n"
                         "  moor volume create v1 --size 1Gi --replicas 3\n"
                         "  moor attach v1 --node node-1 --wait\n"
                         "  moor why volume v1\n\n") +
             kExitCodes);
  add_volume(*this);
  add_attach(*this);
  add_detach(*this);
  add_migrate(*this);
  add_lists(*this);
  add_why(*this);
  add_sim(app, *this);
  add_completion(*this);
}

}  // namespace moor::cli
