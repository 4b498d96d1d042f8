#include "store/etcd/etcd_store.h"

#include <fmt/format.h>

#include "store/etcd/core.h"

namespace moor::store {
namespace {
using etcd::Core;
using etcd::CorePtr;

class EtcdStore final : public Store {
 public:
  explicit EtcdStore(CorePtr core) : core_(std::move(core)) {}
  ~EtcdStore() override { core_->close(); }

  Task<Result<Read>> get(std::string key) override { return etcd::get(core_, std::move(key)); }
  Task<Result<ListPage>> list(ListRequest request) override { return etcd::list(core_, std::move(request)); }
  Task<Result<Committed>> commit(Transaction transaction) override {
    return etcd::commit(core_, std::move(transaction));
  }
  Task<Result<std::unique_ptr<WatchStream>>> watch(std::string prefix, Revision after) override {
    return etcd::watch(core_, std::move(prefix), after);
  }
  Task<Result<Revision>> compact(Revision revision) override { return etcd::compact(core_, revision); }
  Task<Result<LeaseId>> grant_lease(Duration time_to_live) override {
    return etcd::grant_lease(core_, time_to_live);
  }
  Task<Result<void>> keep_alive(LeaseId lease) override { return etcd::keep_alive(core_, lease); }
  Task<Result<void>> revoke_lease(LeaseId lease) override { return etcd::revoke_lease(core_, lease); }
  Task<Result<StoreStatus>> status() override { return etcd::status(core_); }
  Result<void> ready() const override { return core_->ready; }

 private:
  CorePtr core_;
};

// Everything below the root that is neither an object nor one of our two own keys. At most one key of each
// gap is looked at: one is enough to refuse.
Result<void> check_surroundings(const etcd::Layout& layout, const std::vector<etcd::RangeAnswer>& gaps) {
  for (const etcd::RangeAnswer& gap : gaps) {
    for (const etcd::Kv& kv : gap.kvs) {
      if (kv.key != layout.marker() && kv.key != layout.last_transaction())
        return etcd::foreign_error(kv.key);
    }
  }
  return {};
}

// Makes the marker if there is nothing at all below the root. Safe to repeat and against a second server
// doing the same: whoever comes second finds the marker.
Task<Result<void>> find_or_make_marker(CorePtr core, Duration timeout) {
  const etcd::Layout& layout = core->layout;
  etcd::Attempts attempts(core, timeout);
  while (true) {
    std::vector<etcd::RangeCall> ranges(4);
    ranges[0].key = layout.marker();
    ranges[1].key = layout.root();
    ranges[1].range_end = layout.data("");
    ranges[2].key = etcd::range_end_of(layout.data(""));
    ranges[2].range_end = etcd::range_end_of(layout.root());
    ranges[3].key = layout.data("");
    ranges[3].range_end = ranges[2].key;
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      ranges[i].keys_only = true;
      ranges[i].limit = 3;
    }
    auto found = co_await etcd::read_call(core, std::move(ranges), 0, attempts.remaining());
    if (!found) co_return std::move(found.error().error);
    CO_TRY_VOID(check_surroundings(layout, found->ranges));
    if (!found->ranges[0].kvs.empty()) {
      const etcd::Kv& marker = found->ranges[0].kvs.front();
      core->created = marker.create_revision;
      co_return etcd::check_marker(marker.key, marker.value);
    }
    if (!found->ranges[3].kvs.empty()) co_return etcd::foreign_error(found->ranges[3].kvs.front().key);
    etcd::CommitCall create;
    create.conditions.push_back({etcd::Condition::Kind::mod_equals, layout.marker(), 0, ""});
    create.changes.push_back({layout.marker(), etcd::encode_marker(), 0});
    auto made = co_await core->link->commit(create, attempts.share());
    if (!made) {
      const bool again = co_await attempts.pause_if(made.error().retry);
      if (!again) co_return std::move(made.error().error);
    }
  }
}
}  // namespace

Task<Result<std::unique_ptr<Store>>> open_etcd_store(Executor& executor, EtcdOptions options) {
  CO_TRY(etcd::Layout layout, etcd::Layout::make(options.root));
  CO_TRY(auto link, etcd::Link::make(executor, options));
  const Duration timeout = options.open_timeout;
  const auto core = std::make_shared<Core>(executor, std::move(options), std::move(layout), std::move(link));
  auto ready = co_await find_or_make_marker(core, timeout);
  if (!ready) {
    core->close();
    co_return std::move(ready.error())
        .with_context("open the store in etcd at '" + core->layout.root() + "'");
  }
  core->watch_health();
  co_return std::make_unique<EtcdStore>(core);
}

}  // namespace moor::store
