#include "agent/hollow/hollow_process.h"

#include <fmt/format.h>

#include <csignal>

namespace moor::agent {
namespace {

std::int64_t number_in(const std::string& text) {
  const auto json = parse_json(text);
  return json ? json->to_int64().value_or(0) : 0;
}

// "tcp:10.0.0.1:4711,name=v1-r-1,mode=rw,local"
struct MemberWord {
  std::string address;
  std::string name;
  std::string mode;
};

MemberWord read_member(std::string_view word) {
  MemberWord member;
  for (bool first = true; !word.empty(); first = false) {
    const std::string_view part = word.substr(0, word.find(','));
    word.remove_prefix(std::min(word.size(), part.size() + 1));
    if (first) {
      member.address = part;
    } else if (part.starts_with("name=")) {
      member.name = part.substr(5);
    } else if (part.starts_with("mode=")) {
      member.mode = part.substr(5) == "rw" ? "RW" : part.substr(5) == "wo" ? "WO" : "ERR";
    }
  }
  return member;
}

// Waits until something happens to the process, or the token is cancelled.
Task<Result<void>> wait_for_news(std::shared_ptr<HollowProcess> process, CancelToken token) {
  const Completion<bool> news(process->executor);
  process->waiting.push_back(news);
  const CancelCallback on_cancel(token, [news] { news.set(false); });
  (void)co_await news;
  co_return token.check();
}

class ProcessView final : public Process {
 public:
  explicit ProcessView(std::shared_ptr<HollowProcess> process) : process_(std::move(process)) {}
  int pid() const override { return process_->pid; }
  void signal(int number) override {
    if (number == SIGTERM) process_->say("stopping", Json::object({{"reason", "drained"}}));
    process_->end(0);
  }
  Task<Result<ProcessEnd>> wait(CancelToken token) override {
    const std::shared_ptr<HollowProcess> process = process_;
    while (!process->ended) CO_TRY_VOID(co_await wait_for_news(process, token));
    co_return *process->ended;
  }

 private:
  std::shared_ptr<HollowProcess> process_;
};

class ControlView final : public Control {
 public:
  explicit ControlView(std::shared_ptr<HollowProcess> process) : process_(std::move(process)) {}
  Task<Result<Json>> call(std::string op, Json arguments) override {
    co_return process_->answer(op, arguments);
  }
  Task<Result<Event>> next(CancelToken token) override {
    const std::shared_ptr<HollowProcess> process = process_;
    while (process->events.empty()) {
      if (process->ended) co_return make_error(Errc::unavailable, "the process has ended");
      CO_TRY_VOID(co_await wait_for_news(process, token));
    }
    Event event = std::move(process->events.front());
    process->events.pop_front();
    co_return event;
  }

 private:
  std::shared_ptr<HollowProcess> process_;
};

}  // namespace

HollowProcess::HollowProcess(Executor& executor_, ProcessSpec spec_, int pid_)
    : executor(executor_), spec(std::move(spec_)), pid(pid_) {
  if (role() != "engine") return;
  generation = number_in(option("--generation"));
  epoch = number_in(option("--epoch"));
  source = option("--source");
  standby = !source.empty();
  for (const std::string& word : spec.arguments) holding = holding || word == "--hold";
  export_id = option("--export-id");
  confirmed = !export_id.empty();
  if (!confirmed) export_id = fmt::format("hollow-{}-{}", option("--volume"), option("--epoch"));
}

std::string HollowProcess::option(std::string_view name) const {
  const auto all = options(name);
  return all.empty() ? "" : all.front();
}

std::vector<std::string> HollowProcess::options(std::string_view name) const {
  std::vector<std::string> values;
  for (std::size_t i = 0; i + 1 < spec.arguments.size(); ++i)
    if (spec.arguments[i] == name) values.push_back(spec.arguments[i + 1]);
  return values;
}

Json HollowProcess::members() const {
  Json list = Json::array();
  for (const std::string& word : options("--replica")) {
    const MemberWord member = read_member(word);
    list.push_back(Json::object({{"name", member.name}, {"address", member.address}, {"mode", member.mode}}));
  }
  return list;
}

Json HollowProcess::proposal() const {
  Json modes = Json::object();
  for (const std::string& word : options("--replica")) {
    const MemberWord member = read_member(word);
    modes.set(member.name, member.mode);
  }
  return Json::object({{"proposal", 1},
                       {"epoch", epoch},
                       {"base_generation", generation},
                       {"generation", generation + 1},
                       {"members", std::move(modes)},
                       {"export_id", export_id},
                       {"reason", "start"}});
}

Json HollowProcess::engine_status() const {
  Json status = Json::object({{"program", "engine"},
                              {"epoch", epoch},
                              {"state", standby     ? "standby"
                                        : confirmed ? "serving"
                                                    : "starting"},
                              {"size", 1 << 26},
                              {"generation", generation},
                              {"export_id", export_id},
                              {"members", members()},
                              {"chain", Json::array()}});
  status.set("holding", holding);
  if (!option("--peer-listen").empty())
    status.set("peerAddress", fmt::format("tcp:127.0.0.1:{}", 10'000 + pid % 50'000));
  if (standby) {
    status.set("ready", true);
    status.set("source", Json::object({{"address", source}, {"problem", ""}}));
  }
  if (!confirmed && !standby) status.set("proposal", proposal());
  return status;
}

Json HollowProcess::status() const {
  if (role() == "engine") return engine_status();
  if (role() == "device")
    return Json::object({{"program", "device"}, {"state", "serving"}, {"device", "/dev/hollow"}});
  return Json::object({{"program", "replica"}, {"generation", 0}, {"floor", Json::object({{"epoch", 0}})}});
}

Result<Json> HollowProcess::answer(const std::string& op, const Json& arguments) {
  if (ended) return make_error(Errc::unavailable, "the process has ended");
  if (op == "status") return status();
  if (op == "member.confirm") {
    if (!confirmed) {
      generation = arguments.get_int64("generation").value_or(generation);
      confirmed = true;
      say("state", engine_status());
    }
    return Json::object();
  }
  if (op == "hold") {
    holding = arguments.get_bool("on").value_or(false);
    return Json::object();
  }
  if (op == "standby.update") {
    epoch = arguments.get_int64("epoch").value_or(epoch);
    source = arguments.get_string("source").value_or(source);
    return Json::object();
  }
  if (op == "activate.confirm" || op == "epoch.take") {
    epoch = arguments.get_int64("epoch").value_or(epoch);
    generation = arguments.get_int64("generation").value_or(generation);
    standby = false;
    confirmed = true;
    say("state", engine_status());
    return Json::object();
  }
  if (op == "shutdown" || op == "supersede" || op == "activate.refuse") {
    say("stopping", Json::object({{"reason", op == "shutdown" ? "drained" : "superseded"}}));
    end(0);
    return Json::object();
  }
  return make_error(Errc::unsupported, op);
}

void HollowProcess::say(std::string name, Json data) {
  events.push_back({std::move(name), std::move(data)});
  wake();
}

void HollowProcess::end(int code) {
  if (ended) return;
  ended = ProcessEnd{code, std::nullopt};
  wake();
}

void HollowProcess::wake() {
  for (const Completion<bool>& one : std::exchange(waiting, {})) one.set(true);
}

std::unique_ptr<Process> view_process(std::shared_ptr<HollowProcess> process) {
  return std::make_unique<ProcessView>(std::move(process));
}

std::unique_ptr<Control> view_control(std::shared_ptr<HollowProcess> process) {
  return std::make_unique<ControlView>(std::move(process));
}

}  // namespace moor::agent
