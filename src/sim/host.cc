#include "sim/host.h"

#include <fmt/format.h>

#include <csignal>

namespace moor::sim {

using namespace std::chrono_literals;
using namespace agent;

namespace {

class ProcessView final : public Process {
 public:
  ProcessView(Caller& caller, std::shared_ptr<BlockProcess> process, bool ours)
      : caller_(caller), process_(std::move(process)), ours_(ours) {}
  int pid() const override { return process_->pid(); }
  void signal(int number) override {
    if (caller_.is_severed()) return;
    caller_.context().scheduler.soon([process = process_, number] { process->signal(number); });
  }
  Task<Result<ProcessEnd>> wait(CancelToken token) override {
    const std::shared_ptr<BlockProcess> process = process_;
    Caller& caller = caller_;
    const bool ours = ours_;
    while (process->is_alive()) {
      if (caller.is_severed()) co_return make_error(Errc::cancelled, "severed");
      CO_TRY_VOID(token.check());
      const Completion<bool> news(caller.process());
      process->waiting.push_back(news);
      const CancelCallback on_cancel(token, [news] { news.set(false); });
      const CancelCallback on_sever(caller.severed(), [news] { news.set(false); });
      (void)co_await news;
    }
    // Only a parent hears how a process ended.
    if (!ours) co_return ProcessEnd{};
    co_return *process->ended();
  }

 private:
  Caller& caller_;
  std::shared_ptr<BlockProcess> process_;
  bool ours_;
};

class ControlView final : public Control {
 public:
  ControlView(Caller& caller, std::shared_ptr<BlockProcess> process)
      : caller_(caller), process_(std::move(process)), session_(std::make_shared<ControlSession>()) {
    process_->sessions.push_back(session_);
  }
  ~ControlView() override { session_->open = false; }

  Task<Result<Json>> call(std::string op, Json arguments) override {
    Caller& caller = caller_;
    const std::shared_ptr<BlockProcess> process = process_;
    const std::shared_ptr<ControlSession> session = session_;
    if (caller.is_severed() || !process->is_alive())
      co_return make_error(Errc::unavailable, "the process has ended");
    const Completion<Result<Json>> done(caller.process());
    const CancelCallback on_sever(caller.severed(),
                                  [done] { done.set(make_error(Errc::unavailable, "severed")); });
    const auto timer = caller.process().start_timer(caller.process().clock().now() + 10s, [done] {
      done.set(make_error(Errc::timed_out, "no answer in time"));
    });
    Context& world = caller.context();
    const MachineId here = caller.machine();
    world.scheduler.after(world.network.delay(here, here), [&world, here, process, op, arguments, done] {
      if (!process->is_alive()) {
        done.set(make_error(Errc::unavailable, "the process has ended"));
        return;
      }
      process->deliver([&world, here, raw = process.get(), op, arguments, done] {
        raw->control(op, arguments, [&world, here, done](Result<Json> result) {
          world.scheduler.after(world.network.delay(here, here), [done, result] { done.set(result); });
        });
      });
    });
    Result<Json> result = co_await done;
    caller.process().stop_timer(timer);
    co_return result;
  }

  Task<Result<Event>> next(CancelToken token) override {
    Caller& caller = caller_;
    const std::shared_ptr<ControlSession> session = session_;
    while (session->events.empty()) {
      CO_TRY_VOID(token.check());
      if (!session->open || caller.is_severed())
        co_return make_error(Errc::unavailable, "the connection is lost");
      session->waiter.emplace(caller.process());
      const Completion<bool> waiter = *session->waiter;
      const CancelCallback on_cancel(token, [waiter] { waiter.set(false); });
      const CancelCallback on_sever(caller.severed(), [waiter] { waiter.set(false); });
      (void)co_await waiter;
      session->waiter.reset();
    }
    Event event = std::move(session->events.front());
    session->events.pop_front();
    co_return event;
  }

