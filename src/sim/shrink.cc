#include "sim/shrink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

namespace moor::sim {
namespace {

constexpr unsigned kLongestRun = 120;  // seconds of real time

// A fault or a wish.
struct Piece {
  std::optional<Fault> fault;
  std::optional<Wish> wish;
  Duration at() const { return fault ? fault->at : wish->at; }
};

std::vector<Piece> pieces_of(const Schedule& schedule) {
  std::vector<Piece> pieces;
  for (const Wish& wish : schedule.wishes) pieces.push_back({std::nullopt, wish});
  for (const Fault& fault : schedule.faults) pieces.push_back({fault, std::nullopt});
  return pieces;
}

Schedule schedule_of(const std::vector<Piece>& pieces) {
  Schedule schedule;
  for (const Piece& piece : pieces) {
    if (piece.fault) schedule.faults.push_back(*piece.fault);
    if (piece.wish) schedule.wishes.push_back(*piece.wish);
  }
  return schedule;
}

// The broken rule; empty: none.
std::string rule_of(const WorldOptions& options) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return {};
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    ::alarm(kLongestRun);
    // What an assertion says has been said before.
    if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) ::dup2(nowhere, 2);
    World world(options);
    const Outcome outcome = world.run();
    const std::string rule = outcome.violation ? outcome.violation->rule : "";
    (void)!::write(ends[1], rule.data(), rule.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string rule;
  std::array<char, 256> buffer{};
  for (ssize_t got = 0; pid > 0 && (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    rule.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  if (pid > 0) ::waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? "assertion" : rule;
}

std::string seconds(Duration duration) {
  return fmt::format("{}ms", duration / std::chrono::milliseconds(1));
}

std::string tell(const Fault& fault) {
  std::string text = fmt::format("fault {} {}", to_string(fault.kind), fault.target);
  if (fault.lasts > Duration{0}) text += " for " + seconds(fault.lasts);
  if (fault.argument != 0) text += fmt::format(" with {}", fault.argument);
  if (fault.process.empty()) return text;
  std::string process = fault.process;
  std::replace(process.begin(), process.end(), ' ', '/');
  return text + " process " + process;
}

std::string tell(const Wish& wish, bool known) {
  const std::string volume = fmt::format("v{}", wish.volume);
  const std::string as = wish.ticket.empty() ? "" : " as " + wish.ticket;
  switch (wish.kind) {
    case WishKind::create_volume:
      return fmt::format("{} {} replicas {} mode {}{}", known ? "create" : "volume", volume, wish.replicas,
                         wish.access_mode, wish.migratable ? " migratable yes" : "");
    case WishKind::delete_volume: return "delete " + volume;
    case WishKind::attach:
      return (wish.node == 0 ? "reserve " + volume + as
                             : fmt::format("want {} on n{}{}", volume, wish.node, as)) +
             (wish.type.empty() ? "" : " type " + wish.type) +
             (wish.owner.empty() ? "" : " owner " + wish.owner);
    case WishKind::detach: return fmt::format("drop {} {}", volume, wish.ticket);
    case WishKind::open_client:
      return fmt::format("{} {} on n{}{}", wish.type == "reader" ? "reader" : "writer", volume, wish.node,
                         as);
    case WishKind::close_client: return fmt::format("no-writer {} on n{}{}", volume, wish.node, as);
    case WishKind::retarget: return fmt::format("retarget {} {} to n{}", volume, wish.ticket, wish.node);
    case WishKind::set_parameter: return fmt::format("activate {} {}", volume, wish.ticket);
    case WishKind::set_setting: return fmt::format("setting {} {}", wish.ticket, wish.type);
    case WishKind::hand_over:
      return fmt::format("hand-over {} from n{} to n{}{} then {}", volume, wish.node, wish.node, as,
                         wish.type);
    case WishKind::count: return "count " + volume;
  }
  return {};
}

}  // namespace

std::optional<Shrunk> shrink(const WorldOptions& options, const std::function<void(std::size_t)>& told) {
  Shrunk shrunk;
  WorldOptions world = options;
  world.on_trace = nullptr;
  world.keep_trace = false;
  std::vector<Piece> left = pieces_of(schedule_drawn(options));
  shrunk.before = left.size();
  const auto fails = [&](const std::vector<Piece>& pieces) {
    ++shrunk.runs;
    world.schedule = schedule_of(pieces);
    return rule_of(world);
  };
  shrunk.rule = fails(left);
  if (shrunk.rule.empty()) return std::nullopt;
  // Halves, quarters and so on down to single pieces, until none can be left out.
  for (std::size_t size = std::max<std::size_t>(left.size() / 2, 1); size > 0;) {
    bool fewer = false;
    for (std::size_t at = 0; at < left.size();) {
      std::vector<Piece> without = left;
      const std::size_t end = std::min(at + size, left.size());
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(at),
                    without.begin() + static_cast<std::ptrdiff_t>(end));
      if (fails(without) == shrunk.rule) {
        left = std::move(without);
        fewer = true;
        told(left.size());
      } else {
        at = end;
      }
    }
    if (size > 1 || !fewer) size /= 2;
  }
  shrunk.schedule = schedule_of(left);
  return shrunk;
}

std::string scenario_of(const Shrunk& shrunk, const WorldOptions& options) {
  std::string text = fmt::format(
      "# scenario: {} is broken; seed {}, {} of {} faults and wishes are left\ncluster nodes {} servers {} "
      "seed {} store {} moods {}\n",
      shrunk.rule, options.seed, shrunk.schedule.faults.size() + shrunk.schedule.wishes.size(), shrunk.before,
      options.nodes, options.servers, options.seed, options.shared_store ? "shared" : "own",
      options.moods ? "yes" : "no");
  std::vector<Piece> pieces = pieces_of(shrunk.schedule);
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.at() < b.at(); });
  std::vector<std::uint32_t> made;
  for (const Piece& piece : pieces) {
    std::string words;
    if (piece.fault) words = tell(*piece.fault);
    if (piece.wish) {
      const bool known = std::find(made.begin(), made.end(), piece.wish->volume) != made.end();
      if (piece.wish->kind == WishKind::create_volume) made.push_back(piece.wish->volume);
      words = tell(*piece.wish, known);
    }
    text += fmt::format("at {} {}\n", seconds(piece.at()), words);
  }
  return text + fmt::format("at {}\n", seconds(options.warm_up + options.faults));
}

}  // namespace moor::sim
