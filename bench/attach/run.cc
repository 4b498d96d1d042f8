#include "bench/attach/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "base/completion.h"
#include "base/task_group.h"
#include "model/codec.h"
#include "model/coordination/lease.h"
#include "model/longhorn/engine.h"
#include "model/longhorn/node.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "registry/client/informer.h"
#include "registry/prepare.h"

namespace moor::bench {
namespace {

namespace lh = model::longhorn;
constexpr const char* kTicket = "bench";
constexpr Duration kPatience = std::chrono::minutes(5);

template <class T>
registry::ResourceName named(std::string name = {}) {
  return {&kind_info(static_cast<const T*>(nullptr)), std::string(lh::kDefaultNamespace), std::move(name),
          ""};
}

Result<void> check(registry::Answer<registry::Written> written) {
  if (written) return {};
  return written.error().error;
}

Result<void> read_one_block(const std::string& path) {
  constexpr std::size_t kBlock = 4096;
  const int device = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (device < 0) return errno_error(errno, "open " + path);
  void* block = std::aligned_alloc(kBlock, kBlock);
  const ssize_t size = pread(device, block, kBlock, 0);
  const int problem = errno;
  std::free(block);
  close(device);
  if (size != static_cast<ssize_t>(kBlock)) return errno_error(size < 0 ? problem : EIO, "read " + path);
  return {};
}

// Runs informers until a condition over them holds.
template <class... Kinds>
class Watching {
 public:
  explicit Watching(RunEnv env) : env_(env) {
    (informers_.push_back(std::make_unique<registry::Informer>(env.loop, env.registry, named<Kinds>())), ...);
  }
  registry::Informer& at(std::size_t index) { return *informers_[index]; }

  // `holds` is asked after each event, with the name of its object; it may note times. It looks at that one
  // only: with a thousand volumes, looking at all of them each time would be what is measured. Empty: before
  // the first event. Time-out: what was waited for.
  using Holds = std::function<bool(const std::string& name)>;
  Task<Result<void>> until(Holds holds, std::function<Task<Result<void>>()> work, std::string what) {
    const Completion<bool> done(env_.loop);
    for (auto& informer : informers_)
      informer->listen([done, holds](const registry::Informer::Event& event) {
        const Json& object = event.after != nullptr ? *event.after : *event.before;
        if (holds(registry::metadata_text(object, "name"))) done.set(true);
      });
    TaskGroup group(env_.loop);
    for (auto& informer : informers_) group.spawn(informer->run(group.token()));
    for (auto& informer : informers_) CO_TRY_VOID(co_await informer->wait_synced({}));
    if (holds("")) done.set(true);
    Result<void> worked = co_await work();
    if (!worked) done.set(false);
    const auto timer =
        env_.loop.start_timer(env_.loop.clock().now() + kPatience, [done] { done.set(false); });
    const bool held = co_await done;
    env_.loop.stop_timer(timer);
    group.cancel();
    (void)co_await group.join();  // ended by the cancellation
    if (!worked) co_return worked;
    if (!held) co_return make_error(Errc::timed_out, "waited too long for " + what);
    co_return Result<void>();
  }

 private:
  RunEnv env_;
  std::vector<std::unique_ptr<registry::Informer>> informers_;
};

// As many clients as a busy cluster has; more at once the server turns away (429).
constexpr std::size_t kClients = 64;
using Jobs = std::vector<std::function<Task<Result<void>>()>>;

Task<Result<void>> run_client(const Jobs* jobs, std::size_t* next) {
  while (*next < jobs->size()) {
    const std::size_t mine = (*next)++;
    CO_TRY_VOID(co_await (*jobs)[mine]());
  }
  co_return Result<void>();
}

Task<Result<void>> run_all(Loop& loop, Jobs jobs) {
  std::size_t next = 0;
  TaskGroup group(loop);
  for (std::size_t i = 0; i < kClients; ++i) group.spawn(run_client(&jobs, &next));
  co_return co_await group.join();
}

Task<Result<void>> nothing() {
  co_return Result<void>();
}

Task<Result<void>> write_ticket(RunEnv env, std::string volume, Json ticket) {
  Json tickets = Json::object({{kTicket, std::move(ticket)}});
  Json patch = Json::object({{"spec", Json::object({{"attachmentTickets", std::move(tickets)}})}});
  registry::WriteOptions options;
  options.field_manager = "bench";
  co_return check(co_await env.registry.patch(named<lh::VolumeAttachment>(volume), registry::PatchType::merge,
                                              std::move(patch), options));
}

struct Track {
  TimePoint asked{};
  std::optional<TimePoint> satisfied;
  std::optional<TimePoint> usable;
  bool reading = false;
  bool is_done() const { return satisfied.has_value() && (usable.has_value() || reading); }
};

// One round of attaching: its informers' listeners note the times.
class Attaching {
 public:
  Attaching(RunEnv env, const RunOptions& options) : env_(env), options_(options), watching_(env) {
    for (const std::string& volume : options.volumes) tracks_[volume];
  }