 private:
  Caller& caller_;
  std::shared_ptr<BlockProcess> process_;
  std::shared_ptr<ControlSession> session_;
};

}  // namespace

Task<Result<void>> HostFace::wait(Duration duration) {
  if (caller_.is_severed()) co_return make_error(Errc::unavailable, "severed");
  const Completion<Result<void>> done(caller_.process());
  const CancelCallback on_sever(caller_.severed(),
                                [done] { done.set(make_error(Errc::unavailable, "severed")); });
  caller_.context().scheduler.after(duration, [done] { done.set({}); });
  co_return co_await done;
}

void HostFace::crash(bool power) {
  Machine& machine = machine_;
  caller_.context().scheduler.soon([&machine, power] { machine.crash(power); });
}

Task<Result<void>> HostFace::enter(std::string what) {
  CO_TRY_VOID(co_await wait(caller_.context().scheduler.between(50us, 3ms)));
  CrashPoints& points = caller_.context().crash_points;
  verdict_ =
      points.is_quiet() ? points.reach({}) : points.reach({"agent " + machine_.name(), std::move(what)});
  if (verdict_.when != CrashWhen::before) co_return Result<void>();
  crash(verdict_.power);
  co_return co_await wait(1h);  // severed before that
}

Task<Result<void>> HostFace::leave() {
  if (verdict_.when != CrashWhen::after) co_return Result<void>();
  verdict_ = {};
  crash(caller_.context().scheduler.random().chance(1, 4));
  co_return co_await wait(1h);
}

void HostFace::pass(const std::string& what) {
  CrashPoints& points = caller_.context().crash_points;
  const auto verdict =
      points.is_quiet() ? points.reach({}) : points.reach({"agent " + machine_.name(), what});
  if (verdict.when != CrashWhen::never) crash(verdict.power);
}

Task<Result<std::unique_ptr<Process>>> HostFace::start(ProcessSpec spec) {
  std::string what = "start " + spec.key;
  CO_TRY_VOID(co_await enter(std::move(what)));
  const auto found = machine_.processes.find(spec.key);
  if (found != machine_.processes.end() && found->second->is_alive())
    co_return make_error(Errc::already_exists, spec.key + " lives");
  machine_.records[spec.key] = spec.record;
  // The record is durable; the process may never come to be.
  CO_TRY_VOID(co_await wait(caller_.context().scheduler.between(100us, 2ms)));
  const auto process = machine_.make_process(std::move(spec));
  caller_.context().scheduler.after(caller_.context().scheduler.between(1ms, 20ms),
                                    [process] { process->deliver([raw = process.get()] { raw->begin(); }); });
  CO_TRY_VOID(co_await leave());
  std::unique_ptr<Process> view = std::make_unique<ProcessView>(caller_, process, true);
  co_return view;
}

Task<Result<std::vector<FoundProcess>>> HostFace::find_all() {
  CO_TRY_VOID(co_await enter("find"));
  std::vector<FoundProcess> found;
  for (const auto& [key, record] : machine_.records) {
    FoundProcess one{key, record, nullptr};
    const auto process = machine_.processes.find(key);
    if (process != machine_.processes.end() && process->second->is_alive())
      one.process = std::make_unique<ProcessView>(caller_, process->second, false);
    found.push_back(std::move(one));
  }
  co_return found;
}

Task<Result<void>> HostFace::write_record(std::string key, Json record) {
  std::string what = "write record " + key;
  CO_TRY_VOID(co_await enter(std::move(what)));
  machine_.records[key] = std::move(record);
  co_return co_await leave();
}

Task<Result<void>> HostFace::forget(std::string key) {
  std::string what = "forget " + key;
  CO_TRY_VOID(co_await enter(std::move(what)));
  machine_.records.erase(key);
  machine_.outputs.erase(key);
  machine_.files.erase(token_path(key));
  const auto found = machine_.processes.find(key);
  if (found != machine_.processes.end() && !found->second->is_alive()) machine_.processes.erase(found);
  co_return co_await leave();
}

Task<Result<std::string>> HostFace::output(std::string key) {
  CO_TRY_VOID(co_await enter("output"));
  const auto found = machine_.outputs.find(key);
  if (found == machine_.outputs.end()) co_return make_error(Errc::not_found, key);
  co_return found->second;
}

Task<std::string> HostFace::last_words(std::string key) {
  const auto entered = co_await enter("last words");
  const auto found = machine_.processes.find(key);
  if (!entered || found == machine_.processes.end()) co_return std::string();
  co_return found->second->last_words;
}

Task<Result<std::unique_ptr<Control>>> HostFace::connect(std::string key, CancelToken token) {
  while (true) {
    CO_TRY_VOID(token.check());
    CO_TRY_VOID(co_await wait(caller_.context().scheduler.between(50us, 500us)));
    const auto found = machine_.processes.find(key);
    if (found == machine_.processes.end() || !found->second->is_alive())
      co_return make_error(Errc::unavailable, "no process of this key lives: " + key);
    const std::shared_ptr<BlockProcess> process = found->second;
    if (process->listens()) {
      std::unique_ptr<Control> control = std::make_unique<ControlView>(caller_, process);
      co_return control;
    }
    const Completion<bool> news(caller_.process());
    process->waiting.push_back(news);
    const CancelCallback on_cancel(token, [news] { news.set(false); });
    const CancelCallback on_sever(caller_.severed(), [news] { news.set(false); });
    (void)co_await news;
  }
}

Task<Result<std::string>> HostFace::run(Command command) {
  std::string what = "run";
  if (command.arguments.size() > 2) what += " " + command.arguments[2];
  CO_TRY_VOID(co_await enter(std::move(what)));
  CO_TRY_VOID(co_await wait(caller_.context().scheduler.between(1ms, 30ms)));
  auto done = machine_.run_command(command.arguments);
  CO_TRY_VOID(co_await leave());
  if (machine_.command_timeouts && caller_.context().scheduler.random().chance(1, 2)) {
    CO_TRY_VOID(co_await wait(command.limit));
    co_return make_error(Errc::timed_out, "the command takes too long");
  }
  co_return done;
}

namespace {
bool is_below(const std::string& path, const std::string& top) {
  return path == top || (path.starts_with(top) && path.size() > top.size() && path[top.size()] == '/');
}
}  // namespace

Task<Result<bool>> HostFace::exists(std::string path) {
  CO_TRY_VOID(co_await enter("exists"));
  if (path.ends_with("/volume.meta")) {
    const auto found = machine_.directories.find(path.substr(0, path.rfind('/')));
    co_return found != machine_.directories.end() && found->second.disk->exists("volume.meta");
  }
  for (const auto& [directory, state] : machine_.directories)
    if (is_below(directory, path)) co_return true;
  co_return machine_.files.contains(path);
}

Task<Result<void>> HostFace::make_directory(std::string path) {
  CO_TRY_VOID(co_await enter("make_directory"));
  machine_.durable_directories.insert(path);
  co_return co_await leave();
}

Task<Result<void>> HostFace::remove_tree(std::string path) {
  std::string what = "remove_tree " + path;
  CO_TRY_VOID(co_await enter(std::move(what)));
  machine_.directories.erase_if([&](const std::string& one) { return is_below(one, path); });
  std::erase_if(machine_.files, [&](const auto& one) { return is_below(one.first, path); });
  co_return co_await leave();
}

Task<Result<void>> HostFace::rename(std::string from, std::string to) {
  std::string what = "rename " + from;
  CO_TRY_VOID(co_await enter(std::move(what)));
  if (!machine_.directories.rename(from, to)) co_return make_error(Errc::not_found, from);
  co_return co_await leave();
}

Task<Result<std::string>> HostFace::read_file(std::string path) {
  CO_TRY_VOID(co_await enter("read_file"));
  const auto found = machine_.files.find(path);
  if (found == machine_.files.end()) co_return make_error(Errc::not_found, path);
  co_return found->second;
}

Task<Result<void>> HostFace::write_file(std::string path, std::string content) {
  std::string what = "write_file " + path;
  CO_TRY_VOID(co_await enter(std::move(what)));
  if (machine_.disk_full) co_return make_error(Errc::exhausted, "no space left on device");
  machine_.files[path] = std::move(content);
  co_return co_await leave();
}

Task<DiskFacts> HostFace::look_at_disk(std::string path, bool may_mark) {
  DiskFacts facts;
  if (const auto entered = co_await enter("look_at_disk"); !entered) {
    facts.problem = entered.error().message;
    co_return facts;
  }
  auto& mark = machine_.files[path + "/mooring-disk.cfg"];
  if (mark.empty() && may_mark) mark = "disk-at-" + machine_.address();
  facts.uuid = mark;
  facts.filesystem = "sim";
  facts.available = facts.maximum = 1ll << 40;
  co_return facts;
}

Task<std::vector<std::string>> HostFace::users_of(std::string device) {
  std::vector<std::string> users;
  if (const auto entered = co_await enter("users_of"); !entered) co_return users;
  for (const auto& [key, process] : machine_.processes) {
    const auto* one = dynamic_cast<const DeviceProcess*>(process.get());
    if (one == nullptr || one->device() != device || device.empty()) continue;
    for (const auto& [client, who] : one->users()) users.push_back(who);
  }
  co_return users;
}

Task<Result<std::string>> HostFace::boot_id() {
  CO_TRY_VOID(co_await enter("boot_id"));
  co_return machine_.boot_id();
}

Task<std::string> HostFace::kernel_version() {
  co_return std::string("6.1.0-sim");
}

}  // namespace moor::sim
