// The whole control floor on one thread under a manual clock: real registry on a store in memory, real
// admission, all controllers, and imagined agents. An imagined agent does what 0200 asks of a real one (start
// at most once per epoch, say what ended, report changes only); its processes are entries in a map.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "base/random.h"
#include "base/task_group.h"
#include "control/admission/admission.h"
#include "control/controllers/controllers.h"
#include "control/controllers/family.h"
#include "control/runtime/leader.h"
#include "control/runtime/runtime.h"
#include "registry/gc.h"
#include "registry/local_registry.h"
#include "store/memory/memory_store.h"

namespace moor::control {

// What really runs, which no controller can see.
struct Reality {
  struct Process {
    std::string node;
    std::int64_t epoch = 0;  // engines
    std::int32_t port = 0;   // replicas, and engines that a standby may follow
    bool standby = false;    // engines: it does not write
    bool wants = false;      // a standby whose client writes
  };
  std::map<std::string, Process> engines;   // by name@node
  std::map<std::string, Process> replicas;  // by name
  std::map<std::string, int> starts;        // "v1-e/3": how often epoch 3 was started
  std::int32_t next_port = 20000;
};

// Sees every write of the story before it happens and checks what must always hold.
class Witness final : public registry::Admission {
 public:
  bool handles(const model::KindInfo& kind) const override;
  registry::Answer<void> validate(const registry::AdmissionRequest& request, const Json& object) override;
};

struct StageOptions {
  std::size_t nodes = 3;
  std::int64_t disk_bytes = 100ll << 30;
};

class Stage;

class ImaginedAgent {
 public:
  ImaginedAgent(Stage& stage, std::string node) : stage_(stage), node_(std::move(node)) {}
  void join(std::int64_t disk_bytes);
  void heartbeat();
  // One round of work; answers whether anything was done.
  bool step();
  bool up = true;
  std::int64_t incarnation = 1;
  bool broken_engines = false;  // every start of an engine fails

 private:
  bool step_replica(const Object<lh::Replica>& replica);
  bool step_engine(const Object<lh::Engine>& engine);
  // A running engine and what the Grant says of it by now: answers whether something was done.
  bool follow_grant(const Object<lh::Engine>& engine, const Object<mr::Grant>& grant);
  bool start_engine(const Object<lh::Engine>& engine, const Object<mr::Grant>& grant);
  bool watch_members(const Object<lh::Engine>& engine, const Object<mr::Grant>& grant);
  bool tell(const Object<lh::Engine>& engine, lh::InstanceState state, std::int64_t epoch,
            const std::string& why = "");
  template <class T>
  bool let_go(const Object<T>& object);
  std::string here(const std::string& engine) const { return engine + "@" + node_; }

  Stage& stage_;
  std::string node_;
  std::map<std::string, std::int64_t> epochs_;   // recorded durably before a start
  std::map<std::string, std::string> failures_;  // why the last start ended
};

class Stage {
 public:
  explicit Stage(StageOptions options = {});
  ~Stage();

  void start_controllers();
  void stop_controllers();
  void restart_controllers();

  // Runs everything until nobody has anything to do at this moment.
  void settle();
  // Runs at most that many pieces of work, agents in between; answers whether there is more.
  bool nudge(std::size_t pieces);
  // Time passes, with heartbeats of the nodes that are up.
  void pass(Duration duration);

  void create_volume(const std::string& name, const std::string& spec = R"("size":"1073741824")");
  void add_ticket(const std::string& volume, const std::string& id, const std::string& type,
                  const std::string& node, const std::string& more = "");
  void remove_ticket(const std::string& volume, const std::string& id);
  void set_setting(const std::string& name, const std::string& value);

  template <class T>
  Object<T> get(const std::string& name, std::string space = "") {
    if (kind_of<T>().namespaced && space.empty()) space = std::string(lh::kDefaultNamespace);
    const JsonPtr json = registry_->find(kind_of<T>(), space, name);
    if (json == nullptr) return {};
    auto value = model::decode<T>(*json);
    EXPECT_TRUE(value.ok());
    return {json, std::make_shared<const T>(*value)};
  }
  template <class T>
  std::vector<Object<T>> all() {
    std::vector<Object<T>> found;
    registry_->for_each(kind_of<T>(), "", [&](const JsonPtr& json) {
      auto value = model::decode<T>(*json);
      EXPECT_TRUE(value.ok());
      found.push_back({json, std::make_shared<const T>(*value)});
      return true;
    });
    return found;
  }
  // A write as that identity; answers why not.
  registry::Answer<registry::Written> write(const model::KindInfo& kind, const Json& object,
                                            std::string_view subresource = "",
                                            const registry::Identity& who = {});
  template <class T>
  bool update(const Object<T>& before, const T& after, std::string_view subresource = "",
              const registry::Identity& who = {}) {
    Json object = *before.json;
    model::encode_onto(object, after);
    if (object == *before.json) return false;
    return write(kind_of<T>(), object, subresource, who).ok();
  }
  void remove(const model::KindInfo& kind, const std::string& name);
  // Why not; empty: it is asked to go.
  std::string try_remove(const model::KindInfo& kind, const std::string& name, const registry::Identity& who);

  // "attached node-1 healthy", for tables.
  std::string state_of(const std::string& volume);
  bool is_satisfied(const std::string& volume, const std::string& ticket);
  // "NodeNotReady", …: the types of what the ticket waits for.
  std::string blockers_of(const std::string& volume, const std::string& ticket);
  std::uint64_t revision();
  ImaginedAgent& agent(const std::string& node) { return *agents_.at(node); }

  // Kills a process behind everybody's back.
  void kill_engine(const std::string& volume) {
    std::erase_if(reality.engines,
                  [&](const auto& one) { return one.first.starts_with(engine_name(volume)); });
  }
  void kill_engine_on(const std::string& node) {
    std::erase_if(reality.engines, [&](const auto& one) { return one.first.ends_with("@" + node); });
  }
  // The client of the standby on that node writes.
  void write_on(const std::string& node) {
    for (auto& [name, process] : reality.engines)
      if (process.node == node) process.wants = true;
    if (!hold) settle();
  }
  // "ready node-1 node-2", or "-".
  std::string move_of(const std::string& volume);
  void kill_replica(const std::string& replica) { reality.replicas.erase(replica); }

  Reality reality;
  bool hold = false;  // helpers do not settle
  ManualExecutor executor;
  SeededRandom random{11};
  std::unique_ptr<Runtime> runtime;

 private:
  template <class T>
  T wait(Task<T> task) {
    return block_on(executor, std::move(task));
  }

  std::unique_ptr<store::Store> store_;
  ControlAdmission admission_;
  Witness witness_;
  std::unique_ptr<registry::LocalRegistry> registry_;
  std::unique_ptr<registry::GarbageCollector> collector_;
  TaskGroup group_;
  std::unique_ptr<LeaderElection> election_;
  std::unique_ptr<TaskGroup> controllers_;
  std::map<std::string, std::unique_ptr<ImaginedAgent>> agents_;
  int generation_ = 0;
};

}  // namespace moor::control
