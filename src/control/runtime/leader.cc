#include "control/runtime/leader.h"

#include "base/log.h"
#include "base/task_group.h"
#include "model/coordination/lease.h"
#include "registry/prepare.h"

namespace moor::control {
namespace {

using registry::Mutation;

const model::KindInfo& leases() {
  return model::coordination::kind_info(static_cast<const model::coordination::Lease*>(nullptr));
}

std::string holder_of(const Json& lease) {
  const Json* spec = lease.find("spec");
  return spec == nullptr ? "" : std::string(spec->get_string("holderIdentity").value_or(""));
}

std::int64_t transitions_of(const Json* lease) {
  const Json* spec = lease == nullptr ? nullptr : lease->find("spec");
  return spec == nullptr ? 0 : spec->get_int64("leaseTransitions").value_or(0);
}

registry::WriteOptions as_leader() {
  registry::WriteOptions options;
  options.field_manager = "moord-leader";
  return options;
}

}  // namespace

LeaderElection::LeaderElection(registry::LocalRegistry& registry, Duty& duty, LeaderOptions options)
    : registry_(registry), duty_(duty), options_(std::move(options)) {}

registry::ResourceName LeaderElection::lease_name(bool term) const {
  return {&leases(), options_.space, options_.name + (term ? "-term" : ""), ""};
}

bool LeaderElection::may_take(const Json* lease) {
  if (lease == nullptr || options_.alone) return true;
  const std::string holder = holder_of(*lease);
  if (holder.empty() || holder == options_.identity) return true;
  const std::string version = registry::metadata_text(*lease, "resourceVersion");
  const TimePoint now = registry_.executor().clock().now();
  if (version != seen_version_) {
    seen_version_ = version;
    seen_at_ = now;
  }
  return now - seen_at_ >= options_.lease;
}

Json LeaderElection::lease_object(const Json* before, std::int64_t transitions) const {
  const model::Time now(registry_.executor().clock().wall().since_epoch);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.lease).count();
  Json object = before == nullptr ? Json::object({{"metadata", Json::object()}}) : *before;
  object["spec"] = Json::object({{"holderIdentity", options_.identity},
                                 {"leaseDurationSeconds", static_cast<std::int64_t>(seconds)},
                                 {"acquireTime", model::format_rfc3339_micro(now)},
                                 {"renewTime", model::format_rfc3339_micro(now)},
                                 {"leaseTransitions", transitions}});
  return object;
}

Task<registry::Answer<std::optional<registry::Guard>>> LeaderElection::acquire() {
  CO_TRY_VOID(co_await registry_.catch_up());
  const registry::JsonPtr lease = registry_.find(leases(), options_.space, options_.name);
  if (!may_take(lease.get())) co_return std::optional<registry::Guard>();
  const registry::JsonPtr term = registry_.find(leases(), options_.space, options_.name + "-term");
  const std::int64_t transitions = transitions_of(term.get()) + 1;
  std::vector<Mutation> mutations;
  for (const bool is_term : {false, true}) {
    const Json* before = is_term ? term.get() : lease.get();
    Mutation mutation{before == nullptr ? Mutation::Type::create : Mutation::Type::update,
                      lease_name(is_term), lease_object(before, transitions), ""};
    mutation.object["metadata"].set("name", mutation.what.name);
    if (before == nullptr) mutation.what.name.clear();
    mutations.push_back(std::move(mutation));
  }
  CO_TRY(const std::vector<Json> written, co_await registry_.transact(std::move(mutations), {}, as_leader()));
  co_return registry::Guard{lease_name(true), registry::metadata_text(written[1], "resourceVersion")};
}

Task<Result<void>> LeaderElection::renew(CancelToken token) {
  TimePoint renewed = registry_.executor().clock().now();
  while (true) {
    CO_TRY_VOID(co_await sleep_for(registry_.executor(), options_.renew, token));
    const registry::JsonPtr lease = registry_.find(leases(), options_.space, options_.name);
    if (lease == nullptr || holder_of(*lease) != options_.identity)
      co_return make_error(Errc::conflict, "another server leads now");
    Json next = *lease;
    const model::Time now(registry_.executor().clock().wall().since_epoch);
    next["spec"].set("renewTime", model::format_rfc3339_micro(now));
    const auto written = co_await registry_.update(lease_name(false), std::move(next), as_leader());
    if (written) {
      renewed = registry_.executor().clock().now();
      continue;
    }
    // Others may take over once they have seen nothing new for the whole time; we stop before that.
    if (registry_.executor().clock().now() - renewed >= options_.lease - options_.renew)
      co_return Error(written.error().error).with_context("the lease could not be renewed");
  }
}

Task<Result<void>> LeaderElection::release() {
  const registry::JsonPtr lease = registry_.find(leases(), options_.space, options_.name);
  if (lease == nullptr || holder_of(*lease) != options_.identity) co_return Result<void>();
  Json next = *lease;
  next["spec"].set("holderIdentity", "");
  const auto written = co_await registry_.update(lease_name(false), std::move(next), as_leader());
  if (!written) co_return written.error().error;
  co_return Result<void>();
}

Task<Result<void>> LeaderElection::run(CancelToken token) {
  CO_TRY_VOID(co_await registry_.cache().wait_for(0, token));
  while (true) {
    CO_TRY_VOID(token.check());
    auto term = co_await acquire();
    if (!term && !term.is(Errc::conflict))
      log_warn("no leader could be chosen", {{"reason", term.error().error}});
    if (!term || !*term) {
      CO_TRY_VOID(co_await sleep_for(registry_.executor(), options_.retry, token));
      continue;
    }
    log_info("leading", {{"identity", options_.identity}});
    leading_ = true;
    TaskGroup group(registry_.executor(), token);
    group.spawn(duty_.lead(**term, group.token()));
    group.spawn(renew(group.token()));
    const auto ended = co_await group.join();
    leading_ = false;
    if (token.is_cancelled()) {
      // The next leader need not wait for the lease to run out.
      if (const auto released = co_await release(); !released)
        log_warn("the lease was not given back", {{"reason", released.error()}});
      co_return token.check();
    }
    if (!ended) log_warn("no longer leading", {{"reason", ended.error()}});
    CO_TRY_VOID(co_await sleep_for(registry_.executor(), options_.retry, token));
  }
}

}  // namespace moor::control
