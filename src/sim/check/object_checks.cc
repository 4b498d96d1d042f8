// The store and who writes to it: S32, S33, S37, S38, S39, S45, and that agents end only what they are told
// to end.
#include <fmt/format.h>

#include <set>

#include "model/coordination/lease.h"
#include "registry/keys.h"
#include "sim/check/checks.h"
#include "sim/check/support.h"

namespace moor::sim {
namespace {

using namespace check;
using model::coordination::Lease;

template <class T>
std::string left_of(const Reality& reality, const std::string& volume_uid) {
  for (const T& one : reality.all<T>()) {
    const model::OwnerReference* owner = one.metadata.controller_owner();
    if (owner != nullptr && owner->uid == volume_uid) return one.metadata.name;
  }
  return {};
}

class NothingOutlivesItsVolume final : public Checker {
 public:
  NothingOutlivesItsVolume() : Checker("S32") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto volume = changed<lh::Volume>(change);
      if (!volume || volume->after || !volume->before) continue;
      const std::string& uid = volume->before->metadata.uid;
      const auto say = [&](std::string_view kind, const std::string& name) {
        if (!name.empty())
          violated(fmt::format("volume {} is gone, and its {} {} is still there", change.name, kind, name));
      };
      say("Engine", left_of<lh::Engine>(reality, uid));
      say("Replica", left_of<lh::Replica>(reality, uid));
      say("VolumeAttachment", left_of<lh::VolumeAttachment>(reality, uid));
      const auto grant = reality.get<mr::Grant>(change.space, change.name);
      if (grant && grant->spec.active)
        violated(fmt::format("volume {} is gone, and its Grant still names {}", change.name,
                             describe(*grant->spec.active)));
    }
  }
};

class DirectoryOfOneVolume final : public Checker {
 public:
  DirectoryOfOneVolume() : Checker("S33") {}
  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto replica = changed<lh::Replica>(change);
      if (!replica || !replica->after || replica->before) continue;
      const std::string& directory = replica->after->spec.data_directory_name;
      const auto [known, fresh] = owners_.emplace(directory, replica->after->metadata.uid);
      if (!fresh && known->second != replica->after->metadata.uid)
        violated(fmt::format(
            "replica {}: its directory {} has belonged to another replica before: a new volume would meet "
            "old data",
            change.name, directory));
    }
  }

 private:
  std::map<std::string, std::string> owners_;  // directory → uid of the Replica
};

std::set<std::string> volumes_on(const Reality& reality, const std::string& node) {
  std::set<std::string> found;
  for (const lh::Volume& volume : reality.all<lh::Volume>())
    if (volume.spec.node_id == node || volume.spec.migration_node_id == node ||
        volume.status.current_node_id == node)
      found.insert(in_brackets(volume.metadata.space, volume.metadata.name));
  return found;
}

// The node that a commit sends this volume to; empty: none. The destination of a move takes its place when
// the move begins, not when it is confirmed.
std::string newly_on(const Change& change) {
  const auto volume = changed<lh::Volume>(change);
  if (!volume || !volume->after) return {};
  for (const std::string& node : {volume->after->spec.node_id, volume->after->spec.migration_node_id}) {
    const bool was = volume->before &&
                     (volume->before->spec.node_id == node || volume->before->spec.migration_node_id == node);
    if (!node.empty() && !was) return node;
  }
  return {};
}

class AttachLimit final : public Checker {
 public:
  AttachLimit() : Checker("S37") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const std::string node = newly_on(change);
      if (node.empty()) continue;
      const std::int64_t limit = setting(reality, "node-attach-limit");
      if (limit <= 0) continue;
      const auto there = volumes_on(reality, node);
      if (static_cast<std::int64_t>(there.size()) > limit)
        violated(fmt::format("node {} may have {} volumes and got its {}th, {}", node, limit, there.size(),
                             change.name));
    }
  }
};

class LimitsAreWrittenDown final : public Checker {
 public:
  LimitsAreWrittenDown() : Checker("S45") {}
  void on_commit(const Reality& reality, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      if (const std::string node = newly_on(change);
          !node.empty() && setting(reality, "node-attach-limit") > 0) {
        const auto ledger = reality.get<mr::Ledger>("", node);
        if (!ledger || !ledger->spec.attachments.contains(in_brackets(change.space, change.name)))
          violated(fmt::format(
              "volume {} took a place on node {}, whose number is limited, and the node's Ledger does not "
              "know it",
              change.name, node));
      }
      const auto replica = changed<lh::Replica>(change);
      if (!replica || !replica->after || replica->after->spec.node_id.empty()) continue;
      if (replica->before && replica->before->spec.node_id == replica->after->spec.node_id) continue;
      check_room(reality, change, *replica->after);
    }
  }

 private:
  void check_room(const Reality& reality, const Change& change, const lh::Replica& replica) const {
    const auto ledger = reality.get<mr::Ledger>("", replica.spec.node_id);
    const std::string key = in_brackets(change.space, change.name);
    const bool known = ledger && ledger->spec.disks.contains(replica.spec.disk_id) &&
                       ledger->spec.disks.at(replica.spec.disk_id).contains(key);
    if (!known)
      violated(fmt::format(
          "replica {} was placed on disk {} of node {}, and the node's Ledger does not know of its {} "
          "bytes: the disk can be promised twice",
          change.name, replica.spec.disk_id, replica.spec.node_id, replica.spec.volume_size));
  }
};

