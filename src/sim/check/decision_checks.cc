// What controllers decide is written only while what they decided on is as they saw it, and a start is
// called back only when its agent has heard of it: GUARD, S11.
#include <fmt/format.h>

#include <algorithm>

#include "registry/keys.h"
#include "registry/prepare.h"
#include "sim/check/checks.h"
#include "sim/check/support.h"

namespace moor::sim {
namespace {

using namespace check;
using registry::Mutation;

// "Every write names the revision it was decided on": of each plan that was carried out, whatever it replaced
// was at the version that the controller had seen, and for a decision about tickets so were the volume and
// its tickets, of which each is decided on the other. A commit is known for a plan by its content.
class DecisionsAreAboutWhatIs final : public Checker {
 public:
  DecisionsAreAboutWhatIs() : Checker("GUARD") {}

  void on_decision(const Reality&, const Decision& decision) override {
    const std::string who = fmt::format("{} of {}", decision.controller, decision.key->name);
    auto& mine = plans_[decision.server];
    std::erase_if(mine, [&](const Pending& one) { return one.who == who; });
    if (decision.plan->writes.empty()) return;
    Pending pending{who, decision.plan->writes, {}};
    for (const Mutation& write : decision.plan->writes)
      if (write.type != Mutation::Type::create) pending.seen[key_of(write)] = version_of(write);
    if (decision.view != nullptr && decision.controller == "volume-attachment") {
      see<lh::Volume>(decision, pending);
      see<lh::VolumeAttachment>(decision, pending);
    }
    mine.push_back(std::move(pending));
  }

  void on_commit(const Reality&, const Commit& commit) override {
    if (const auto mine = plans_.find(commit.through); mine != plans_.end()) {
      const auto done = std::find_if(mine->second.begin(), mine->second.end(),
                                     [&](const Pending& one) { return is_carried_out(one, commit); });
      if (done != mine->second.end()) {
        judge(*done, commit);
        mine->second.erase(done);
      }
    }
    for (const Change& change : commit.changes) {
      const std::string key = registry::key_of(*change.kind, change.space, change.name);
      if (change.after == nullptr) {
        newest_.erase(key);
      } else {
        newest_[key] = std::to_string(change.revision);
      }
    }
  }

 private:
  struct Pending {
    std::string who;
    std::vector<Mutation> writes;
    std::map<std::string, std::string> seen;  // key of the store → version that was decided on
  };

  static std::string key_of(const Mutation& write) {
    const bool named = !write.what.name.empty();
    return registry::key_of(*write.what.kind, write.what.space,
                            named ? write.what.name : registry::metadata_text(write.object, "name"));
  }
  static std::string version_of(const Mutation& write) {
    return write.type == Mutation::Type::remove ? write.resource_version
                                                : registry::metadata_text(write.object, "resourceVersion");
  }
  template <class T>
  static void see(const Decision& decision, Pending& pending) {
    const model::KindInfo& kind = control::kind_of<T>();
    // Of the controller's own family: looking again notes nothing.
    const JsonPtr found = decision.view->find_any(kind, decision.key->space, decision.key->name);
    if (found == nullptr) return;
    pending.seen[registry::key_of(kind, decision.key->space, decision.key->name)] =
        registry::metadata_text(*found, "resourceVersion");
  }

  static bool is_same_part(const Json& planned, const Json& written, std::string_view part) {
    const Json* one = planned.find(part);
    const Json* other = written.find(part);
    return one == nullptr || other == nullptr ? one == other : *one == *other;
  }
  static bool is_in(const Mutation& write, const Change& change) {
    if (write.what.kind != change.kind) return false;
    if (key_of(write) != registry::key_of(*change.kind, change.space, change.name)) return false;
    switch (write.type) {
      case Mutation::Type::create: return change.before == nullptr;
      case Mutation::Type::remove:
        return change.after == nullptr ||
               change.after->find_path({"metadata", "deletionTimestamp"}) != nullptr;
      case Mutation::Type::update: break;
    }
    if (change.before == nullptr || change.after == nullptr) return false;
    if (!write.what.subresource.empty()) return is_same_part(write.object, *change.after, "status");
    const Json& planned = *write.object.find("metadata");
    const Json& written = *change.after->find("metadata");
    return is_same_part(write.object, *change.after, "spec") &&
           is_same_part(planned, written, "annotations") && is_same_part(planned, written, "finalizers");
  }
  static bool is_carried_out(const Pending& plan, const Commit& commit) {
    return plan.writes.size() == commit.changes.size() &&
           std::all_of(plan.writes.begin(), plan.writes.end(), [&](const Mutation& write) {
             return std::any_of(commit.changes.begin(), commit.changes.end(),
                                [&](const Change& change) { return is_in(write, change); });
           });
  }

  void judge(const Pending& plan, const Commit& commit) const {
    for (const auto& [key, version] : plan.seen) {
      const auto now = newest_.find(key);
      if (now != newest_.end() && now->second == version) continue;
      return violated(fmt::format(
          "{} decided on {} at version {}, and server {} wrote what it had decided when that was {}",
          plan.who, key, version, commit.through,
          now == newest_.end() ? "gone" : "at version " + now->second));
    }
  }

  std::map<std::string, std::vector<Pending>> plans_;  // by server; of each controller and key the last
  std::map<std::string, std::string> newest_;          // key → version
};

// One attach or detach at a time: an epoch that the Grant names, and that its agent has not heard of, is
// being attached. Called back now, the agent might read the order to stop nothing, and then start it
// (docs/decisions/0200, 0300: stopped only after its agent has reported it, or the Grant no longer names it).
class AStartIsHeardOfBeforeItsStop final : public Checker {
 public:
  AStartIsHeardOfBeforeItsStop() : Checker("S11") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto engine = changed<lh::Engine>(change);
      if (!engine || !engine->before || !engine->after) continue;
      if (engine->before->spec.desire_state != lh::InstanceState::running ||
          engine->after->spec.desire_state != lh::InstanceState::stopped)
        continue;
      const auto grant = reality.get<mr::Grant>(change.space, engine->after->spec.volume_name);
      if (!grant) continue;
      for (const auto* holder : {&grant->spec.active, &grant->spec.standby})
        if (*holder && (*holder)->engine == change.name && (*holder)->epoch > engine->after->status.epoch)
          violated(fmt::format(
              "engine {} is told to stop while the Grant names {}, and its agent has heard only of epoch {}: "
              "an attach and a detach are under way at once",
              change.name, describe(**holder), engine->after->status.epoch));
    }
  }
};

}  // namespace

std::unique_ptr<Checker> rule_decisions_are_about_what_is() {
  return std::make_unique<DecisionsAreAboutWhatIs>();
}
std::unique_ptr<Checker> invariant_s11_a_start_is_heard_of_before_its_stop() {
  return std::make_unique<AStartIsHeardOfBeforeItsStop>();
}

}  // namespace moor::sim
