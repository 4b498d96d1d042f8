#include "store/memory/memory_store.h"

#include "base/assert.h"

namespace moor::store {
namespace {

// Safe at once, because nothing is ever safe.
class NullJournal final : public Journal {
 public:
  explicit NullJournal(Executor& executor) : executor_(executor) {}
  void append(JournalBatch, Done done) override {
    executor_.post([done = std::move(done)] { done({}); });
  }
  std::uint64_t bytes() const override { return 0; }

 private:
  Executor& executor_;
};

}  // namespace

std::unique_ptr<Store> make_memory_store(Executor& executor, JournaledOptions options) {
  auto store = JournaledStore::open(executor, std::make_unique<NullJournal>(executor), {}, options);
  MOOR_ASSERT(store.ok(), "an empty journal always loads");
  return std::move(*store);
}

}  // namespace moor::store
