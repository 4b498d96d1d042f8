#include "sim/sweep.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace moor::sim {
namespace {

std::string failure_of(const Outcome& outcome) {
  if (!outcome.violation) return {};
  return fmt::format("step {}: {} is violated: {}", outcome.violation->step, outcome.violation->rule,
                     outcome.violation->message);
}

std::string run_here(const WorldOptions& options, const SweepRun& run, std::uint64_t again) {
  World world(options);
  world.crash_points().arm(run.point, run.when);
  if (run.twice) world.crash_points().arm(run.point + again, run.when);
  return failure_of(world.run());
}

// What the run says, from a process of its own: an assertion of the product must not end the sweep.
std::string run_apart(const WorldOptions& options, const SweepRun& run, std::uint64_t again) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t pid = ::fork();
  if (pid < 0) return "no process";
  if (pid == 0) {
    ::close(ends[0]);
    const std::string text = run_here(options, run, again);
    (void)!::write(ends[1], text.data(), text.size());
    ::_exit(text.empty() ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) return fmt::format("an assertion stopped it (signal {})", WTERMSIG(status));
  return text;
}

}  // namespace

std::string describe(const SweepRun& run) {
  return fmt::format("crash {} point {} ({}: {}){}{}", run.when == CrashWhen::before ? "before" : "after",
                     run.point, run.site.process, run.site.what,
                     run.twice ? " and again in the recovery" : "",
                     run.failure.empty() ? "" : ": " + run.failure);
}

SweepResult sweep(const SweepOptions& options, const std::function<void(const SweepRun&)>& told) {
  SweepResult result;
  std::vector<CrashSite> sites;
  {
    World world(options.world);
    world.crash_points().listen([&](std::uint64_t, const CrashSite& site) { sites.push_back(site); });
    result.baseline = failure_of(world.run());
  }
  result.points = sites.size();
  if (!result.baseline.empty()) return result;
  std::uint64_t taken = 0;
  for (std::uint64_t point = options.first; point < sites.size(); point += options.stride) {
    if (options.most != 0 && taken++ >= options.most) break;
    for (const CrashWhen when : {CrashWhen::before, CrashWhen::after}) {
      for (const bool twice : {false, true}) {
        if (twice && options.again == 0) continue;
        SweepRun run{point, when, twice, sites[point], ""};
        run.failure = run_apart(options.world, run, options.again);
        ++result.runs;
        if (!run.failure.empty()) result.failed.push_back(run);
        told(run);
      }
    }
  }
  return result;
}

}  // namespace moor::sim
