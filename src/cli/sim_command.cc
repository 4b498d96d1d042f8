#include "cli/sim_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "base/plants.h"
#include "sim/runner.h"
#include "sim/scenario/run.h"
#include "sim/shrink.h"
#include "sim/sweep.h"

namespace moor::cli {
namespace {

struct SimWords {
  std::uint64_t seed = 0;
  std::string seeds;
  double hours = 0;
  double io_pause = 0;
  std::uint32_t nodes = 0;
  std::uint32_t volumes = 0;
  int servers = -1;
  bool no_swarm = false;
  bool trace = false;
  std::string html;
  std::vector<std::string> scenarios;
  bool seed_given = false;
  std::uint32_t jobs = 1;
  bool each = false;
  std::string plant;
  bool sweep = false;
  std::uint64_t stride = 1;
  std::uint64_t points = 0;
  std::uint64_t from_point = 0;
  bool pairs = false;
  bool moves = false;
  bool shrink = false;
  std::string log_level = "off";
};

std::optional<std::pair<std::uint64_t, std::uint64_t>> range_of(const std::string& text) {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  const char* end = text.data() + text.size();
  const auto one = std::from_chars(text.data(), end, first);
  if (one.ec != std::errc() || end - one.ptr < 3 || one.ptr[0] != '.' || one.ptr[1] != '.')
    return std::nullopt;
  const auto two = std::from_chars(one.ptr + 2, end, last);
  if (two.ec != std::errc() || two.ptr != end || last < first) return std::nullopt;
  return std::pair(first, last);
}

sim::RunOptions options_of(const SimWords& words) {
  sim::RunOptions options;
  options.jobs = words.jobs;
  options.own_shape = words.nodes == 0 && words.volumes == 0 && words.servers < 0;
  if (words.nodes != 0) options.world.nodes = words.nodes;
  if (words.volumes != 0) options.world.volumes = words.volumes;
  options.world.shared_store = words.servers > 0;
  if (words.servers > 0) options.world.servers = static_cast<std::uint32_t>(words.servers);
  options.world.swarm = !words.no_swarm;
  if (words.io_pause > 0)
    options.world.io_pause =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(words.io_pause));
  options.world.moves = words.moves;
  if (words.hours > 0)
    options.world.faults =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::ratio<3600>>(words.hours));
  return options;
}

// One seed in this process, with all that can be seen of it.
int run_one(sim::RunOptions options, const SimWords& words, const Streams& streams) {
  sim::WorldOptions world = sim::options_of(options, words.seed);
  if (words.hours > 0) world.faults = options.world.faults;
  world.keep_trace = !words.html.empty();
  if (words.trace) world.on_trace = [&streams](const std::string& text) { streams.out(text + "\n"); };
  sim::World one(world);
  const sim::Outcome outcome = one.run();
  if (!words.html.empty()) std::ofstream(words.html) << sim::timeline_page(outcome);
  sim::RunResult result;
  result.seeds = 1;
  result.counts = outcome.counts;
  result.hash = outcome.hash;
  result.failures = outcome.violation ? 1 : 0;
  if (outcome.violation) streams.err(sim::describe(*outcome.violation, world, options.command) + "\n");
  streams.out(sim::summary(result) + "\n");
  return outcome.violation ? 1 : 0;
}

// A story that breaks the same rule, on stdout: as short as leaving things out can make it.
int run_shrink(const sim::RunOptions& options, const SimWords& words, const Streams& streams) {
  sim::WorldOptions world = sim::options_of(options, words.seed);
  if (words.hours > 0) world.faults = options.world.faults;
  const auto shrunk = sim::shrink(
      world, [&](std::size_t left) { streams.err(fmt::format("{} faults and wishes are left\n", left)); });
  if (!shrunk) {
    streams.err(fmt::format("moor sim: seed {} breaks no rule\n", words.seed));
    return static_cast<int>(ExitCode::usage);
  }
  const std::string text = sim::scenario_of(*shrunk, world);
  streams.out(text);
  const auto scenario = sim::parse_scenario(text, "shrunk");
  if (!scenario) {
    streams.err(fmt::format("moor sim: {}\n", scenario.error().message));
    return 1;
  }
  if (shrunk->rule == "assertion") return 0;
  const auto told = sim::run_scenario(*scenario);
  const bool same = told.failure && told.outcome.violation && told.outcome.violation->rule == shrunk->rule;
  streams.err(fmt::format("{} runs; told as a story it breaks {}\n", shrunk->runs,
                          same ? "the same rule" : "nothing, or another rule"));
  return same ? 0 : 1;
}

Result<sim::Scenario> read_scenario(const std::string& file) {
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) return make_error(Errc::not_found, fmt::format("cannot read {}", file));
  return sim::parse_scenario(text, file);
}

