// A server as `moord server` wires it, doors apart: registry with admission, garbage collector, namespaces,
// events, leader election and all controllers, on an embedded store or a link to the shared one. One object
// is one place (machine, disk) that runs one process after another.
#pragma once

#include <memory>
#include <string>

#include "control/admission/admission.h"
#include "control/runtime/leader.h"
#include "control/runtime/runtime.h"
#include "registry/events.h"
#include "registry/gc.h"
#include "registry/local_registry.h"
#include "registry/namespaces.h"
#include "sim/store_place.h"

namespace moor::sim {

class Server {
 public:
  // `place` null: the store is embedded.
  Server(Context& context, std::string name, StorePlace* place);
  ~Server();

  void start();
  void kill();
  void pause();
  void resume();
  bool is_up() const { return life_ != nullptr; }
  bool is_paused() const { return life_ != nullptr && life_->process.is_paused(); }
  bool is_leading() const { return life_ != nullptr && life_->election.is_leader(); }
  // Keys that wait on a server that does not lead wait for ever, and concern nobody.
  bool is_idle() const { return !is_leading() || life_->runtime.is_idle(); }
  const std::string& name() const { return name_; }
  MachineId machine() const { return machine_; }
  const EndpointPtr& endpoint() const { return endpoint_; }
  std::chrono::microseconds& wall_offset() { return wall_offset_; }
  JournalDisk& disk() { return place_ != nullptr ? place_->disk() : disk_; }

  // Only while it is up.
  registry::LocalRegistry& registry() { return life_->registry; }
  void spawn(Task<Result<void>> task) { life_->group.spawn(std::move(task)); }
  CancelToken token() const { return life_->group.token(); }
  // Breaks when this life ends.
  void on_death(std::function<void()> callback) { deaths_.push_back(std::move(callback)); }

 private:
  struct Life {
    Life(Server& server, std::uint64_t seed);
    ~Life();
    SimProcess process;
    Caller caller;
    SeededRandom random;
    std::unique_ptr<store::Store> store;
    registry::LocalRegistry registry;
    registry::GarbageCollector collector;
    registry::NamespaceKeeper namespaces;
    control::ControlAdmission admission;
    registry::EventRecorder events;
    control::Runtime runtime;
    control::LeaderElection election;
    TaskGroup base;
    TaskGroup group;
  };
  static Task<Result<void>> serve(Life& life, EndpointPtr endpoint);
  std::unique_ptr<store::Store> make_store(Life& life);

  Context& context_;
  std::string name_;
  StorePlace* place_;
  MachineId machine_;
  std::chrono::microseconds wall_offset_{0};
  JournalDisk disk_;
  EndpointPtr endpoint_;
  std::unique_ptr<Life> life_;
  std::vector<std::function<void()>> deaths_;
};

}  // namespace moor::sim
