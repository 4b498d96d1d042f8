#include "sim/scenario/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/assert.h"
#include "base/units.h"
#include "sim/scenario/condition.h"

namespace moor::sim {

namespace {

constexpr Duration kUntilLimit = std::chrono::seconds(60);
constexpr Duration kSettleLimit = std::chrono::minutes(10);
constexpr Duration kTimedSettleLimit = std::chrono::minutes(30);  // as a seed has it
// Long enough to matter to everybody who waits for a lease, short enough to end within any limit.
constexpr Duration kFaultLasts = std::chrono::seconds(5);

struct Promise {
  std::string text;
  Condition holds;
};

// `always` and `never`, from the statement that says them to the end.
class Promises final : public Checker {
 public:
  Promises() : Checker("scenario") {}
  void add(Promise promise) { promises_.push_back(std::move(promise)); }
  void at_step(const Reality& reality, const Step& step) override {
    if (!step.committed && !step.processes && !step.io && !step.replicas && !step.engines) return;
    for (const Promise& promise : promises_)
      if (!promise.holds(reality)) return violated(promise.text);
  }

 private:
  std::vector<Promise> promises_;
};

std::string option(const Statement& statement, const char* name, std::string otherwise = {}) {
  const auto found = statement.options.find(name);
  return found == statement.options.end() ? std::move(otherwise) : found->second;
}

Duration duration(const Statement& statement, const char* name, Duration otherwise) {
  const auto found = statement.options.find(name);
  return found == statement.options.end() ? otherwise : *parse_signed_duration(found->second);
}

std::optional<FaultKind> fault_kind(const Statement& statement) {
  struct Row {
    std::string_view verb;
    std::string_view what;  // empty: any
    FaultKind kind;
  };
  static constexpr Row kRows[] = {
      {"crash", "server", FaultKind::kill_server},
      {"crash", "agent", FaultKind::kill_agent},
      {"crash", "", FaultKind::kill_process},
      {"power", "node", FaultKind::power_node},
      {"power", "server", FaultKind::power_server},
      {"power", "room", FaultKind::power_room},
      {"pause", "server", FaultKind::pause_server},
      {"pause", "agent", FaultKind::pause_agent},
      {"pause", "", FaultKind::pause_process},
      {"cut", "", FaultKind::cut_node},
      {"cut-out", "", FaultKind::cut_one_way},
      {"cut-in", "", FaultKind::cut_one_way},
      {"cut-pair", "", FaultKind::cut_pair},
      {"cut-store", "", FaultKind::cut_store},
      {"lossy", "", FaultKind::lossy},
      {"slow", "", FaultKind::slow},
      {"late", "", FaultKind::late},
      {"stray-hello", "", FaultKind::stray_hello},
      {"rot", "", FaultKind::bit_rot},
      {"lose-data", "", FaultKind::lost_data},
      {"twin", "", FaultKind::twin},
      {"lose-answers", "", FaultKind::lose_answers},
      {"cut-watches", "", FaultKind::watch_cuts},
      {"compact", "", FaultKind::expire_watches},
      {"store-down", "", FaultKind::store_down},
      {"step-clock", "", FaultKind::step_clock},
      {"full-disk", "", FaultKind::full_disk},
      {"failing-sync", "", FaultKind::failing_sync},
      {"slow-disk", "", FaultKind::slow_disk},
      {"old-boot", "", FaultKind::old_boot},
      {"late-commands", "", FaultKind::backend_timeout},
  };
  for (const Row& row : kRows) {
    if (row.verb != statement.verb) continue;
    if (row.what.empty() || (!statement.words.empty() && statement.words[0] == row.what)) return row.kind;
  }
  return std::nullopt;
}

// The first node or server that the statement names, counted from 0 as faults count.
std::uint32_t target_of(const Statement& statement) {
  for (const std::string& word : statement.words)
    if (word.size() > 1 && (word[0] == 'n' || word[0] == 's') && word[1] >= '0' && word[1] <= '9')
      return number_of(word) - 1;
  return 0;
}

Fault to_fault(const Statement& statement, FaultKind kind) {
  Fault fault;
  fault.kind = kind;
  fault.target = target_of(statement);
  fault.lasts = duration(statement, "for", kFaultLasts);
  const auto& words = statement.words;
  switch (kind) {
    case FaultKind::kill_process:
    case FaultKind::pause_process:
      // "engine volume-1", "replica volume-1-r-2", "replica volume-1" for all of them
      fault.process =
          fmt::format("{} {}", words[0] == "replicas" ? "replica" : words[0], volume_name(words[1]));
      if (words.size() > 3)
        fault.process += " on " + node_name(words[3]);
      else if (words.size() > 2)
        fault.process += "-r-" + words[2];
      break;
    case FaultKind::stray_hello: {
      static const std::map<std::string, std::int64_t> kinds{
          {"old-epoch", 0}, {"other-engine", 1}, {"old-session", 2}, {"twice", 3}};
      const auto named = kinds.find(words[2]);
      fault.argument = named == kinds.end() ? 3 : named->second;
      fault.process = fmt::format("replica {}-r-{}", volume_name(words[0]), words[1]);
      break;
    }
    case FaultKind::bit_rot: fault.argument = 1000; [[fallthrough]];
    case FaultKind::lost_data:
    case FaultKind::failing_sync:
      fault.process = fmt::format("replica {}-r-{}", volume_name(words[0]), words[1]);
      break;
    case FaultKind::cut_one_way: fault.argument = statement.verb == "cut-in" ? 1 : 0; break;
    case FaultKind::cut_pair: fault.argument = number_of(words[1]) - 1; break;
    case FaultKind::late:
    case FaultKind::lossy:
    case FaultKind::slow: fault.argument = static_cast<std::int64_t>(std::stoll(words[1])); break;
    case FaultKind::step_clock:
      fault.argument = *parse_signed_duration(words[1]) / std::chrono::seconds(1);
      break;
    default: break;
  }
  return fault;
}

// "fault crash_point 3 for 5s with 120": every fault as a seed draws it.
std::optional<Fault> drawn_fault(const Statement& statement) {
  if (statement.verb != "fault") return std::nullopt;
  Fault fault;
  const auto kind = fault_kind_of(statement.words[0]);
  if (!kind) return std::nullopt;
  fault.kind = *kind;
  fault.target = static_cast<std::uint32_t>(std::stoul(statement.words[1]));
  fault.lasts = duration(statement, "for", Duration{0});
  fault.argument = std::strtoll(option(statement, "with", "0").c_str(), nullptr, 10);
  fault.process = option(statement, "process");
  std::replace(fault.process.begin(), fault.process.end(), '/', ' ');
  return fault;
}

std::optional<Wish> to_wish(const Statement& statement) {
  Wish wish;
  const auto& words = statement.words;
  if (statement.verb == "setting") {
    wish.kind = WishKind::set_setting;
    wish.ticket = words[0];
    wish.type = words[1];
    return wish;
  }
  if (words.empty() || !words[0].starts_with('v')) return std::nullopt;
  wish.volume = number_of(words[0]);
  for (const std::string& word : words)
    if (word.size() > 1 && word[0] == 'n' && word[1] >= '0' && word[1] <= '9') wish.node = number_of(word);
  if (statement.verb == "hand-over") {
    wish.kind = WishKind::hand_over;  // its tickets are found by their nodes
  } else if (statement.verb == "volume" || statement.verb == "create") {
    wish.kind = WishKind::create_volume;
    wish.replicas = static_cast<std::uint32_t>(std::stoul(option(statement, "replicas", "3")));
    wish.access_mode = option(statement, "mode", "rwo");
    wish.migratable = option(statement, "migratable") == "yes";
  } else if (statement.verb == "delete") {
    wish.kind = WishKind::delete_volume;
  } else if (statement.verb == "count") {
    wish.kind = WishKind::count;
  } else if (statement.verb == "writer" || statement.verb == "reader") {
    wish.kind = WishKind::open_client;
    if (statement.verb == "reader") wish.type = "reader";
  } else if (statement.verb == "no-writer") {
    wish.kind = WishKind::close_client;
  } else if (statement.verb == "drop") {
    wish.kind = WishKind::detach;
    wish.ticket = words[1];
  } else if (statement.verb == "want" || statement.verb == "reserve") {
    wish.kind = WishKind::attach;
    wish.ticket = option(statement, "as", fmt::format("{}-{}", words[0], words.back()));
    wish.type = option(statement, "type", "csi-attacher");
    if (statement.options.contains("frontend")) {
      const std::string frontend = option(statement, "frontend");
      wish.parameters["disableFrontend"] = frontend == "yes" ? "false" : frontend == "no" ? "true" : "any";
    }
    wish.owner = option(statement, "owner");
    if (wish.owner.size() > 1 && wish.owner[0] == 'v' && wish.owner[1] >= '1' && wish.owner[1] <= '9')
      wish.owner = volume_name(wish.owner);
    wish.expires = duration(statement, "expires", Duration{0});
  } else if (statement.verb == "retarget") {
    wish.kind = WishKind::retarget;
    wish.ticket = words[1];
  } else if (statement.verb == "activate") {
    wish.kind = WishKind::set_parameter;
    wish.ticket = words[1];
    wish.parameters["activate"] = "true";
  } else {
    return std::nullopt;
  }
  return wish;
}

class Run {
 public:
  Run(const Scenario& scenario, const ScenarioOptions& options)
      : scenario_(scenario), world_(world_options(scenario, options)) {
    auto promises = std::make_unique<Promises>();
    promises_ = promises.get();
    world_.add_checker(std::move(promises));
    const auto sweeps = [](const Statement& one) { return one.verb == "sweep-begin"; };
    world_.crash_points().set_window(
        std::none_of(scenario.statements.begin(), scenario.statements.end(), sweeps));
    if (options.prepare) options.prepare(world_);
  }

