// The steps of an EngineKeeper that belong to moves: holds, standbys, activation, taking a volume back. An
// epoch that a living process takes over is used up as a start's is: recorded before the process hears of it
// (S3).
#include "agent/core/names.h"
#include "agent/engine_keeper.h"
#include "base/log.h"
#include "base/plant.h"

namespace moor::agent {

using model::longhorn::Engine;
using model::mooring::Grant;

EngineStart EngineKeeper::start_words(const Engine& engine, const Grant& grant,
                                      const std::vector<std::string>& local, bool standby) const {
  return {engine,
          grant,
          local,
          env_.host.socket_path(key_),
          env_.host.control_path(key_),
          env_.host.token_path(key_),
          standby,
          env_.self.address};
}

Json EngineKeeper::record_for(std::int64_t epoch, bool standby) const {
  return Json::object({{"kind", "engine"},
                       {"namespace", space_},
                       {"name", name_},
                       {"uid", uid_},
                       {"volume", volume_},
                       {"epoch", MOOR_PLANT("agent-epoch-not-recorded") ? 0 : epoch},
                       {"standby", standby},
                       {"incarnation", env_.self.incarnation}});
}

Task<Result<void>> EngineKeeper::record_epoch(std::int64_t epoch) {
  if (epoch == facts_.epoch) co_return Result<void>();
  CO_TRY_VOID(co_await env_.host.write_record(key_, record_for(epoch, facts_.standby)));
  facts_.epoch = epoch;
  co_return Result<void>();
}

Task<Result<void>> EngineKeeper::use_up() {
  const std::int64_t epoch = object_->spec.epoch;
  facts_.standby = false;
  CO_TRY_VOID(co_await record_epoch(epoch));
  child_.never_started("it was called back before it was started");
  co_return Result<void>();
}

Task<Result<void>> EngineKeeper::set_hold() {
  const bool wanted = object_ && object_->spec.desire_state == model::longhorn::InstanceState::running &&
                      !object_->metadata.is_being_deleted();
  const std::int64_t epoch = wanted ? object_->spec.hold_epoch : 0;
  Json arguments = Json::object({{"on", epoch > 0}});
  CO_TRY_VOID(co_await child_.call("hold", std::move(arguments)));
  facts_.holding = epoch;
  co_return co_await child_.refresh();
}

Task<Result<void>> EngineKeeper::update_standby() {
  CO_TRY(const Grant grant, co_await read_grant());
  grant_ = grant;
  const Granted granted = granted_to(object_ ? &*object_ : nullptr, &grant, env_.self);
  if (!granted.standby || granted.epoch == 0) co_return Result<void>();  // decided otherwise by now
  CO_TRY_VOID(co_await record_epoch(granted.epoch));
  Json arguments = Json::object({{"epoch", granted.epoch}});
  if (object_ && !object_->spec.standby_source.empty())
    arguments.set("source", member_address(object_->spec.standby_source));
  CO_TRY_VOID(co_await child_.call("standby.update", std::move(arguments)));
  co_return co_await child_.refresh();
}

// A client waits for this: one compare-and-swap on the Grant as it was watched, and the engine hears of it.
// Only where the watch was behind is the Grant read first.
Task<Result<void>> EngineKeeper::activate() {
  const registry::ResourceName what{&kind_of<Grant>(), space_, volume_, ""};
  std::shared_ptr<const Json> seen = grant_json_;
  for (bool fresh = false;; fresh = true) {
    if (fresh || seen == nullptr) {
      registry::ResourceName again = what;
      auto json = co_await env_.registry.get(std::move(again), "");
      if (!json) co_return json.error().error;
      seen = std::make_shared<const Json>(*std::move(json));
    }
    CO_TRY(Grant grant, model::decode<Grant>(*seen));
    if (!is_holder(grant.spec.standby, env_.self, name_, facts_.epoch)) {
      if (!fresh) continue;
      grant_ = grant;  // decided otherwise by now
      co_return Result<void>();
    }
    grant.spec.active = grant.spec.standby;
    grant.spec.standby.reset();
    Json after = *seen;
    model::encode_onto(after, grant);
    registry::WriteOptions options;
    options.field_manager = "mooring-agent";
    registry::ResourceName target = what;
    auto written = co_await env_.registry.update(std::move(target), std::move(after), std::move(options));
    if (!written && written.error().error.code == Errc::conflict && !fresh) continue;
    if (!written) co_return written.error().error;
    log_info("a standby becomes active", {{"engine", name_}, {"epoch", facts_.epoch}});
    co_return co_await tell_activation(std::move(grant));
  }
}

Task<Result<void>> EngineKeeper::confirm_activation() {
  CO_TRY(Grant grant, co_await read_grant());
  co_return co_await tell_activation(std::move(grant));
}

Task<Result<void>> EngineKeeper::tell_activation(Grant grant) {
  grant_ = grant;
  const Granted granted = granted_to(object_ ? &*object_ : nullptr, &grant, env_.self);
  if (granted.standby || granted.epoch == 0) co_return Result<void>();
  CO_TRY_VOID(co_await record_epoch(granted.epoch));
  const std::vector<std::string> local = callbacks_.local_replicas(space_, volume_);
  Json words = grant_words(start_words(*object_, grant, local, false), granted.epoch);
  CO_TRY_VOID(co_await child_.call("activate.confirm", std::move(words)));
  facts_.standby = facts_.activation_wanted = false;
  co_return co_await child_.refresh();
}

Task<Result<void>> EngineKeeper::take_epoch() {
  CO_TRY(const Grant grant, co_await read_grant());
  grant_ = grant;
  const Granted granted = granted_to(object_ ? &*object_ : nullptr, &grant, env_.self);
  if (granted.standby || granted.epoch < facts_.epoch) co_return Result<void>();
  CO_TRY_VOID(co_await record_epoch(granted.epoch));
  const std::vector<std::string> local = callbacks_.local_replicas(space_, volume_);
  Json words = grant_words(start_words(*object_, grant, local, false), granted.epoch);
  words.set("last_served", object_->spec.last_served);
  log_info("a source takes its volume back", {{"engine", name_}, {"epoch", granted.epoch}});
  CO_TRY_VOID(co_await child_.call("epoch.take", std::move(words)));
  co_return co_await child_.refresh();
}

Task<Result<void>> EngineKeeper::check_grant() {
  CO_TRY(const Grant grant, co_await read_grant());
  const Granted granted = granted_to(object_ ? &*object_ : nullptr, &grant, env_.self);
  const std::int64_t epoch = granted.epoch;
  if (granted.ahead || epoch == facts_.epoch ||
      (epoch > facts_.epoch && (facts_.standby || facts_.holding > 0))) {
    // Our view was old; the watch will bring this one.
    grant_ = grant;
    co_return Result<void>();
  }
  log_warn("an engine is superseded", {{"engine", name_}, {"epoch", facts_.epoch}});
  Json arguments = Json::object({{"message", "the Grant names another"}});
  // Epochs only grow: one that the Grant no longer names as standby never becomes active.
  std::string op = facts_.standby ? "activate.refuse" : "supersede";
  CO_TRY_VOID(co_await child_.call(std::move(op), std::move(arguments)));
  facts_.told_superseded = true;
  co_return Result<void>();
}

}  // namespace moor::agent
