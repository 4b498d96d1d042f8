#include "sim/runner.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <map>

#include "sim/scheduler.h"

namespace moor::sim {
namespace {

// What the child says when an assertion stops it; prepared before each seed, because then nothing is safe.
std::array<char, 512> last_word{};
int last_word_to = -1;

// A seed takes a fraction of a second of CPU; one that takes this long for each volume and ten minutes of its
// faults does not end.
constexpr std::int64_t kMostSeconds = 60;

void tell_and_die(int) {
  if (last_word_to >= 0) (void)!::write(last_word_to, last_word.data(), std::strlen(last_word.data()));
  ::_exit(1);
}

// The seed alone chooses the rest, unless somebody else did.
std::string shape_words(const WorldOptions& options) {
  const std::string moves = options.moves ? " --moves" : "";
  if (options.own_shape) return moves;
  return fmt::format(" --nodes {} --volumes {} --servers {}{}", options.nodes, options.volumes,
                     options.shared_store ? options.servers : 0, moves);
}

std::string escape(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

using Numbers = std::array<std::uint64_t, 17>;

Numbers numbers_of(const WorldCounts& c) {
  return {c.events,
          c.crashes,
          c.pauses,
          c.cuts,
          c.messages,
          c.messages_lost,
          c.commits,
          c.leader_changes,
          c.engine_starts,
          c.acknowledged,
          c.reads_checked,
          c.attachments,
          c.checks,
          c.crash_points,
          c.lives,
          static_cast<std::uint64_t>(c.simulated.count()),
          0};
}

WorldCounts counts_of(const Numbers& n) {
  WorldCounts c;
  c.events = n[0];
  c.crashes = n[1];
  c.pauses = n[2];
  c.cuts = n[3];
  c.messages = n[4];
  c.messages_lost = n[5];
  c.commits = n[6];
  c.leader_changes = n[7];
  c.engine_starts = n[8];
  c.acknowledged = n[9];
  c.reads_checked = n[10];
  c.attachments = n[11];
  c.checks = n[12];
  c.crash_points = n[13];
  c.lives = n[14];
  c.simulated = Duration(static_cast<std::int64_t>(n[15]));
  return c;
}

std::string line_of(const SeedResult& result) {
  std::string line = fmt::format("{} {} {}", result.seed, result.hash, result.failed ? 1 : 0);
  for (const std::uint64_t number : numbers_of(result.counts)) line += fmt::format(" {}", number);
  return line + " " + escape(result.failure) + "\n";
}

SeedResult result_of(const std::string& line) {
  SeedResult result;
  const char* at = line.c_str();
  char* next = nullptr;
  const auto number = [&] {
    const std::uint64_t value = std::strtoull(at, &next, 10);
    at = next;
    return value;
  };
  result.seed = number();
  result.hash = number();
  result.failed = number() != 0;
  Numbers numbers{};
  for (std::uint64_t& one : numbers) one = number();
  result.counts = counts_of(numbers);
  result.failure = *at == ' ' ? at + 1 : at;
  return result;
}

SeedResult run_seed(const RunOptions& options, std::uint64_t seed) {
  const WorldOptions shape = options_of(options, seed);
  World world(shape);
  const Outcome outcome = world.run();
  SeedResult result{seed, outcome.hash, outcome.violation.has_value(), "", outcome.counts};
  if (outcome.violation) result.failure = describe(*outcome.violation, shape, options.command);
  return result;
}

[[noreturn]] void child(const RunOptions& options, std::uint64_t first, int to) {
  last_word_to = to;
  std::signal(SIGABRT, tell_and_die);
  std::signal(SIGSEGV, tell_and_die);
  std::signal(SIGPROF, tell_and_die);
  for (std::uint64_t seed = first; seed <= options.last; seed += options.jobs) {
    const WorldOptions shape = options_of(options, seed);
    const SeedResult aborted{
        seed,
        0,
        true,
        fmt::format(
            "seed {}: the process was stopped (an assertion, see above, or it does not end); replay with: {} "
            "--seed {}{}",
            seed, options.command, seed, shape_words(shape)),
        {}};
    const std::string word = line_of(aborted);
    std::memcpy(last_word.data(), word.data(), std::min(word.size(), last_word.size() - 2));
    last_word[std::min(word.size(), last_word.size() - 2)] = '\0';
    const std::int64_t tens = 1 + shape.faults / std::chrono::minutes(10);
    const itimerval limit{{0, 0}, {kMostSeconds * tens * shape.volumes, 0}};
    ::setitimer(ITIMER_PROF, &limit, nullptr);
    const std::string line = line_of(run_seed(options, seed));
    if (::write(to, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(2);
  }
  ::_exit(0);
}

struct Job {
  pid_t pid = -1;
  int from = -1;
  std::string rest;
  std::uint64_t next = 0;  // the first seed that it has not told of
};

bool start(const RunOptions& options, Job& job) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return false;
  job.pid = ::fork();
  if (job.pid == 0) {
    ::close(ends[0]);
    child(options, job.next, ends[1]);
  }
  ::close(ends[1]);
  job.from = ends[0];
  return true;
}

}  // namespace

std::string describe(const Violation& violation, const WorldOptions& options, const std::string& command) {
  return fmt::format("seed {}, step {}, {:.6f} s: {} is violated: {}; replay with: {} --seed {}{}",
                     options.seed, violation.step,
                     std::chrono::duration<double>(violation.at.since_start).count() - 1, violation.rule,
                     violation.message, command, options.seed, shape_words(options));
}

WorldOptions options_of(const RunOptions& options, std::uint64_t seed) {
  WorldOptions world = options.world;
  world.seed = seed;
  world.own_shape = options.own_shape;
  if (!options.own_shape) return world;
  SeededRandom random(seed ^ 0x73686170);
  world.nodes = 2 + static_cast<std::uint32_t>(random.below(3));
  world.volumes = 1 + static_cast<std::uint32_t>(random.below(2));
  world.shared_store = random.chance(1, 2);
  world.servers = world.shared_store ? 1 + static_cast<std::uint32_t>(random.below(3)) : 1;
  world.faults = std::chrono::seconds(random.between(30, 240));
  return world;
}

RunResult run_seeds(const RunOptions& options, const std::function<void(const SeedResult&)>& told) {
  RunOptions shared = options;
  shared.jobs = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::max(options.jobs, 1u), options.last - options.first + 1));
  std::vector<Job> jobs(shared.jobs);
  for (std::uint32_t i = 0; i < shared.jobs; ++i) {
    jobs[i].next = options.first + i;
    if (!start(shared, jobs[i])) jobs[i].from = -1;
  }
  RunResult result;
  std::map<std::uint64_t, std::uint64_t> hashes;
  const auto take = [&](const SeedResult& one) {
    ++result.seeds;
    result.counts.add(one.counts);
    hashes[one.seed] = one.hash;
    if (one.failed) {
      ++result.failures;
      result.failed.push_back(one);
    }
    told(one);
  };
  std::size_t open = jobs.size();
  while (open > 0) {
    std::vector<pollfd> waits;
    for (const Job& job : jobs) waits.push_back({job.from, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), -1) < 0) break;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if ((waits[i].revents & (POLLIN | POLLHUP)) == 0 || jobs[i].from < 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t got = ::read(jobs[i].from, buffer.data(), buffer.size());
      if (got <= 0) {
        ::close(jobs[i].from);
        ::waitpid(jobs[i].pid, nullptr, 0);
        jobs[i].from = -1;
        // One that an assertion has stopped leaves the seeds behind it to another.
        if (jobs[i].next > options.last || !start(shared, jobs[i])) --open;
        continue;
      }
      jobs[i].rest.append(buffer.data(), static_cast<std::size_t>(got));
      for (std::size_t end = jobs[i].rest.find('\n'); end != std::string::npos;
           end = jobs[i].rest.find('\n')) {
        take(result_of(jobs[i].rest.substr(0, end)));
        jobs[i].next += shared.jobs;
        jobs[i].rest.erase(0, end + 1);
      }
    }
  }
  Scheduler sum(0);
  for (const auto& [seed, hash] : hashes) sum.mix(hash);
  result.hash = hashes.size() == 1 ? hashes.begin()->second : sum.hash();
  return result;
}