  Task<Result<void>> run(Times& times) {
    const TimePoint begin = env_.loop.clock().now();
    std::function<bool(const std::string&)> holds = [this](const std::string& name) { return look(name); };
    std::function<Task<Result<void>>()> work = [this] { return ask_all(); };
    CO_TRY_VOID(co_await watching_.until(std::move(holds), std::move(work), "every volume to be attached"));
    CO_TRY_VOID(co_await readers_.join());
    for (const auto& [volume, track] : tracks_) {
      times.satisfied.push_back(*track.satisfied - track.asked);
      times.usable.push_back(*track.usable - track.asked);
      times.attach_span = std::max(times.attach_span, *track.usable - begin);
    }
    co_return Result<void>();
  }

 private:
  Task<Result<void>> ask(std::string volume, std::string node) {
    tracks_[volume].asked = env_.loop.clock().now();
    Json ticket = Json::object({{"id", kTicket}, {"type", lh::attacher::kApi}, {"nodeID", node}});
    co_return co_await write_ticket(env_, volume, std::move(ticket));
  }

  Task<Result<void>> ask_all() {
    Jobs jobs;
    int number = 0;
    for (const std::string& volume : options_.volumes) {
      const std::string node = fmt::format("node-{}", number++ % options_.nodes + 1);
      jobs.push_back([this, volume, node] { return ask(volume, node); });
    }
    co_return co_await run_all(env_.loop, std::move(jobs));
  }

  // An engine's name is its volume's with "-e".
  bool look(const std::string& name) {
    auto found = tracks_.find(name);
    if (found == tracks_.end() && name.ends_with("-e")) found = tracks_.find(name.substr(0, name.size() - 2));
    if (found == tracks_.end()) return false;
    auto& [volume, track] = *found;
    const bool was_done = track.is_done();
    const TimePoint now = env_.loop.clock().now();
    if (!track.satisfied && is_satisfied(volume)) {
      track.satisfied = now;
      if (!options_.read_device) track.usable = now;
    }
    if (track.satisfied && !track.usable && !track.reading) start_reading(volume, track);
    if (!was_done && track.is_done()) ++done_;
    return done_ == tracks_.size();
  }

  bool is_satisfied(const std::string& volume) {
    const auto object = watching_.at(0).find(lh::kDefaultNamespace, volume);
    if (object == nullptr) return false;
    const Json* wanted = object->find_path({"spec", "attachmentTickets", kTicket});
    const Json* status = object->find_path({"status", "attachmentTicketStatuses", kTicket});
    return wanted != nullptr && status != nullptr && status->get_bool("satisfied").value_or(false) &&
           status->get_int64("generation").value_or(0) == wanted->get_int64("generation").value_or(0);
  }

  void start_reading(const std::string& volume, Track& track) {
    const auto engine = watching_.at(1).find(lh::kDefaultNamespace, volume + "-e");
    const Json* endpoint = engine == nullptr ? nullptr : engine->find_path({"status", "endpoint"});
    if (endpoint == nullptr || !endpoint->is_string() || endpoint->as_string().empty()) return;
    track.reading = true;
    readers_.spawn(read(std::string(endpoint->as_string()), &track));
  }

  Task<Result<void>> read(std::string path, Track* track) {
    std::function<Result<void>()> function = [path] { return read_one_block(path); };
    CO_TRY_VOID(co_await env_.pool.run(std::move(function)));
    track->usable = env_.loop.clock().now();
    co_return Result<void>();
  }

  RunEnv env_;
  const RunOptions& options_;
  std::map<std::string, Track> tracks_;
  std::size_t done_ = 0;
  Watching<lh::VolumeAttachment, lh::Engine> watching_;
  TaskGroup readers_{env_.loop};
};

class Detaching {
 public:
  Detaching(RunEnv env, const RunOptions& options) : env_(env), options_(options), watching_(env) {}

  Task<Result<void>> run(Times& times) {
    const TimePoint begin = env_.loop.clock().now();
    std::function<bool(const std::string&)> holds = [this](const std::string& name) { return look(name); };
    std::function<Task<Result<void>>()> work = [this] { return ask_all(); };
    CO_TRY_VOID(co_await watching_.until(std::move(holds), std::move(work), "every volume to be detached"));
    for (const auto& [volume, when] : detached_) {
      times.detached.push_back(when - asked_.at(volume));
      times.detach_span = std::max(times.detach_span, when - begin);
    }
    co_return Result<void>();
  }