// One after the other; the last line has the counts of all.
int run_scenarios(const SimWords& words, const Streams& streams) {
  sim::RunResult result;
  for (const std::string& file : words.scenarios) {
    const auto scenario = read_scenario(file);
    if (!scenario) {
      streams.err(fmt::format("moor sim: {}\n", scenario.error().message));
      return static_cast<int>(ExitCode::usage);
    }
    sim::ScenarioOptions options;
    if (words.seed_given) options.seed = words.seed;
    if (words.io_pause > 0) options.io_pause = options_of(words).world.io_pause;
    options.keep_trace = !words.html.empty();
    if (words.trace) options.on_trace = [&streams](const std::string& line) { streams.out(line + "\n"); };
    const sim::ScenarioOutcome one = sim::run_scenario(*scenario, options);
    if (!words.html.empty()) std::ofstream(words.html) << sim::timeline_page(one.outcome);
    ++result.seeds;
    result.counts.add(one.outcome.counts);
    result.hash = result.hash * 0x9e3779b97f4a7c15ull + one.outcome.hash;
    if (!one.failure) {
      if (words.each) streams.out(fmt::format("{}: {}\n", file, scenario->title));
      continue;
    }
    ++result.failures;
    streams.err(fmt::format("FAILED {}: {}\n{}\n  again: moor sim --scenario {} --seed {} --trace\n", file,
                            scenario->title, *one.failure, file, one.outcome.seed));
  }
  streams.out(sim::summary(result) + "\n");
  return result.failures == 0 ? 0 : 1;
}

std::string failure_of(const sim::Outcome& outcome) {
  if (!outcome.violation) return {};
  return fmt::format("step {}: {} is violated: {}", outcome.violation->step, outcome.violation->rule,
                     outcome.violation->message);
}

// Only what follows a crash is of interest, and a child must not leave it in a buffer.
void tell_child(const std::string& line) {
  if (sim::is_swept_child()) (void)!::write(1, (line + "\n").data(), line.size() + 1);
}

sim::Play play_of(const sim::RunOptions& options, const SimWords& words, std::uint64_t seed,
                  const std::optional<sim::Scenario>& scenario) {
  if (scenario)
    return [scenario, seed, trace = words.trace](const std::function<void(sim::World&)>& prepare) {
      sim::ScenarioOptions one;
      one.seed = seed;
      one.prepare = prepare;
      if (trace) one.on_trace = tell_child;
      return sim::run_scenario(*scenario, one).failure.value_or("");
    };
  sim::WorldOptions world = sim::options_of(options, seed);
  if (words.hours > 0) world.faults = options.world.faults;
  if (words.trace) world.on_trace = tell_child;
  return [world](const std::function<void(sim::World&)>& prepare) {
    sim::World one(world);
    prepare(one);
    return failure_of(one.run());
  };
}

// One sweep for every seed and, if there are any, every scenario.
int run_sweeps(const sim::RunOptions& options, const SimWords& words, std::uint64_t first, std::uint64_t last,
               const Streams& streams) {
  std::vector<std::optional<sim::Scenario>> stories;
  for (const std::string& file : words.scenarios) {
    auto scenario = read_scenario(file);
    if (!scenario) {
      streams.err(fmt::format("moor sim: {}\n", scenario.error().message));
      return static_cast<int>(ExitCode::usage);
    }
    stories.emplace_back(*std::move(scenario));
  }
  if (stories.empty()) stories.emplace_back();
  sim::SweepResult all;
  std::uint64_t failures = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    for (const auto& story : stories) {
      const std::string name =
          story ? fmt::format("{} --seed {}", story->file, seed) : fmt::format("seed {}", seed);
      sim::SweepOptions sweep{play_of(options, words, seed, story),
                              seed,
                              words.from_point,
                              std::max<std::uint64_t>(1, words.stride),
                              words.points,
                              words.pairs,
                              words.jobs};
      const sim::SweepResult result = sim::sweep(sweep, [&](const sim::SweepRun& run) {
        if (!run.failure.empty()) streams.err(fmt::format("{}: {}\n", name, sim::describe(run)));
      });
      if (!result.baseline.empty())
        streams.err(fmt::format("{}: fails without any crash of the sweep: {}\n", name, result.baseline));
      all.points += result.points;
      all.runs += result.runs;
      failures += result.failed.size() + (result.baseline.empty() ? 0 : 1);
    }
  }
  streams.out(fmt::format("{} sweeps, {} crash points, {} runs, {} failures\n",
                          (last - first + 1) * stories.size(), all.points, all.runs, failures));
  return failures == 0 ? 0 : 1;
}

