#include "cmd/moord/dev_ready.h"

#include "base/completion.h"
#include "base/task_group.h"
#include "cli/kubeconfig.h"
#include "model/codec.h"
#include "model/coordination/lease.h"
#include "model/longhorn/node.h"
#include "model/longhorn/setting.h"
#include "registry/client/informer.h"
#include "registry/client/remote_registry.h"

namespace moor::cmd {
namespace {

// Where agents keep their heartbeats.
constexpr const char* kLeaseNamespace = "mooring-node-lease";

template <class T>
registry::ResourceName all_of(std::string space) {
  return {&kind_info(static_cast<const T*>(nullptr)), std::move(space), "", ""};
}

class NodeWatch {
 public:
  NodeWatch(Loop& loop, registry::Registry& registry, NodesWanted wanted)
      : loop_(loop),
        wanted_(std::move(wanted)),
        since_(loop.clock().wall()),
        nodes_(loop, registry,
               all_of<model::longhorn::Node>(std::string(model::longhorn::kDefaultNamespace))),
        leases_(loop, registry, all_of<model::coordination::Lease>(kLeaseNamespace)),
        done_(loop) {
    for (registry::Informer* informer : {&nodes_, &leases_})
      informer->listen([this](const registry::Informer::Event&) { look(); });
  }

  Task<Result<void>> run(CancelToken token) {
    TaskGroup group(loop_, token);
    group.spawn(nodes_.run(group.token()));
    group.spawn(leases_.run(group.token()));
    const Completion<bool> done = done_;
    {
      const CancelCallback on_cancel(token, [done] { done.set(false); });
      (void)co_await done;
    }
    group.cancel();
    (void)co_await group.join();  // they end by our cancellation
    co_return token.check();
  }

 private:
  bool is_ready(const std::string& name) const {
    const auto object = nodes_.find(model::longhorn::kDefaultNamespace, name);
    const auto heartbeat = leases_.find(kLeaseNamespace, name);
    if (object == nullptr || heartbeat == nullptr) return false;
    const auto node = model::decode<model::longhorn::Node>(*object);
    const auto lease = model::decode<model::coordination::Lease>(*heartbeat);
    return node && lease && lease->spec.renew_time &&
           lease->spec.renew_time->at >= model::Time(since_.since_epoch) &&
           model::is_condition_true(node->status.conditions, model::longhorn::kNodeReady);
  }

  void look() {
    for (auto name = wanted_.names.begin(); name != wanted_.names.end();) {
      if (!is_ready(*name)) {
        ++name;
        continue;
      }
      wanted_.on_ready(*name);
      name = wanted_.names.erase(name);
    }
    if (wanted_.names.empty()) done_.set(true);
  }

  Loop& loop_;
  NodesWanted wanted_;
  WallTime since_;
  registry::Informer nodes_;
  registry::Informer leases_;
  Completion<bool> done_;
};

Result<std::unique_ptr<registry::RemoteRegistry>> connect(Loop& loop,
                                                          const std::filesystem::path& kubeconfig) {
  TRY(const cli::ClusterAccess access, cli::load_kubeconfig(kubeconfig));
  registry::RemoteOptions options;
  options.client = access.client;
  options.user_agent = "moord-dev";
  return registry::RemoteRegistry::make(loop, std::move(options));
}

}  // namespace

Task<Result<void>> ensure_dev_settings(Loop& loop, std::filesystem::path kubeconfig) {
  CO_TRY(const auto remote, connect(loop, kubeconfig));
  registry::ResourceName where =
      all_of<model::longhorn::Setting>(std::string(model::longhorn::kDefaultNamespace));
  Json setting = Json::object(
      {{"metadata", Json::object({{"name", "storage-minimal-available-percentage"}})}, {"value", "1"}});
  registry::WriteOptions options;
  options.field_manager = "moord-dev";
  auto made = co_await remote->create(std::move(where), std::move(setting), std::move(options));
  if (!made && !made.is(Errc::already_exists)) co_return made.error().error;
  co_return Result<void>();
}

Task<Result<void>> wait_for_nodes(Loop& loop, NodesWanted wanted, CancelToken token) {
  CO_TRY(const auto remote, connect(loop, wanted.kubeconfig));
  NodeWatch watch(loop, *remote, std::move(wanted));
  co_return co_await watch.run(token);
}

}  // namespace moor::cmd
