#include "cmd/moord/dev_network.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "cmd/moord/child.h"

namespace moor::cmd {
namespace {

constexpr int kMaxNetworks = 200;  // what one /24 holds beside the host, rounded down

Result<std::string> ip(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ip");
  return run_program(arguments);
}

bool link_exists(const std::string& name) {
  std::error_code ignored;
  return std::filesystem::exists("/sys/class/net/" + name, ignored);
}

// "3: moor1a2b3c    inet 10.77.5.254/24 …": the first three numbers, "" when there is none.
std::string prefix_in(const std::string& line) {
  const std::size_t begin = line.find("inet 10.77.");
  const std::size_t end = line.find(".254/", begin);
  if (begin == std::string::npos || end == std::string::npos) return "";
  return line.substr(begin + 5, end - begin - 5);
}

// A /24 that nobody on this machine has: the tag chooses where to begin looking.
Result<std::string> free_prefix(const std::string& tag) {
  TRY(const std::string addresses, ip({"-o", "-4", "addr", "show"}));
  const auto first = static_cast<unsigned>(std::stoul(tag, nullptr, 16) % 256);
  for (unsigned i = 0; i < 256; ++i) {
    const std::string prefix = fmt::format("10.77.{}", (first + i) % 256);
    if (addresses.find("inet " + prefix + ".") == std::string::npos) return prefix;
  }
  return make_error(Errc::exhausted, "every network from 10.77.0.0/24 to 10.77.255.0/24 is taken");
}

}  // namespace

Result<DevNetwork> DevNetwork::make(const DevPlace& place, int nodes) {
  if (geteuid() != 0) return make_error(Errc::forbidden, "--netns makes network namespaces: it needs root");
  if (nodes > kMaxNetworks)
    return make_error(Errc::invalid, fmt::format("--netns has room for {} nodes", kMaxNetworks));
  DevNetwork network(place.tag(), "");
  if (link_exists(network.bridge())) {
    TRY(const std::string line, ip({"-o", "-4", "addr", "show", "dev", network.bridge()}));
    network.prefix_ = prefix_in(line);
  }
  if (network.prefix_.empty()) {
    TRY_VOID(remove(place));  // what an earlier start left half made
    TRY(network.prefix_, free_prefix(network.tag_));
    TRY_VOID(ip({"link", "add", network.bridge(), "type", "bridge"}));
    TRY_VOID(ip({"addr", "add", network.host_address() + "/24", "dev", network.bridge()}));
    TRY_VOID(ip({"link", "set", network.bridge(), "up"}));
  }
  for (int number = 1; number <= nodes; ++number) TRY_VOID(network.add_node(number));
  return network;
}

Result<void> DevNetwork::add_node(int number) const {
  const std::string space = namespace_of(number);
  const std::string outside = fmt::format("m{}-{}", tag_, number);
  std::error_code ignored;
  if (std::filesystem::exists("/run/netns/" + space, ignored) && link_exists(outside)) return {};
  if (!std::filesystem::exists("/run/netns/" + space, ignored)) TRY_VOID(ip({"netns", "add", space}));
  TRY_VOID(ip({"link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space}));
  TRY_VOID(ip({"link", "set", outside, "master", bridge(), "up"}));
  TRY_VOID(ip({"-n", space, "addr", "add", node_address(number) + "/24", "dev", "eth0"}));
  TRY_VOID(ip({"-n", space, "link", "set", "eth0", "up"}));
  TRY_VOID(ip({"-n", space, "link", "set", "lo", "up"}));
  return {};
}

Result<void> DevNetwork::remove(const DevPlace& place) {
  const DevNetwork network(place.tag(), "");
  std::error_code ignored;
  for (int number = 1; number <= kMaxNetworks; ++number)
    if (std::filesystem::exists("/run/netns/" + network.namespace_of(number), ignored))
      TRY_VOID(ip({"netns", "del", network.namespace_of(number)}));
  if (link_exists(network.bridge())) TRY_VOID(ip({"link", "del", network.bridge()}));
  return {};
}

}  // namespace moor::cmd