int run_sim(const SimWords& words, const Streams& streams) {
  const auto level = parse_log_level(words.log_level);
  if (!level) {
    streams.err("moor sim: " + level.error().message + "\n");
    return static_cast<int>(ExitCode::usage);
  }
  configure_log(*level, LogFormat::text);
  if (const auto selected = plant::select(words.plant); !selected) {
    streams.err(fmt::format("moor sim: {}\n", selected.error().message));
    return static_cast<int>(ExitCode::usage);
  }
  if (!words.scenarios.empty() && !words.sweep) return run_scenarios(words, streams);
  sim::RunOptions options = options_of(words);
  if (words.seeds.empty() && words.sweep) return run_sweeps(options, words, words.seed, words.seed, streams);
  if (words.seeds.empty() && words.shrink) return run_shrink(options, words, streams);
  if (words.seeds.empty()) return run_one(options, words, streams);
  const auto range = range_of(words.seeds);
  if (!range) {
    streams.err("moor sim: --seeds is A..B\n");
    return static_cast<int>(ExitCode::usage);
  }
  std::tie(options.first, options.last) = *range;
  if (words.sweep) return run_sweeps(options, words, options.first, options.last, streams);
  const auto result = sim::run_seeds(options, [&](const sim::SeedResult& one) {
    if (one.failed) streams.err(one.failure + "\n");
    if (words.each) streams.out(fmt::format("seed {} hash {:016x}\n", one.seed, one.hash));
  });
  streams.out(sim::summary(result) + "\n");
  return result.failures == 0 ? 0 : 1;
}

}  // namespace

void add_sim(CLI::App& app, CommandLine& line) {
  CLI::App& command =
      *app.add_subcommand("sim", "Run whole clusters in simulation, with faults, and check them");
  command.footer(
      "Examples:\n"
      "  moor sim --seeds 1..1000 --jobs 2\n"
      "  moor sim --seed 7 --trace\n"
      "  moor sim --scenario tests/scenarios/*.scn\n"
      "  moor sim --seed 7 --nodes 10 --volumes 100 --servers 3 --hours 1 --html run.html\n"
      "Each seed chooses its cluster and its faults unless you say how many nodes, volumes or servers. The\n"
      "same seed gives the same hash on every machine. A failure prints the rule that was broken and the\n"
      "command that replays it; the last line has the counts. Exit codes: 0 all rules held, 1 one did "
      "not.\n");
  const auto words = std::make_shared<SimWords>();  // shared by the options and the run after parsing
  command.add_option("--seed", words->seed, "One seed")->default_val(1)->each([words](const std::string&) {
    words->seed_given = true;
  });
  command.add_option("--scenario", words->scenarios,
                     "Stories as text (tests/scenarios), each in a cluster of its own");
  command.add_option("--seeds", words->seeds, "Many: A..B");
  command.add_option("--hours", words->hours, "How long faults go on, in hours of the simulated clock");
  command.add_option("--io-pause", words->io_pause,
                     "Seconds between two requests of a workload, on average (0.5)");
  command.add_option("--nodes", words->nodes, "How many nodes");
  command.add_option("--volumes", words->volumes, "How many volumes");
  command.add_option("--servers", words->servers, "Servers on one shared store; 0: one with its own store");
  command.add_flag("--no-swarm,!--swarm", words->no_swarm, "No faults and no wishes");
  command.add_flag("--trace", words->trace, "Tell what happens, line by line");
  command.add_option("--html", words->html, "Write a timeline page");
  command.add_option("--jobs", words->jobs, "Processes for --seeds")->capture_default_str();
  command.add_option("--log-level", words->log_level, "What the product logs: off, error, warn, info, debug")
      ->capture_default_str();
  command.add_flag("--each", words->each, "Print the hash of every seed");
  command.add_option("--plant", words->plant,
                     "Make one planted mistake (builds with MOOR_PLANTS only; base/plants.def)");
  command.add_flag(
      "--sweep", words->sweep,
      "Crash before and after every durable write and external call of the seed or scenario, and "
      "kill every engine there");
  command.add_option("--stride", words->stride, "With --sweep: every so many points")->capture_default_str();
  command.add_flag("--pairs", words->pairs, "With --sweep: every crash once more with a second one after it");
  command.add_option("--from-point", words->from_point, "With --sweep: not before this point");
  command.add_flag(
      "--shrink", words->shrink,
      "Leave out of a failing seed what the failure does not need, and tell the rest as a story");
  command.add_flag("--moves", words->moves, "Volumes move between nodes");
  command.add_option("--points", words->points, "With --sweep: points at most; 0: all")
      ->capture_default_str();
  command.callback(
      [words, &line] { line.local = [words](const Streams& streams) { return run_sim(*words, streams); }; });
}

}  // namespace moor::cli