  ScenarioOutcome finish() {
    const bool timed = schedule_timed();
    world_.warm_up();
    for (const Statement& statement : scenario_.statements) {
      if (failed(statement)) break;
      perform(statement);
    }
    if (!failure_ && !world_.violation()) {
      world_.heal();
      if (!world_.settle(timed ? kTimedSettleLimit : kSettleLimit) && timed && !world_.violation())
        failure_ = scenario_.file + ": L8: the cluster does not come to rest after the faults have stopped";
      world_.judge();
      if (timed && !world_.violation()) world_.let_go();
    }
    if (!failure_ && world_.violation())
      failure_ =
          fmt::format("{}: {}: {}", scenario_.file, world_.violation()->rule, world_.violation()->message);
    return {world_.outcome(), failure_};
  }

 private:
  static WorldOptions world_options(const Scenario& scenario, const ScenarioOptions& options) {
    WorldOptions world;
    world.seed = options.seed.value_or(scenario.seed);
    world.nodes = scenario.nodes;
    world.servers = scenario.servers;
    world.shared_store = scenario.shared_store;
    world.moods = scenario.moods;
    world.io_pause = options.io_pause.value_or(world.io_pause);
    world.volumes = 0;
    world.swarm = false;
    world.keep_trace = options.keep_trace;
    world.on_trace = options.on_trace;
    return world;
  }