 private:
  Task<Result<void>> ask(std::string volume) {
    asked_[volume] = env_.loop.clock().now();
    co_return co_await write_ticket(env_, volume, Json());
  }
  Task<Result<void>> ask_all() {
    Jobs jobs;
    for (const std::string& volume : options_.volumes) jobs.push_back([this, volume] { return ask(volume); });
    co_return co_await run_all(env_.loop, std::move(jobs));
  }
  bool look(const std::string& volume) {
    if (!asked_.contains(volume) || detached_.contains(volume)) return false;
    const auto object = watching_.at(0).find(lh::kDefaultNamespace, volume);
    const Json* state = object == nullptr ? nullptr : object->find_path({"status", "state"});
    const Json* node = object == nullptr ? nullptr : object->find_path({"spec", "nodeID"});
    const bool wanted = node != nullptr && node->is_string() && !node->as_string().empty();
    if (state != nullptr && *state == Json("detached") && !wanted)
      detached_[volume] = env_.loop.clock().now();
    return detached_.size() == options_.volumes.size();
  }

  RunEnv env_;
  const RunOptions& options_;
  std::map<std::string, TimePoint> asked_;
  std::map<std::string, TimePoint> detached_;
  Watching<lh::Volume> watching_;
};

Task<Result<void>> create_one(RunEnv env, std::string name, std::string size, int replicas) {
  Json object = Json::object({{"metadata", Json::object({{"name", name}})},
                              {"spec", Json::object({{"size", size}, {"numberOfReplicas", replicas}})}});
  registry::WriteOptions options;
  options.field_manager = "bench";
  co_return check(co_await env.registry.create(named<lh::Volume>(), std::move(object), options));
}

Task<Result<void>> create_all(RunEnv env, std::vector<std::string> names, std::string size, int replicas) {
  Jobs jobs;
  for (const std::string& name : names)
    jobs.push_back([env, name, size, replicas] { return create_one(env, name, size, replicas); });
  co_return co_await run_all(env.loop, std::move(jobs));
}

}  // namespace

Task<Result<std::vector<Duration>>> write_one_by_one(RunEnv env, int count) {
  using model::coordination::Lease;
  registry::ResourceName what{&kind_info(static_cast<const Lease*>(nullptr)), "default", "", ""};
  registry::WriteOptions options;
  options.field_manager = "bench";
  Json lease = Json::object({{"metadata", Json::object({{"name", "bench"}})}});
  CO_TRY_VOID(check(co_await env.registry.create(what, std::move(lease), options)));
  what.name = "bench";
  std::vector<Duration> times;
  for (int i = 1; i <= count; ++i) {
    Json patch = Json::object({{"spec", Json::object({{"leaseTransitions", i}})}});
    const TimePoint begin = env.loop.clock().now();
    CO_TRY_VOID(
        check(co_await env.registry.patch(what, registry::PatchType::merge, std::move(patch), options)));
    times.push_back(env.loop.clock().now() - begin);
  }
  co_return times;
}

Task<Result<void>> make_volumes(RunEnv env, std::vector<std::string> names, std::string size, int replicas) {
  Watching<lh::Volume, lh::VolumeAttachment> watching(env);
  std::set<std::string> missing(names.begin(), names.end());
  std::function<bool(const std::string&)> holds = [&watching, &missing](const std::string& name) {
    if (!missing.contains(name)) return missing.empty();
    const auto object = watching.at(0).find(lh::kDefaultNamespace, name);
    const auto volume = object == nullptr ? Result<lh::Volume>(Error{Errc::not_found, ""})
                                          : model::decode<lh::Volume>(*object);
    const bool made = volume && volume->status.state == lh::VolumeState::detached &&
                      model::is_condition_true(volume->status.conditions, lh::kVolumeScheduled) &&
                      watching.at(1).find(lh::kDefaultNamespace, name) != nullptr;
    if (made) missing.erase(name);
    return missing.empty();
  };
  std::function<Task<Result<void>>()> work = [env, &names, &size, replicas] {
    return create_all(env, names, size, replicas);
  };
  co_return co_await watching.until(std::move(holds), std::move(work), "the volumes to be made");
}

Task<Result<void>> wait_for_ready_nodes(RunEnv env, int nodes) {
  Watching<lh::Node> watching(env);
  std::function<bool(const std::string&)> holds = [&watching, nodes](const std::string&) {
    int ready = 0;
    watching.at(0).for_each([&](const registry::Informer::Object& object) {
      const auto node = model::decode<lh::Node>(*object);
      ready += node && model::is_condition_true(node->status.conditions, lh::kNodeReady);
      return true;
    });
    return ready >= nodes;
  };
  co_return co_await watching.until(std::move(holds), nothing, "the nodes to be ready");
}

Task<Result<void>> attach_all(RunEnv env, RunOptions options, Times* times) {
  Attaching attaching(env, options);
  co_return co_await attaching.run(*times);
}

Task<Result<void>> detach_all(RunEnv env, RunOptions options, Times* times) {
  Detaching detaching(env, options);
  co_return co_await detaching.run(*times);
}

}  // namespace moor::bench
