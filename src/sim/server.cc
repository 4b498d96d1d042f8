#include "sim/server.h"

#include "base/assert.h"
#include "base/ids.h"
#include "control/controllers/controllers.h"

namespace moor::sim {
namespace {

// A controller whose decisions the world sees.
class WatchedController final : public control::Controller {
 public:
  WatchedController(Context& context, std::string server, std::unique_ptr<control::Controller> inner)
      : context_(context), server_(std::move(server)), inner_(std::move(inner)) {}
  std::string_view name() const override { return inner_->name(); }
  std::vector<control::Wake> wakes() const override { return inner_->wakes(); }
  control::Plan reconcile(const control::View& view, const control::Key& key) const override {
    control::Plan plan = inner_->reconcile(view, key);
    if (context_.on_decision) context_.on_decision({server_, inner_->name(), &key, &view, &plan});
    return plan;
  }

 private:
  Context& context_;
  std::string server_;
  std::unique_ptr<control::Controller> inner_;
};

std::vector<std::unique_ptr<control::Controller>> watched_controllers(Context& context,
                                                                      const std::string& server) {
  auto controllers = control::make_controllers();
  for (auto& one : controllers) one = std::make_unique<WatchedController>(context, server, std::move(one));
  return controllers;
}

// So few that with a handful of volumes some are held back.
constexpr std::size_t kBegunAtOnce = 2;

}  // namespace

Server::Life::Life(Server& server, std::uint64_t seed)
    : process(server.context_.scheduler, server.name_, server.wall_offset_),
      caller(server.context_, process, server.machine_),
      random(seed),
      store(server.make_store(*this)),
      registry(process, *store, random),
      collector(registry),
      namespaces(registry),
      admission(process.clock(), random),
      events(process, registry, random, {.component = "moord", .host = ""}),
      runtime(registry, watched_controllers(server.context_, server.name_), &events,
              {.limits = {.begun_at_once = kBegunAtOnce}, .check_settled = true}),
      election(registry, runtime, {.identity = make_uuid(random), .alone = server.place_ == nullptr}),
      base(process),
      group(process) {
  registry.add_admission(admission);
}

Server::Life::~Life() = default;

Server::Server(Context& context, std::string name, StorePlace* place)
    : context_(context),
      name_(std::move(name)),
      place_(place),
      machine_(context.network.add(name_)),
      disk_(context) {}

Server::~Server() {
  kill();
}

std::unique_ptr<store::Store> Server::make_store(Life& life) {
  if (place_ != nullptr) return std::make_unique<StoreLink>(life.caller, *place_);
  store::JournaledOptions options;
  options.history_records = 2000;
  auto journal = std::make_unique<SimJournal>(context_, life.process, disk_, name_);
  auto opened = store::JournaledStore::open(life.process, std::move(journal), disk_.content(), options);
  MOOR_ASSERT(opened.ok(), "the journal of {} cannot be read: {}", name_, opened.error().message);
  return std::move(*opened);
}

// As moord server does: the door opens when the registry has caught up and the namespaces are there.
Task<Result<void>> Server::serve(Life& life, EndpointPtr endpoint) {
  const CancelToken token = life.group.token();
  while (true) {
    Result<void> ready = co_await life.registry.catch_up();
    if (ready) ready = co_await registry::ensure_namespaces(life.registry);
    if (ready) break;
    CO_TRY_VOID(token.check());
    // Its supervisor would start it again.
    CO_TRY_VOID(co_await sleep_for(life.process, std::chrono::seconds(1), token));
  }
  life.group.spawn(life.events.run(token));
  life.group.spawn(life.election.run(token));
  endpoint->open = true;
  co_return Result<void>();
}

void Server::start() {
  MOOR_ASSERT(life_ == nullptr);
  context_.trace(name_, "process", "starts");
  life_ = std::make_unique<Life>(*this, context_.fresh_seed());
  endpoint_ = std::make_shared<Endpoint>(Endpoint{machine_, false, this});
  Life& life = *life_;
  life.base.spawn(life.registry.run(life.base.token()));
  life.base.spawn(life.collector.run(life.base.token()));
  life.base.spawn(life.namespaces.run(life.base.token()));
  life.base.spawn(registry::expire_events(life.registry, {}, life.base.token()));
  life.group.spawn(serve(life, endpoint_));
  context_.changed.processes = true;
}

void Server::kill() {
  if (life_ == nullptr) return;
  context_.trace(name_, "process", "dies");
  endpoint_->open = false;
  for (Caller* caller : context_.callers) caller->lost(endpoint_);
  for (const auto& callback : std::exchange(deaths_, {})) callback();
  Life& life = *life_;
  life.caller.sever();
  life.process.die();
  life.group.cancel();
  life.base.cancel();
  life.process.unwind([&life] { return life.group.running() == 0 && life.base.running() == 0; });
  life_.reset();
  context_.changed.processes = true;
}

void Server::pause() {
  if (life_ == nullptr) return;
  context_.trace(name_, "process", "is paused");
  life_->process.pause();
}

void Server::resume() {
  if (life_ == nullptr || !life_->process.is_paused()) return;
  context_.trace(name_, "process", "goes on");
  life_->process.resume();
}

}  // namespace moor::sim