  bool failed(const Statement& statement) {
    if (failure_) return true;
    if (!world_.violation()) return false;
    fail(statement, fmt::format("{}: {}", world_.violation()->rule, world_.violation()->message));
    return true;
  }

  void fail(const Statement& statement, const std::string& why) {
    failure_ = fmt::format("{}:{}: {}: {}", scenario_.file, statement.line, statement.text, why);
  }

  // What has a time is known before the story begins, as a seed's schedule is.
  bool schedule_timed() {
    Schedule schedule;
    for (const Statement& statement : scenario_.statements) {
      if (!statement.at || statement.verb == "at") continue;
      if (auto fault = fault_of(statement)) {
        fault->at = *statement.at;
        schedule.faults.push_back(*std::move(fault));
      } else if (auto wish = wish_of(statement)) {
        wish->at = *statement.at;
        schedule.wishes.push_back(*std::move(wish));
      }
    }
    if (schedule.faults.empty() && schedule.wishes.empty()) return false;
    world_.schedule(schedule);
    return true;
  }

  static std::optional<Fault> fault_of(const Statement& statement) {
    if (auto drawn = drawn_fault(statement)) return drawn;
    if (const auto kind = fault_kind(statement)) return to_fault(statement, *kind);
    return std::nullopt;
  }

