#include "store/journal.h"

#include <iterator>

namespace moor::store {
namespace {
template <class T>
void move_to_end(std::vector<T>& all, std::vector<T>&& more) {
  if (all.empty())
    all = std::move(more);
  else
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}
}  // namespace

void Gathered::add(JournalBatch more, Journal::Done done) {
  move_to_end(batch.records, std::move(more.records));
  move_to_end(batch.leases, std::move(more.leases));
  move_to_end(batch.forget, std::move(more.forget));
  if (more.compacted) batch.compacted = more.compacted;
  dones.push_back(std::move(done));
}

void Gathered::tell(const Result<void>& result) const {
  for (const Journal::Done& done : dones) done(result);
}

}  // namespace moor::store
