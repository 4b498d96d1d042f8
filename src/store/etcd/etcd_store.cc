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

// The ranges that open looks at: the marker, what lies before and behind the objects, the first object.
enum Looked : std::size_t { kMarker, kBefore, kBehind, kObjects, kLooked };

std::vector<etcd::RangeCall> surroundings(const etcd::Layout& layout) {
  std::vector<etcd::RangeCall> ranges(kLooked);
  ranges[kMarker].key = layout.marker();
  ranges[kBefore].key = layout.root();
  ranges[kBefore].range_end = layout.data("");
  ranges[kBehind].key = etcd::range_end_of(layout.data(""));
  ranges[kBehind].range_end = etcd::range_end_of(layout.root());
  ranges[kObjects].key = layout.data("");
  ranges[kObjects].range_end = ranges[kBehind].key;
  for (const Looked range : {kBefore, kBehind, kObjects}) {
    ranges[range].keys_only = true;
    ranges[range].limit = 3;  // our two own keys and a foreign one, which is enough to refuse
  }
  return ranges;
}

// Nothing but objects and our two own keys may lie below the root.
Result<void> check_surroundings(const etcd::Layout& layout, const std::vector<etcd::RangeAnswer>& found) {
  for (const Looked range : {kBefore, kBehind}) {
    for (const etcd::Kv& kv : found[range].kvs) {
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
    auto found = co_await etcd::read_call(core, surroundings(layout), 0, attempts.remaining());
    if (!found) co_return std::move(found.error().error);
    CO_TRY_VOID(check_surroundings(layout, found->ranges));
    if (!found->ranges[kMarker].kvs.empty()) {
      const etcd::Kv& marker = found->ranges[kMarker].kvs.front();
      core->created = marker.create_revision;
      co_return etcd::check_marker(marker.key, marker.value);
    }
    if (!found->ranges[kObjects].kvs.empty())
      co_return etcd::foreign_error(found->ranges[kObjects].kvs.front().key);
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
