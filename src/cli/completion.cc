#include <fmt/format.h>

#include <algorithm>

#include "cli/command_line.h"

namespace moor::cli {
namespace {

constexpr std::string_view kBash = R"(# bash completion for moor: source <(moor completion bash)
_moor() {
  local IFS=$'\n'
  COMPREPLY=($(moor __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _moor moor
)";

constexpr std::string_view kZsh = R"(#compdef moor
# zsh completion for moor: moor completion zsh > a directory of $fpath/_moor
_moor() {
  local -a candidates
  candidates=("${(@f)$(moor __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -a candidates
}
if [ "$funcstack[1]" = "_moor" ]; then _moor "$@"; else compdef _moor moor; fi
)";

constexpr std::string_view kFish = R"(# fish completion for moor
complete -c moor -f -a '(moor __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
)";

// Options of the command and of those above it, which fall through.
const CLI::Option* find_option(const CLI::App* command, const std::string& name) {
  for (; command != nullptr; command = command->get_parent())
    for (const CLI::Option* option : command->get_options())
      if (option->check_name(name)) return option;
  return nullptr;
}

std::vector<std::string> values_of(const CLI::Option& option, const NameSource& names) {
  if (option.check_name("--node")) return names("nodes");
  if (option.check_name("--ticket") || option.get_name() == "TICKET") return names("tickets");
  if (option.check_name("--volume") || option.get_name() == "VOLUME") return names("volumes");
  if (option.check_name("--output")) return {"json", "name", "table", "wide", "yaml"};
  if (option.check_name("--access-mode")) return {"rwo", "rwop", "rwx"};
  if (option.get_name() == "SHELL") return {"bash", "fish", "zsh"};
  return {};
}

CLI::App* find_command(CLI::App& parent, const std::string& name) {
  for (CLI::App* next : parent.get_subcommands([](CLI::App*) { return true; }))
    if (next->check_name(name)) return next;
  return nullptr;
}

// Where the words before the last one have led to.
struct Place {
  CLI::App* command;
  const CLI::Option* open = nullptr;  // an option that still wants its value
  std::size_t positionals = 0;
};

Place walk(CLI::App& app, const std::vector<std::string>& words) {
  Place place{&app};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (place.open != nullptr) {
      place.open = nullptr;
    } else if (word.starts_with("-")) {
      const CLI::Option* option = find_option(place.command, word.substr(0, word.find('=')));
      if (option != nullptr && option->get_items_expected_max() > 0 && word.find('=') == std::string::npos)
        place.open = option;
    } else if (CLI::App* next = find_command(*place.command, word)) {
      place.command = next;
    } else {
      ++place.positionals;
    }
  }
  return place;
}

std::vector<std::string> candidates_at(const Place& place, const std::string& last, const NameSource& names) {
  if (place.open != nullptr) return values_of(*place.open, names);
  std::vector<std::string> found;
  if (last.starts_with("-")) {
    for (const CLI::App* command = place.command; command != nullptr; command = command->get_parent())
      for (const CLI::Option* option : command->get_options())
        for (const std::string& name : option->get_lnames()) found.push_back("--" + name);
    return found;
  }
  for (const CLI::App* next : place.command->get_subcommands([](const CLI::App*) { return true; }))
    found.push_back(next->get_name());
  if (!found.empty()) return found;
  std::size_t position = 0;
  for (const CLI::Option* option : place.command->get_options())
    if (option->get_positional() && position++ == place.positionals) {
      // A new volume's name is nobody's to guess.
      if (place.command->get_name() != "create") found = values_of(*option, names);
    }
  return found;
}

}  // namespace

std::vector<std::string> complete(CommandLine& line, const std::vector<std::string>& words,
                                  const NameSource& names) {
  const std::string last = words.empty() ? std::string() : words.back();
  std::vector<std::string> found = candidates_at(walk(line.app, words), last, names);
  std::erase_if(found, [&](const std::string& one) { return !one.starts_with(last); });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Result<std::string> completion_script(std::string_view shell) {
  if (shell == "bash") return std::string(kBash);
  if (shell == "zsh") return std::string(kZsh);
  if (shell == "fish") return std::string(kFish);
  return make_error(Errc::invalid, fmt::format("no completion for '{}': bash, zsh or fish", shell));
}

}  // namespace moor::cli