// Every write follows the one that was last seen of its object, and revisions only grow.
class NoWriteIsLost final : public Checker {
 public:
  NoWriteIsLost() : Checker("S38") {}
  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      if (change.kind == nullptr) continue;
      if (change.revision <= last_)
        violated(fmt::format(
            "the store wrote {} {} as revision {} after revision {} had been seen: history has gone back",
            change.kind->kind, change.name, change.revision, last_));
      last_ = std::max(last_, change.revision);
      const std::string key = registry::key_of(*change.kind, change.space, change.name);
      const auto known = newest_.find(key);
      if (known != newest_.end() && !same(known->second.object, change.before))
        violated(fmt::format(
            "{} {} was last seen {} at revision {}, and the write of revision {} follows something else: "
            "an acknowledged write is lost",
            change.kind->kind, change.name, known->second.object == nullptr ? "gone" : "written",
            known->second.revision, change.revision));
      newest_[key] = {change.after, change.revision};
    }
  }

 private:
  struct Newest {
    JsonPtr object;  // null: gone
    store::Revision revision = 0;
  };
  static bool same(const JsonPtr& left, const JsonPtr& right) {
    if (left == nullptr || right == nullptr) return left == right;
    return left == right || *left == *right;
  }
  store::Revision last_ = 0;
  std::map<std::string, Newest> newest_;
};

// What only controllers write comes through the server that took the term last.
class OnlyTheLeaderDecides final : public Checker {
 public:
  OnlyTheLeaderDecides() : Checker("S39") {}
  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes)
      if (change.kind == &control::kind_of<Lease>() && change.name == "mooring-controllers-term" &&
          change.after != nullptr)
        leader_ = commit.through;
    if (leader_.empty() || commit.through.empty() || commit.through == leader_) return;
    for (const Change& change : commit.changes) {
      const std::string what = decided(change);
      if (!what.empty())
        return violated(fmt::format("server {} wrote {} of {} after {} had become the leader", commit.through,
                                    what, change.name, leader_));
    }
  }

 private:
  static std::string decided(const Change& change) {
    if (const auto volume = changed<lh::Volume>(change); volume && volume->before && volume->after) {
      if (volume->before->spec.node_id != volume->after->spec.node_id) return "the node";
      if (volume->before->status.state != volume->after->status.state) return "the state";
    }
    if (const auto grant = changed<mr::Grant>(change); grant && grant->before && grant->after)
      if (grant->before->spec.epoch != grant->after->spec.epoch) return "the epoch";
    if (const auto engine = changed<lh::Engine>(change); engine && engine->before && engine->after)
      if (engine->before->spec.desire_state != engine->after->spec.desire_state)
        return "the wish for the engine";
    return {};
  }
  std::string leader_;
};

// An engine that ends cleanly though nobody ever asked for its end was stopped by its agent on no order.
class AgentStopsOnlyWhatItIsToldTo final : public Checker {
 public:
  AgentStopsOnlyWhatItIsToldTo() : Checker("ORDER") {}
  void on_commit(const Reality&, const Commit& commit) override {
    for (const Change& change : commit.changes) {
      const auto engine = changed<lh::Engine>(change);
      if (!engine || !engine->after) continue;
      Life& life = lives_[engine->after->metadata.uid];
      if (engine->after->status.epoch != life.epoch) life = {engine->after->status.epoch, life.asked_to_stop};
      const bool wanted = engine->after->spec.desire_state == lh::InstanceState::running &&
                          !engine->after->metadata.is_being_deleted();
      if (!wanted) life.asked_to_stop = true;
      const bool starts = engine->after->status.current_state == lh::InstanceState::running;
      if (wanted && starts) life.asked_to_stop = false;
      const bool ended = engine->before && engine->before->status.epoch == life.epoch &&
                         engine->before->status.current_state == lh::InstanceState::running &&
                         engine->after->status.current_state == lh::InstanceState::stopped;
      if (ended && wanted && !life.asked_to_stop)
        violated(fmt::format("engine {}: epoch {} was stopped in good order, and nobody had asked for it",
                             change.name, life.epoch));
    }
  }

 private:
  struct Life {
    std::int64_t epoch = 0;
    bool asked_to_stop = false;
  };
  std::map<std::string, Life> lives_;
};

}  // namespace

std::unique_ptr<Checker> invariant_s32_nothing_outlives_its_volume() {
  return std::make_unique<NothingOutlivesItsVolume>();
}
std::unique_ptr<Checker> invariant_s33_directory_of_one_volume() {
  return std::make_unique<DirectoryOfOneVolume>();
}
std::unique_ptr<Checker> invariant_s37_attach_limit() {
  return std::make_unique<AttachLimit>();
}
std::unique_ptr<Checker> invariant_s38_no_write_is_lost() {
  return std::make_unique<NoWriteIsLost>();
}
std::unique_ptr<Checker> invariant_s39_only_the_leader_decides() {
  return std::make_unique<OnlyTheLeaderDecides>();
}
std::unique_ptr<Checker> invariant_s45_limits_are_written_down() {
  return std::make_unique<LimitsAreWrittenDown>();
}
std::unique_ptr<Checker> rule_agent_stops_only_what_it_is_told_to() {
  return std::make_unique<AgentStopsOnlyWhatItIsToldTo>();
}

}  // namespace moor::sim
