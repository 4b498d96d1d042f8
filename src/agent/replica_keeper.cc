#include "agent/replica_keeper.h"

#include <fmt/format.h>

#include <charconv>
#include <csignal>

#include "agent/core/names.h"
#include "base/log.h"
#include "base/plant.h"
#include "model/mooring/grant.h"
#include "registry/prepare.h"

namespace moor::agent {
namespace {

using model::longhorn::Replica;
using namespace std::chrono_literals;

constexpr Duration kCalm = 60s;  // after so long a process counts as healthy again

std::string unfinished(const std::string& directory) {
  return directory + ".new";
}

// "ready tcp:127.0.0.1:4711" → 4711
std::int32_t port_in(std::string_view output) {
  const std::size_t at = output.find("ready ");
  if (at == std::string_view::npos) return 0;
  std::string_view line = output.substr(at, output.find('\n', at) - at);
  line.remove_prefix(line.rfind(':') + 1);
  std::int32_t port = 0;
  std::from_chars(line.data(), line.data() + line.size(), port);
  return port;
}

}  // namespace

ReplicaKeeper::ReplicaKeeper(Env& env, TaskGroup& group, std::string key)
    : env_(env),
      key_(std::move(key)),
      bell_(env.executor),
      status_bell_(env.executor),
      child_(env.executor, env.host, group, key_, {[this] { bell_.ring(); }}) {}

void ReplicaKeeper::set_object(std::shared_ptr<const Json> object) {
  if (object != nullptr && json_ != nullptr && !is_newer(*object, *json_)) return;
  json_ = std::move(object);
  object_.reset();
  if (json_ != nullptr) {
    auto decoded = model::decode<Replica>(*json_);
    if (decoded) object_ = *std::move(decoded);
    if (object_) name_ = object_->metadata.name;
  }
  bell_.ring();
}

void ReplicaKeeper::adopt(FoundProcess found) {
  if (name_.empty()) name_ = found.record.get_string("name").value_or("");
  if (found.process == nullptr) return;
  log_info("adopts a replica", {{"replica", name_}, {"pid", found.process->pid()}});
  child_.adopt(std::move(found.process));
  bell_.ring();
}

Moment ReplicaKeeper::moment() const {
  return {env_.executor.clock().now(), wall_of(env_.executor.clock())};
}

registry::ResourceName ReplicaKeeper::resource() const {
  return {&kind_of<Replica>(), object_->metadata.space, object_->metadata.name, ""};
}

ReplicaPlan ReplicaKeeper::plan() const {
  return plan_replica(object_ ? &*object_ : nullptr, env_.self, facts_, moment());
}

// Takes over what the child has to say.
void ReplicaKeeper::notice() {
  const bool was_running = facts_.process.is_running();
  facts_.process = child_.facts();
  facts_.unheard = child_.is_unheard();
  const TimePoint now = env_.executor.clock().now();
  const Json& status = child_.status();
  if (facts_.process.is_running() && status.is_object()) {
    if (const Json* floor = status.find("floor"); floor != nullptr)
      facts_.epoch = floor->get_int64("epoch").value_or(facts_.epoch);
    facts_.generation = status.get_int64("generation").value_or(facts_.generation);
    if (running_since_ && now - *running_since_ >= kCalm) facts_.failures = 0;
  }
  if (!was_running || facts_.process.is_running()) return;
  const bool calm = running_since_ && now - *running_since_ >= kCalm;
  running_since_.reset();
  facts_.port = 0;
  if (facts_.stop_asked && facts_.process.clean) {
    facts_.failures = 0;
    facts_.retry_at = {};
  } else {
    facts_.failures = calm ? 1 : facts_.failures + 1;
    facts_.retry_at = now + replica_pause(facts_.failures);
    log_warn("a replica's process has ended", {{"replica", name_}, {"cause", facts_.process.cause}});
  }
  facts_.stop_asked = false;
}

Task<Result<void>> ReplicaKeeper::run(CancelToken token) {
  while (true) {
    notice();
    if (facts_.process.is_running() && facts_.port == 0 && child_.status().is_object()) {
      // The process answers only after it listens, and it printed where before that.
      const auto output = co_await env_.host.output(key_);
      if (output) facts_.port = port_in(*output);
      port_wanted_ = facts_.port;
      running_since_ = env_.executor.clock().now();
      facts_.problem.clear();
    }
    ReplicaPlan next = plan();
    status_bell_.ring();
    if (next.step == ReplicaStep::forget) {
      const auto forgotten = co_await env_.host.forget(key_);
      if (!forgotten) log_warn("cannot clean up", {{"process", key_}, {"error", forgotten.error()}});
      co_return Result<void>();
    }
    if (next.step == ReplicaStep::nothing) {
      if (!co_await bell_.wait(token, next.again)) co_return Result<void>();
      continue;
    }
    const auto performed = co_await perform(next.step);
    if (token.is_cancelled()) co_return Result<void>();
    if (!performed) failed(performed.error());
  }
}

void ReplicaKeeper::failed(const Error& error) {
  ++facts_.failures;
  facts_.retry_at = env_.executor.clock().now() + replica_pause(facts_.failures);
  if (facts_.problem != error.message) log_warn("replica", {{"replica", name_}, {"error", error}});
  facts_.problem = error.message;
}

Task<Result<void>> ReplicaKeeper::perform(ReplicaStep step) {
  switch (step) {
    case ReplicaStep::start: co_return co_await start(*object_);
    case ReplicaStep::stop: {
      facts_.stop_asked = true;
      child_.expect_end();
      child_.signal(SIGTERM);
      co_return Result<void>();
    }
    case ReplicaStep::clear: co_return co_await clear(*object_);
    case ReplicaStep::let_go: {
      registry::ResourceName what = resource();
      Json object = *json_;
      co_return co_await drop_finalizer(env_.registry, std::move(what), std::move(object));
    }
    case ReplicaStep::nothing:
    case ReplicaStep::forget: break;
  }
  co_return Result<void>();
}

Result<std::string> ReplicaKeeper::directory(const Replica& object) const {
  TRY(const std::string name, replica_directory(object));
  const std::string& disk = object.spec.disk_id;
  for (const auto& [uuid, usable] : env_.disks) {
    const bool named = disk.empty() ? usable.path == object.spec.disk_path
                                    : uuid == disk || (usable.name == disk && !env_.disks.contains(disk));
    if (named) return fmt::format("{}/replicas/{}", usable.path, name);
  }
  const auto problem = env_.disk_problems.find(disk);
  const std::string why = problem == env_.disk_problems.end() ? "is not on this node" : problem->second;
  return make_error(Errc::unavailable,
                    fmt::format("disk {}: {}", disk.empty() ? object.spec.disk_path : disk, why));
}

// A directory is made only while nothing was ever written to the volume: later a missing one is a loss that
// must be seen, and an empty replica in its place would be taken for data.
Task<Result<std::string>> ReplicaKeeper::prepare_directory(Replica object) {
  CO_TRY(std::string path, directory(object));
  CO_TRY(const bool there, co_await env_.host.exists(path + "/volume.meta"));
  if (there) co_return path;
  // Half made by an earlier try, or whole and too late: it holds nothing, and may never be needed.
  CO_TRY_VOID(co_await env_.host.remove_tree(unfinished(path)));
  registry::ResourceName what{&kind_of<model::mooring::Grant>(), object.metadata.space,
                              object.spec.volume_name, ""};
  auto json = co_await env_.registry.get(std::move(what), "");
  if (!json) co_return Error(json.error().error).with_context("Grant of the volume");
  CO_TRY(const auto grant, model::decode<model::mooring::Grant>(*json));
  if (grant.spec.epoch != 0 && !MOOR_PLANT("agent-directory-though-written"))
    co_return make_error(Errc::not_found,
                         fmt::format("{} is missing, and the volume has been written to (epoch {}): this "
                                     "replica has lost its data",
                                     path, grant.spec.epoch));
  CO_TRY_VOID(co_await create_directory(object, path));
  co_return path;
}

Task<Result<void>> ReplicaKeeper::create_directory(Replica object, std::string path) {
  CO_TRY(std::string token,
         co_await read_volume_token(env_.registry, object.metadata.space, object.spec.volume_name));
  const std::string token_path = env_.host.token_path(key_);
  CO_TRY_VOID(co_await env_.host.write_file(token_path, token + "\n"));
  // Made beside its place and moved there whole: a crash in between leaves nothing that looks like a replica.
  const std::string fresh = unfinished(path);
  CO_TRY_VOID(co_await env_.host.make_directory(path.substr(0, path.rfind('/'))));
  Command create;
  create.arguments = {"moorblk",      "replica",
                      "create",       fresh,
                      "--size",       std::to_string(object.spec.volume_size),
                      "--volume",     object.spec.volume_name,
                      "--token-file", token_path};
  auto made = co_await env_.host.run(std::move(create));
  if (made) co_return co_await env_.host.rename(fresh, path);
  (void)co_await env_.host.remove_tree(fresh);
  co_return made.error();
}

Task<Result<void>> ReplicaKeeper::start(Replica object) {
  CO_TRY(const std::string path, co_await prepare_directory(object));
  if (port_wanted_ == 0) {
    const auto output = co_await env_.host.output(key_);
    if (output) port_wanted_ = port_in(*output);
  }
  // After a failure another port: somebody may have taken this one.
  if (facts_.failures > 1) port_wanted_ = 0;
  std::vector<std::string> words{"replica",
                                 "serve",
                                 path,
                                 "--listen",
                                 fmt::format("tcp:{}:{}", env_.self.address, port_wanted_),
                                 "--control",
                                 env_.host.control_path(key_)};
  Json record = Json::object({{"kind", "replica"},
                              {"namespace", object.metadata.space},
                              {"name", object.metadata.name},
                              {"uid", object.metadata.uid},
                              {"directory", path}});
  CO_TRY_VOID(co_await child_.start(std::move(words), std::move(record)));
  facts_.problem.clear();
  log_info("replica started", {{"replica", name_}, {"directory", path}});
  co_return Result<void>();
}

Task<Result<void>> ReplicaKeeper::clear(Replica object) {
  CO_TRY(const std::string path, directory(object));
  CO_TRY(const bool there, co_await env_.host.exists(path));
  const std::string going = path + ".deleted";
  if (there) CO_TRY_VOID(co_await env_.host.rename(path, going));
  CO_TRY_VOID(co_await env_.host.remove_tree(going));
  CO_TRY_VOID(co_await env_.host.remove_tree(unfinished(path)));
  log_info("replica deleted", {{"replica", name_}, {"directory", path}});
  facts_.directory_gone = true;
  facts_.failures = 0;
  co_return Result<void>();
}

Task<Result<void>> ReplicaKeeper::write_statuses(CancelToken token) {
  Duration pause = 100ms;
  while (co_await status_bell_.wait(token)) {
    const TimePoint until = env_.executor.clock().now() + kPassing;
    while (object_ && is_passing(plan().status.current_state) && env_.executor.clock().now() < until)
      if (!co_await status_bell_.wait(token, until)) co_return Result<void>();
    if (!object_) continue;
    const std::shared_ptr<const Json> seen = json_;
    Replica wanted = *object_;
    wanted.status = plan().status;
    Json after = *seen;
    model::encode_onto(after, wanted);
    registry::ResourceName what = resource();
    const Json* status = after.find("status");
    if (status == nullptr) continue;
    auto written = co_await write_status(env_.registry, std::move(what), *seen, *status);
    if (written) {
      pause = 100ms;
      if (*written && json_ != nullptr) set_object(std::make_shared<const Json>(std::move(**written)));
      continue;
    }
    // A conflict or a deletion comes with the next event; the rest is tried again.
    log_debug("status not written", {{"replica", name_}, {"error", written.error()}});
    if (!co_await sleep_for(env_.executor, pause, token)) break;
    pause = std::min<Duration>(pause * 2, 5s);
    status_bell_.ring();
  }
  co_return Result<void>();
}

}  // namespace moor::agent
