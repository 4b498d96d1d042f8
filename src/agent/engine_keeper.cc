#include "agent/engine_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <utility>

#include "agent/core/names.h"
#include "base/log.h"
#include "base/plant.h"
#include "model/names.h"
#include "registry/prepare.h"

namespace moor::agent {
namespace {

using model::longhorn::Engine;
using model::mooring::Grant;
using namespace std::chrono_literals;

// Between looks at a device that somebody uses: 100 ms, doubling to 2 s.
Duration look_pause(int refusals) {
  return std::min<Duration>(2s, 100ms * (1 << std::min(refusals, 5)));
}

// Taking a device away by force is a matter of tenths of a second, and can be asked for again: one that hangs
// must not keep a move or a detach waiting for the minute that other commands have.
constexpr Duration kRemoveLimit = 10s;

constexpr int kLongestBackOff = 5;  // 1.6 s: somebody waits for this volume

std::uint64_t number_of(const std::string& device_key) {
  std::uint64_t number = 0;
  const char* begin = device_key.data() + device_key.rfind('-') + 1;
  std::from_chars(begin, device_key.data() + device_key.size(), number);
  return number;
}

}  // namespace

EngineKeeper::EngineKeeper(Env& env, TaskGroup& group, std::string key, Callbacks callbacks)
    : env_(env),
      group_(group),
      key_(std::move(key)),
      callbacks_(std::move(callbacks)),
      bell_(env.executor),
      status_bell_(env.executor),
      proposal_bell_(env.executor),
      child_(env.executor, env.host, group, key_,
             {[this] { bell_.ring(); }, [this](const Control::Event& event) { heard(event); }}) {
  facts_.socket = env_.host.socket_path(key_);
}

void EngineKeeper::set_object(std::shared_ptr<const Json> object) {
  if (object != nullptr && json_ != nullptr && !is_newer(*object, *json_)) return;
  json_ = std::move(object);
  object_.reset();
  if (json_ != nullptr) {
    auto decoded = model::decode<Engine>(*json_);
    if (decoded) object_ = *std::move(decoded);
  }
  if (object_) {
    space_ = object_->metadata.space;
    name_ = object_->metadata.name;
    uid_ = object_->metadata.uid;
    volume_ = object_->spec.volume_name;
  }
  bell_.ring();
}

void EngineKeeper::set_grant(std::shared_ptr<const Json> grant) {
  grant_.reset();
  grant_json_ = std::move(grant);
  if (grant_json_ != nullptr) {
    auto decoded = model::decode<Grant>(*grant_json_);
    if (decoded) grant_ = *std::move(decoded);
  }
  bell_.ring();
}

void EngineKeeper::adopt(FoundProcess found) {
  const auto text = [&](const char* key) { return std::string(found.record.get_string(key).value_or("")); };
  if (name_.empty()) {
    space_ = text("namespace");
    name_ = text("name");
    uid_ = text("uid");
    volume_ = text("volume");
  }
  if (found.key == key_) {
    facts_.epoch = found.record.get_int64("epoch").value_or(0);
    facts_.standby = found.record.get_bool("standby").value_or(false);
    if (found.process != nullptr && !MOOR_PLANT("agent-adopt-forgets")) {
      log_info("adopts an engine",
               {{"engine", name_}, {"epoch", facts_.epoch}, {"pid", found.process->pid()}});
      child_.adopt(std::move(found.process));
    } else {
      facts_.process.state = ProcessFacts::State::ended;
      facts_.process.cause = "it ended while no agent ran, or was never executed";
    }
    bell_.ring();
    return;
  }
  next_device_ = std::max(next_device_, number_of(found.key) + 1);
  auto device = std::make_unique<Device>();
  device->child = make_device_child(found.key);
  device->facts.key = found.key;
  device->facts.link = text("link");
  device->facts.export_id = text("exportID");
  if (found.process != nullptr) device->child->adopt(std::move(found.process));
  devices_.push_back(std::move(device));
  bell_.ring();
}

std::unique_ptr<Child> EngineKeeper::make_device_child(const std::string& key) {
  return std::make_unique<Child>(env_.executor, env_.host, group_, key,
                                 Child::Listener{[this] { bell_.ring(); }});
}

EngineKeeper::Device* EngineKeeper::find_device(const std::string& key) {
  for (const auto& device : devices_)
    if (device->facts.key == key) return device.get();
  return nullptr;
}

Moment EngineKeeper::moment() const {
  return {env_.executor.clock().now(), wall_of(env_.executor.clock())};
}

EnginePlan EngineKeeper::plan() const {
  return plan_engine(object_ ? &*object_ : nullptr, grant_ ? &*grant_ : nullptr, env_.self, facts_, moment());
}

void EngineKeeper::heard(const Control::Event& event) {
  if (event.name == "activation") facts_.activation_wanted = event.data.get_bool("wanted").value_or(false);
  if (event.name != "members") return;
  auto proposal = read_proposal(event.data);
  if (!proposal)
    return log_error("a proposal is not understood", {{"engine", name_}, {"error", proposal.error()}});
  proposal_ = *std::move(proposal);
  proposal_bell_.ring();
}

// Takes over what the children have to say.
void EngineKeeper::notice() {
  if (child_.facts().state != ProcessFacts::State::none) {
    if (facts_.process.is_running() && !child_.facts().is_running()) {
      log_info("an engine's process has ended",
               {{"engine", name_}, {"epoch", facts_.epoch}, {"cause", child_.facts().cause}});
      facts_.report.reset();
      proposal_.reset();
      facts_.drain_asked = facts_.activation_wanted = false;
      facts_.holding = 0;
    }
    facts_.process = child_.facts();
  }
  if (facts_.process.is_running() && child_.status().is_object()) {
    auto report = read_engine_report(child_.status());
    if (report) {
      if (report->proposal && proposal_ != report->proposal) {
        proposal_ = report->proposal;
        proposal_bell_.ring();
      }
      facts_.standby = report->is_standby();
      facts_.activation_wanted =
          report->is_standby() && (facts_.activation_wanted || report->activation_wanted);
      facts_.report = *std::move(report);
    } else {
      facts_.problem = report.error().message;
    }
  }
  facts_.devices.clear();
  facts_.unheard = child_.is_unheard();
  for (const auto& device : devices_) {
    facts_.unheard = facts_.unheard || device->child->is_unheard();
    device->facts.process = device->child->facts();
    if (device->child->status().is_object())
      device->facts.report = read_device_report(device->child->status());
    if (device->facts.is_up()) {
      failures_ = 0;
      facts_.device_problem.clear();
      facts_.device_retry_at = {};  // the pause is for one that does not come up
    }
    facts_.devices.push_back(device->facts);
  }
  facts_.other_lives = callbacks_.other_lives(*this);
  if (std::exchange(had_something_, has_something()) && !had_something_) callbacks_.is_gone(*this);
}

bool EngineKeeper::has_something() const {
  return facts_.process.is_running() || facts_.process.state == ProcessFacts::State::starting ||
         !devices_.empty();
}

Task<Result<void>> EngineKeeper::run(CancelToken token) {
  while (true) {
    notice();
    EnginePlan next = plan();
    status_bell_.ring();
    if (next.step == EngineStep::forget) co_return co_await finish();
    if (next.step == EngineStep::nothing) {
      if (!co_await bell_.wait(token, next.again)) co_return Result<void>();
      continue;
    }
    const EngineStep step = next.step;
    log_debug("engine step", {{"engine", name_}, {"step", static_cast<int>(step)}, {"device", next.device}});
    const auto performed = co_await perform(std::move(next));
    if (token.is_cancelled()) co_return Result<void>();
    if (!performed) failed(step, performed.error());
  }
}

Task<Result<void>> EngineKeeper::finish() {
  const auto forgotten = co_await env_.host.forget(key_);
  if (!forgotten) log_warn("cannot clean up", {{"process", key_}, {"error", forgotten.error()}});
  co_return Result<void>();
}

void EngineKeeper::failed(EngineStep step, const Error& error) {
  ++failures_;
  const TimePoint again = env_.executor.clock().now() + replica_pause(std::min(failures_, kLongestBackOff));
  const bool about_device = step == EngineStep::start_device;
  std::string& problem = about_device ? facts_.device_problem : facts_.problem;
  if (problem != error.message) log_warn("engine", {{"engine", name_}, {"error", error}});
  if (step == EngineStep::start || about_device) problem = error.message;
  (about_device ? facts_.device_retry_at : facts_.retry_at) = again;
  for (const auto& device : devices_) device->facts.retry_at = std::max(device->facts.retry_at, again);
}

Task<Result<void>> EngineKeeper::perform(EnginePlan plan) {
  switch (plan.step) {
    case EngineStep::start: co_return co_await start(*object_, plan.epoch, plan.standby);
    case EngineStep::use_up: co_return co_await use_up();
    case EngineStep::set_hold: co_return co_await set_hold();
    case EngineStep::update_standby: co_return co_await update_standby();
    case EngineStep::activate: co_return co_await activate();
    case EngineStep::confirm_activation: co_return co_await confirm_activation();
    case EngineStep::take_epoch: co_return co_await take_epoch();
    case EngineStep::ask:
      facts_.ask_at = env_.executor.clock().now() + kAskPause;
      co_return co_await child_.refresh();
    case EngineStep::check_grant: co_return co_await check_grant();
    case EngineStep::tell_addresses: co_return co_await tell_addresses();
    case EngineStep::drain: co_return co_await drain();
    case EngineStep::start_device: co_return co_await start_device();
    case EngineStep::remove_device: co_return co_await remove_device(plan.device);
    case EngineStep::look_at_device: co_return co_await look_at_device(plan.device);
    case EngineStep::force_remove_device: co_return co_await force_remove_device(plan.device);
    case EngineStep::forget_device: co_return co_await forget_device(plan.device);
    case EngineStep::let_go: co_return co_await let_go();
    case EngineStep::nothing:
    case EngineStep::forget: break;
  }
  co_return Result<void>();
}

Task<Result<Grant>> EngineKeeper::read_grant() {
  registry::ResourceName what{&kind_of<Grant>(), space_, volume_, ""};
  auto json = co_await env_.registry.get(std::move(what), "");
  if (!json) co_return Error(json.error().error).with_context("Grant of volume " + volume_);
  co_return model::decode<Grant>(*json);
}

// The Grant is read again, because what we watched may be old, and an engine that starts in an epoch that was
// already taken back would hold up the one that has it now.
Task<Result<void>> EngineKeeper::start(Engine engine, std::int64_t epoch, bool standby) {
  // It becomes part of paths.
  if (!model::is_dns1123_subdomain(volume_))
    co_return make_error(Errc::invalid, fmt::format("\"{}\" is no name of a volume", volume_));
  CO_TRY(const Grant grant, co_await read_grant());
  const auto& seat = standby ? grant.spec.standby : grant.spec.active;
  if (!is_holder(seat, env_.self, engine.metadata.name, epoch) && !(MOOR_PLANT("agent-start-unread") && seat))
    co_return make_error(Errc::conflict, "the Grant names another by now");
  Result<std::string> token = token_;
  if (token_.empty()) token = co_await read_volume_token(env_.registry, space_, volume_);
  if (!token) {
    const bool passes = token.is(Errc::unavailable) || token.is(Errc::timed_out);
    // Else nothing will come of this epoch, and who granted it waits for our word before it takes it back.
    if (!passes) {
      facts_.epoch = epoch;
      child_.never_started(token.error().message);
    }
    co_return token.error();
  }
  token_ = *token;
  const std::string token_path = env_.host.token_path(key_);
  CO_TRY_VOID(co_await env_.host.write_file(token_path, token_ + "\n"));
  const std::vector<std::string> local = callbacks_.local_replicas(space_, volume_);
  std::vector<std::string> words = engine_arguments(start_words(engine, grant, local, standby));
  Json record = record_for(epoch, standby);
  // From here on this epoch counts as used, whatever comes of it (S3).
  facts_.epoch = epoch;
  facts_.process = {ProcessFacts::State::starting, false, ""};
  facts_.report.reset();
  facts_.drain_asked = facts_.told_superseded = facts_.activation_wanted = false;
  facts_.standby = standby;
  facts_.holding = standby ? 0 : engine.spec.hold_epoch;
  auto started = co_await child_.start(std::move(words), std::move(record));
  if (!started) {
    child_.never_started(started.error().message);
    co_return started.error();
  }
  facts_.problem.clear();
  failures_ = 0;
  log_info("engine started", {{"engine", name_}, {"epoch", epoch}});
  co_return Result<void>();
}

Task<Result<void>> EngineKeeper::tell_addresses() {
  const auto moved = moved_members(*object_, *facts_.report);
  for (const auto& [name, address] : moved) {
    Json arguments = Json::object({{"name", name}, {"address", address}});
    CO_TRY_VOID(co_await child_.call("member.address", std::move(arguments)));
    log_info("a member listens elsewhere", {{"engine", name_}, {"replica", name}, {"address", address}});
  }
  // What it has changed is not told by an event.
  co_return co_await child_.refresh();
}

Task<Result<void>> EngineKeeper::drain() {
  child_.expect_end();
  Json arguments = Json::object();
  CO_TRY_VOID(co_await child_.call("shutdown", std::move(arguments)));
  facts_.drain_asked = true;
  co_return Result<void>();
}

Task<Result<void>> EngineKeeper::start_device() {
  const std::string key = device_key(uid_, next_device_++);
  const std::string link = env_.options.device_directory + "/" + device_name(space_, volume_);
  const std::string export_id = facts_.report ? facts_.report->export_id : "";
  std::vector<std::string> words{"device",
                                 "--connect",
                                 "unix:" + env_.host.socket_path(key_),
                                 "--path",
                                 link,
                                 "--control",
                                 env_.host.control_path(key)};
  Json record = Json::object({{"kind", "device"},
                              {"namespace", space_},
                              {"name", name_},
                              {"uid", uid_},
                              {"volume", volume_},
                              {"link", link},
                              {"exportID", export_id}});
  CO_TRY_VOID(co_await env_.host.make_directory(env_.options.device_directory));
  auto device = std::make_unique<Device>();
  device->child = make_device_child(key);
  device->facts.key = key;
  device->facts.link = link;
  device->facts.export_id = export_id;
  Child& child = *device->child;
  devices_.push_back(std::move(device));
  auto started = co_await child.start(std::move(words), std::move(record));
  if (!started) co_return started.error();
  facts_.device_retry_at = env_.executor.clock().now() + replica_pause(++failures_);
  log_info("device started", {{"volume", volume_}, {"link", link}});
  co_return Result<void>();
}

Task<Result<void>> EngineKeeper::remove_device(std::string key) {
  Device* device = find_device(key);
  Json arguments = Json::object({{"force", false}});
  auto asked = co_await device->child->call("shutdown", std::move(arguments));
  device = find_device(key);
  if (device == nullptr) co_return Result<void>();
  if (asked) {
    device->facts.asked = true;
    device->facts.users.clear();
    device->refusals = 0;
    device->facts.retry_at = env_.executor.clock().now() + look_pause(0);
    device->child->expect_end();
    co_return Result<void>();
  }
  if (asked.is(Errc::unavailable) || asked.is(Errc::timed_out)) {
    device->facts.retry_at = env_.executor.clock().now() + look_pause(device->refusals++);
    co_return Result<void>();
  }
  CO_TRY_VOID(co_await look_at_device(key));
  device = find_device(key);
  if (device != nullptr && device->facts.users.empty()) device->facts.users = asked.error().message;
  co_return Result<void>();
}

Task<Result<void>> EngineKeeper::look_at_device(std::string key) {
  Device* device = find_device(key);
  const std::string path = device->facts.report ? device->facts.report->device : "";
  const std::vector<std::string> users = co_await env_.host.users_of(path);
  device = find_device(key);
  if (device == nullptr) co_return Result<void>();
  device->facts.looked = true;
  device->facts.users.clear();
  for (const std::string& user : users)
    device->facts.users += (device->facts.users.empty() ? "" : ", ") + user;
  const bool over = device->facts.report && device->facts.report->state == "ended";
  device->facts.retry_at = env_.executor.clock().now();
  if (!users.empty() || !over)
    device->facts.retry_at = device->facts.retry_at + look_pause(device->refusals++);
  co_return Result<void>();
}

Command EngineKeeper::removal_of(const Device& device) const {
  Command command;
  command.arguments = {"moorblk",         "device",    "--path",
                       device.facts.link, "--control", env_.host.control_path(device.facts.key),
                       "--force-remove"};
  command.limit = kRemoveLimit;
  return command;
}

Task<Result<void>> EngineKeeper::force_remove_device(std::string key) {
  Device* device = find_device(key);
  device->child->expect_end();
  device->facts.retry_at = env_.executor.clock().now() + look_pause(device->refusals++);
  Command removal = removal_of(*device);
  CO_TRY_VOID(co_await env_.host.run(std::move(removal)));
  co_return Result<void>();
}

Task<Result<void>> EngineKeeper::forget_device(std::string key) {
  Device* device = find_device(key);
  if (!device->child->facts().clean && device->child->facts().state == ProcessFacts::State::ended)
    facts_.device_problem = device->child->facts().cause;
  // A killed process leaves a mount, a loop device and a link. While one of them may be there the device is
  // not forgotten: what an agent has forgotten counts as gone from its node.
  Command removal = removal_of(*device);
  CO_TRY_VOID(co_await env_.host.run(std::move(removal)));
  CO_TRY_VOID(co_await env_.host.forget(key));
  std::erase_if(devices_, [&](const auto& one) { return one->facts.key == key; });
  co_return Result<void>();
}

Task<Result<void>> EngineKeeper::let_go() {
  registry::ResourceName what{&kind_of<Engine>(), space_, name_, ""};
  Json object = *json_;
  co_return co_await drop_finalizer(env_.registry, std::move(what), std::move(object));
}

}  // namespace moor::agent
