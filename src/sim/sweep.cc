#include "sim/sweep.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/random.h"

namespace moor::sim {
namespace {

constexpr unsigned kLongest = 120;  // seconds of real time: a run that does not end is a failure too

bool swept_child = false;  // a child never becomes a parent again

class Sweep {
 public:
  Sweep(const SweepOptions& options, const std::function<void(const SweepRun&)>& told)
      : options_(options), told_(told) {}

  SweepResult run() {
    const auto prepare = [this](World& world) {
      world.crash_points().listen([this, &world](std::uint64_t number, const CrashSite& site) {
        if (!swept_child && world.crash_points().in_window()) reached(world, number, site);
      });
    };
    const std::string failure = options_.play(prepare);
    if (swept_child) {
      (void)!::write(report_to_, failure.data(), failure.size());
      ::_exit(failure.empty() ? 0 : 1);
    }
    while (!children_.empty()) collect();
    result_.baseline = failure;
    return std::move(result_);
  }

 private:
  struct Child {
    pid_t pid = -1;
    int from = -1;
    SweepRun run;
  };

  // All ways to die here; every one a run of its own.
  std::vector<SweepRun> runs_at(const World& world, std::uint64_t number, const CrashSite& site) const {
    std::vector<SweepRun> runs;
    runs.push_back({number, CrashWhen::before, "", 0, site, ""});
    runs.push_back({number, CrashWhen::after, "", 0, site, ""});
    for (const EngineSight& engine : world.reality().engines())
      runs.push_back({number, CrashWhen::before, fmt::format("engine {} on {}", engine.volume, engine.node),
                      0, site, ""});
    if (!options_.pairs) return runs;
    SeededRandom random(options_.seed * 1'000'003 + number);
    const std::size_t singles = runs.size();
    for (std::size_t i = 0; i < singles; ++i) {
      runs.push_back(runs[i]);
      // Near ones hit the recovery's first steps, far ones its last.
      runs.back().again = 1 + random.below(random.chance(1, 2) ? 6 : 60);
    }
    return runs;
  }

  void reached(World& world, std::uint64_t number, const CrashSite& site) {
    const std::uint64_t index = result_.points++;
    const std::uint64_t stride = std::max<std::uint64_t>(1, options_.stride);
    if (number < options_.first || index % stride != options_.seed % stride) return;
    if (options_.most != 0 && taken_ >= options_.most) return;
    ++taken_;
    for (SweepRun& run : runs_at(world, number, site)) {
      if (!split(run)) continue;
      return strike(world, run);
    }
  }

  static void strike(World& world, const SweepRun& run) {
    CrashPoints& points = world.crash_points();
    if (run.victim.empty()) {
      points.arm(run.point, run.when);
    } else {
      Fault fault;
      fault.kind = FaultKind::kill_process;
      fault.process = run.victim;
      world.inject_soon(fault);
    }
    if (run.again != 0) points.arm(run.point + run.again, run.when);
  }

  // True: this is the child.
  bool split(const SweepRun& run) {
    while (children_.size() >= std::max(options_.jobs, 1u)) collect();
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) return false;
    const pid_t pid = ::fork();
    if (pid == 0) {
      swept_child = true;
      ::close(ends[0]);
      report_to_ = ends[1];
      ::alarm(kLongest);
      return true;
    }
    ::close(ends[1]);
    if (pid < 0) {
      ::close(ends[0]);
      return false;
    }
    children_.push_back({pid, ends[0], run});
    ++result_.runs;
    return false;
  }

  // Waits for the child that speaks first.
  void collect() {
    std::vector<pollfd> waits;
    for (const Child& child : children_) waits.push_back({child.from, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), -1) < 0) return;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (waits[i].revents == 0) continue;
      Child child = children_[i];
      children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
      return finish(child);
    }
  }

  void finish(Child& child) {
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::read(child.from, buffer.data(), buffer.size())) > 0;)
      child.run.failure.append(buffer.data(), static_cast<std::size_t>(got));
    ::close(child.from);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (WIFSIGNALED(status))
      child.run.failure = WTERMSIG(status) == SIGALRM
                              ? fmt::format("it did not end within {} s", kLongest)
                              : fmt::format("an assertion stopped it (signal {})", WTERMSIG(status));
    if (!child.run.failure.empty()) result_.failed.push_back(child.run);
    told_(child.run);
  }

  const SweepOptions& options_;
  const std::function<void(const SweepRun&)>& told_;
  SweepResult result_;
  std::vector<Child> children_;
  std::uint64_t taken_ = 0;
  int report_to_ = -1;
};

}  // namespace

bool is_swept_child() {
  return swept_child;
}

std::string describe(const SweepRun& run) {
  const std::string what = run.victim.empty()
                               ? fmt::format("crash {}", run.when == CrashWhen::before ? "before" : "after")
                               : fmt::format("kill {} at", run.victim);
  return fmt::format("{} point {} ({}: {}){}{}", what, run.point, run.site.process, run.site.what,
                     run.again != 0 ? fmt::format(" and again {} points later", run.again) : "",
                     run.failure.empty() ? "" : ": " + run.failure);
}

SweepResult sweep(const SweepOptions& options, const std::function<void(const SweepRun&)>& told) {
  return Sweep(options, told).run();
}

}  // namespace moor::sim