  // A writer is the workload of the ticket that was last wanted there: it opens the device when that is
  // satisfied, and ends with it.
  std::optional<Wish> wish_of(const Statement& statement) {
    auto wish = to_wish(statement);
    if (!wish) return wish;
    const auto place = std::pair(wish->volume, wish->node);
    if (wish->kind == WishKind::attach || wish->kind == WishKind::retarget) tickets_[place] = wish->ticket;
    if (wish->kind == WishKind::open_client || wish->kind == WishKind::close_client)
      wish->ticket = option(statement, "as", tickets_[place]);
    if (wish->kind == WishKind::hand_over) {
      wish->ticket = option(statement, "as", tickets_[{wish->volume, number_of(statement.words[2])}]);
      wish->type = option(statement, "then", tickets_[place]);
    }
    return wish;
  }

  void perform(const Statement& statement) {
    if (statement.verb == "at")
      return world_.run_for(std::max<Duration>(
          TimePoint{std::chrono::seconds(1)} + *statement.at - world_.reality().now(), Duration{0}));
    if (statement.at) return;
    if (statement.verb == "wait") return world_.run_for(*parse_signed_duration(statement.words[0]));
    if (statement.verb == "sweep-begin" || statement.verb == "sweep-end")
      return world_.crash_points().set_window(statement.verb == "sweep-begin");
    if (statement.verb == "settle") {
      if (!world_.settle(duration(statement, "within", kSettleLimit)) && !world_.violation())
        fail(statement, "it did not come to rest");
      return;
    }
    if (statement.verb == "until" || statement.verb == "check" || statement.verb == "always" ||
        statement.verb == "never")
      return ask(statement);
    if (const auto fault = fault_of(statement)) return world_.inject(*fault);
    if (statement.verb == "fault") return fail(statement, "there is no such fault");
    const auto wish = wish_of(statement);
    MOOR_ASSERT(wish.has_value(), "the parser lets through only statements that exist");
    world_.wish(*wish);
  }

  void ask(const Statement& statement) {
    Condition holds = make_condition(statement.words);
    if (statement.options.contains("not") != (statement.verb == "never"))
      holds = [inner = std::move(holds)](const Reality& reality) { return !inner(reality); };
    if (statement.verb == "always" || statement.verb == "never") {
      promises_->add({fmt::format("{}:{}: {}", scenario_.file, statement.line, statement.text), holds});
      return;
    }
    const Duration limit =
        statement.verb == "check" ? Duration{0} : duration(statement, "within", kUntilLimit);
    if (holds(world_.reality())) return;
    if (limit > Duration{0} && world_.run_until(holds, limit)) return;
    if (!world_.violation()) fail(statement, describe_now(world_.reality(), statement.words));
  }

  const Scenario& scenario_;
  World world_;
  Promises* promises_ = nullptr;                                            // the world's
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> tickets_;  // by volume and node
  std::optional<std::string> failure_;
};

}  // namespace

ScenarioOutcome run_scenario(const Scenario& scenario, const ScenarioOptions& options) {
  return Run(scenario, options).finish();
}

}  // namespace moor::sim
