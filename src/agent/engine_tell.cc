// The two tasks of an EngineKeeper that speak to the server: committing changes of members, telling the
// status.
#include "agent/engine_keeper.h"
#include "base/log.h"
#include "base/plant.h"

namespace moor::agent {

using model::longhorn::Engine;
using model::mooring::Grant;
using Verdict = MembershipDecision::Verdict;
using namespace std::chrono_literals;

Task<Result<void>> EngineKeeper::commit_members(CancelToken token) {
  Duration pause = 20ms;
  while (co_await proposal_bell_.wait(token)) {
    pause = 20ms;
    while (proposal_) {
      const Proposal proposal = *proposal_;
      const auto answered = co_await answer(proposal);
      if (token.is_cancelled()) co_return Result<void>();
      if (answered && *answered) {
        if (proposal_ == proposal) proposal_.reset();
        // What it has changed is not told by an event.
        (void)co_await child_.refresh();
        continue;
      }
      if (!answered)
        log_warn("a change of members waits",
                 {{"engine", name_}, {"generation", proposal.generation}, {"error", answered.error()}});
      if (!co_await sleep_for(env_.executor, pause, token)) co_return Result<void>();
      pause = std::min<Duration>(pause * 2, 2s);
    }
  }
  co_return Result<void>();
}

// One try. An error, or false: try again; nothing is known to be decided.
Task<Result<bool>> EngineKeeper::answer(Proposal proposal) {
  registry::ResourceName what{&kind_of<Grant>(), space_, volume_, ""};
  auto json = co_await env_.registry.get(what, "");
  if (!json) co_return json.error().error;
  CO_TRY(const Grant grant, model::decode<Grant>(*json));
  MembershipDecision decision = decide_membership(grant, env_.self, name_, proposal);
  Json words = Json::object({{"generation", proposal.generation}});
  std::string op = "member.confirm";
  if (decision.verdict == Verdict::commit && !MOOR_PLANT("agent-confirms-before-commit")) {
    Json after = *json;
    model::encode_onto(after, decision.grant);
    registry::WriteOptions options;
    options.field_manager = "mooring-agent";
    auto written = co_await env_.registry.update(std::move(what), std::move(after), std::move(options));
    if (!written) {
      // Refused for what it says, and so will it be every time. Anything else (no answer, a conflict, no
      // rights just now) may have another end: read again.
      if (written.error().error.code != Errc::invalid) co_return written.error().error;
      words.set("refused", written.error().error.message);
    } else {
      log_info("members changed",
               {{"volume", volume_}, {"generation", proposal.generation}, {"reason", proposal.reason}});
    }
  } else if (decision.verdict == Verdict::superseded) {
    log_warn("an engine is superseded", {{"engine", name_}, {"epoch", facts_.epoch}});
    op = "supersede";
    // Of the epoch in which it proposed: it may have taken its volume back since, in a higher one.
    words = Json::object({{"message", decision.message}, {"epoch", proposal.epoch}});
  } else if (decision.verdict == Verdict::refuse) {
    words.set("refused", decision.message);
  }
  auto told = co_await child_.call(std::move(op), std::move(words));
  // conflict: it waits for another change by now.
  if (!told && told.code() != Errc::conflict) co_return told.error();
  if (!told) (void)co_await child_.refresh();
  co_return true;
}

Task<Result<void>> EngineKeeper::write_statuses(CancelToken token) {
  Duration pause = 100ms;
  while (co_await status_bell_.wait(token)) {
    const TimePoint until = env_.executor.clock().now() + kPassing;
    while (object_ && is_passing(plan().status.current_state) && env_.executor.clock().now() < until)
      if (!co_await status_bell_.wait(token, until)) co_return Result<void>();
    if (!object_) continue;
    const std::shared_ptr<const Json> seen = json_;
    Engine wanted = *object_;
    wanted.status = plan().status;
    Json after = *seen;
    model::encode_onto(after, wanted);
    const Json* status = after.find("status");
    if (status == nullptr) continue;
    registry::ResourceName what{&kind_of<Engine>(), space_, name_, ""};
    auto written = co_await write_status(env_.registry, std::move(what), *seen, *status);
    if (written) {
      pause = 100ms;
      if (*written && json_ != nullptr) set_object(std::make_shared<const Json>(std::move(**written)));
      continue;
    }
    log_debug("status not written", {{"engine", name_}, {"error", written.error()}});
    if (!co_await sleep_for(env_.executor, pause, token)) break;
    pause = std::min<Duration>(pause * 2, 5s);
    status_bell_.ring();
  }
  co_return Result<void>();
}

}  // namespace moor::agent