std::string summary(const RunResult& result) {
  const WorldCounts& c = result.counts;
  return fmt::format(
      "{} seeds, {} failed, {} events, {:.2f} cluster-hours, {} crashes, {} pauses, {} cuts, {} messages, {} "
      "lost, {} "
      "leader changes, {} engine starts, {} attachments, {} acknowledged, {} reads checked, hash {:016x}",
      result.seeds, result.failures, c.events,
      std::chrono::duration<double, std::ratio<3600>>(c.simulated).count(), c.crashes, c.pauses, c.cuts,
      c.messages, c.messages_lost, c.leader_changes, c.engine_starts, c.attachments, c.acknowledged,
      c.reads_checked, result.hash);
}

std::string timeline_page(const Outcome& outcome) {
  std::map<std::string, std::vector<const TraceLine*>> rows;
  double end = 1;
  for (const TraceLine& line : outcome.trace) {
    rows[line.who].push_back(&line);
    end = std::max(end, std::chrono::duration<double>(line.at.since_start).count());
  }
  const auto clean = [](const std::string& text) {
    std::string out;
    for (const char c : text)
      out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
    return out;
  };
  std::string page = fmt::format(
      "<!doctype html><meta charset=utf-8><title>moor sim, seed {0}</title><style>body{{font:13px "
      "sans-serif}}"
      ".r{{position:relative;height:22px;border-bottom:1px solid #ddd}}.r "
      "b{{position:absolute;left:0;width:110px}}"
      ".m{{position:absolute;top:3px;width:3px;height:16px;background:#48a}}.fault{{background:#c33}}"
      ".violation{{background:#000;width:6px}}.process{{background:#393}}.grant{{background:#a5a}}</style>"
      "<h1>moor sim, seed {0}</h1><p>{1} events, {2:.1f} s, hash {3:016x}{4}</p>",
      outcome.seed, outcome.counts.events, end, outcome.hash,
      outcome.violation
          ? "<br><b>" + clean(outcome.violation->rule + ": " + outcome.violation->message) + "</b>"
          : "");
  for (const auto& [who, lines] : rows) {
    page += fmt::format("<div class=r><b>{}</b>", clean(who));
    for (const TraceLine* line : lines) {
      const double at = std::chrono::duration<double>(line->at.since_start).count() - 1;
      page += fmt::format(
          "<i class=\"m {}\" style=\"left:calc(115px + {:.3f}% * 0.9)\" title=\"{:.3f} s, step {}: {}\"></i>",
          line->kind, at / end * 100, at, line->step, clean(line->text));
    }
    page += "</div>\n";
  }
  return page;
}

}  // namespace moor::sim
