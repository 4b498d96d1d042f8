// Random sequences of operations against a model so naive that it can be checked by eye: a map per revision
// and a list of events.
#include <gmock/gmock.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <deque>

#include "base/random.h"
#include "store/contract/contract.h"

namespace moor::store {
namespace {

struct Model {
  struct Cell {
    std::string value;
    Revision revision;
  };
  using State = std::map<std::string, Cell>;
  std::map<Revision, State> states{{0, {}}};  // after each transaction, by its last revision
  std::vector<Event> events;
  Revision compacted = 0;

  const State& now() const { return states.rbegin()->second; }
  Revision revision() const { return states.rbegin()->first; }
  // The state that a reader at `at` sees: the last transaction that ended at or before it.
  const State& at(Revision at) const { return std::prev(states.upper_bound(at))->second; }

  Revision revision_of(const std::string& key) const {
    const auto found = now().find(key);
    return found == now().end() ? 0 : found->second.revision;
  }
  std::optional<Errc> refusal(const Transaction& transaction) const {
    for (const Compare& compare : transaction.compares) {
      const Revision found = revision_of(compare.key);
      if (compare.kind == Compare::Kind::absent && found != 0) return Errc::already_exists;
      if (compare.kind != Compare::Kind::absent && found == 0) return Errc::not_found;
      if (compare.kind == Compare::Kind::at && found != compare.revision) return Errc::conflict;
    }
    for (const Write& write : transaction.writes) {
      if (write.value == nullptr && revision_of(write.key) == 0) return Errc::not_found;
    }
    return std::nullopt;
  }
  void apply(const Transaction& transaction, const Committed& committed) {
    RC_ASSERT(committed.revisions.size() == transaction.writes.size());
    State next = now();
    Revision last = revision();
    for (std::size_t i = 0; i < transaction.writes.size(); ++i) {
      const Write& write = transaction.writes[i];
      const Revision revision = committed.revisions[i];
      RC_ASSERT(revision > last);
      last = revision;
      if (write.value == nullptr) {
        next.erase(write.key);
        events.push_back({Event::Kind::remove, {write.key, nullptr, revision, 0}});
      } else {
        next[write.key] = {*write.value, revision};
        events.push_back({Event::Kind::put, {write.key, write.value, revision, 0}});
      }
    }
    states[last] = std::move(next);
  }
};

// Drives one store and one model with the same operations.
class Driver {
 public:
  Driver(StoreUnderTest& under_test, Random& random) : under_test_(under_test), random_(random) {}

  void step() {
    switch (random_.below(12)) {
      case 0:
      case 1: check_list(); break;
      case 2: check_get(); break;
      case 3: check_watch(); break;
      case 4:
        if (random_.chance(1, 4)) compact();
        break;
      case 5:
        if (random_.chance(1, 8)) restart();
        break;
      default: commit();
    }
  }

  void check_everything() {
    check_page_by_page(model_.revision());
    check_events(model_.compacted, "");
  }

 private:
  template <class T>
  T wait(Task<T> task) {
    return block_on(under_test_.executor(), std::move(task));
  }
  Store& store() { return under_test_.store(); }
  std::string key() {
    return std::string(1, static_cast<char>('a' + random_.below(2))) + "/" + std::to_string(random_.below(5));
  }

  Transaction transaction() {
    Transaction result;
    std::map<std::string, bool> used;
    const auto writes = 1 + random_.below(4);
    for (std::uint64_t i = 0; i < writes; ++i) {
      const std::string name = key();
      if (!used.emplace(name, true).second) continue;
      const Revision known = model_.revision_of(name);
      if (random_.chance(2, 3)) {
        switch (random_.below(3)) {
          case 0: result.compares.push_back(Compare::absent(name)); break;
          case 1: result.compares.push_back(Compare::exists(name)); break;
          default: result.compares.push_back(Compare::at(name, random_.chance(3, 4) ? known : known + 1));
        }
      }
      if (random_.chance(1, 4)) {
        result.writes.push_back(Write::remove(name));
      } else {
        result.writes.push_back(Write::put(name, std::to_string(random_.below(1000))));
      }
    }
    return result;
  }

  void commit() {
    const Transaction wanted = transaction();
    const auto refusal = model_.refusal(wanted);
    const auto committed = wait(store().commit(wanted));
    if (refusal) {
      RC_ASSERT(!committed.ok());
      RC_ASSERT(committed.code() == *refusal);
    } else {
      RC_ASSERT(committed.ok());
      model_.apply(wanted, *committed);
    }
  }

  void check_get() {
    const std::string name = key();
    const auto read = wait(store().get(name));
    RC_ASSERT(read.ok());
    const auto found = model_.now().find(name);
    RC_ASSERT(read->entry.has_value() == (found != model_.now().end()));
    if (read->entry) {
      RC_ASSERT(*read->entry->value == found->second.value);
      RC_ASSERT(read->entry->revision == found->second.revision);
    }
  }

  // Past states may be asked for by the last revision of any transaction since the compaction.
  Revision some_revision() {
    std::vector<Revision> candidates;
    for (const auto& [revision, state] : model_.states) {
      if (revision >= model_.compacted && revision > 0) candidates.push_back(revision);
    }
    return candidates.empty() ? 0 : candidates[random_.below(candidates.size())];
  }

  void check_list() { check_page_by_page(some_revision()); }

  void check_page_by_page(Revision at) {
    const std::string prefix = random_.chance(1, 2) ? "" : "a/";
    const Model::State& state = at == 0 ? model_.now() : model_.at(at);
    ListRequest request{.prefix = prefix, .limit = random_.below(4), .revision = at};
    auto expected = state.lower_bound(prefix);
    bool more = true;
    while (more) {
      const auto page = wait(store().list(request));
      RC_ASSERT(page.ok());
      for (const Entry& entry : page->entries) {
        RC_ASSERT(expected != state.end());
        RC_ASSERT(entry.key == expected->first);
        RC_ASSERT(*entry.value == expected->second.value);
        RC_ASSERT(entry.revision == expected->second.revision);
        ++expected;
      }
      more = page->more;
      if (more) RC_ASSERT(page->entries.size() == request.limit);
      request.revision = page->revision;
      if (more) request.after = page->entries.back().key;
    }
    const bool at_end = expected == state.end() || expected->first.substr(0, prefix.size()) != prefix;
    RC_ASSERT(at_end);  // RC_ASSERT would evaluate both sides of an ||
  }

  void check_watch() { check_events(some_revision(), random_.chance(1, 2) ? "" : "b/"); }

  void check_events(Revision after, const std::string& prefix) {
    if (after < model_.compacted) return;
    std::vector<Event> expected;
    for (const Event& event : model_.events) {
      if (event.entry.revision > after && event.entry.key.substr(0, prefix.size()) == prefix)
        expected.push_back(event);
    }
    if (expected.empty()) return;  // a watch without events would wait for ever
    auto stream = wait(store().watch(prefix, after));
    RC_ASSERT(stream.ok());
    std::size_t seen = 0;
    while (seen < expected.size()) {
      const auto batch = wait((*stream)->next());
      RC_ASSERT(batch.ok());
      for (const Event& event : batch->events) {
        RC_ASSERT(seen < expected.size());
        RC_ASSERT(event.kind == expected[seen].kind);
        RC_ASSERT(event.entry.key == expected[seen].entry.key);
        RC_ASSERT(event.entry.revision == expected[seen].entry.revision);
        if (event.kind == Event::Kind::put) RC_ASSERT(*event.entry.value == *expected[seen].entry.value);
        ++seen;
      }
    }
  }

  void compact() {
    const Revision at = some_revision();
    if (at == 0) return;
    const auto compacted = wait(store().compact(at));
    RC_ASSERT(compacted.ok());
    model_.compacted = std::max(model_.compacted, at);
  }

  void restart() { under_test_.reopen(); }

  StoreUnderTest& under_test_;
  Random& random_;
  Model model_;
};

TEST_P(StoreModel, RandomSequencesAgreeWithTheNaiveModel) {
  // MOOR_MODEL_SEQUENCES scales the run; RC_PARAMS="seed=…" replays a failure that RapidCheck printed.
  const char* wanted = std::getenv("MOOR_MODEL_SEQUENCES");
  const int sequences = wanted == nullptr ? 1000 : std::atoi(wanted);
  const char* params = std::getenv("RC_PARAMS");
  const std::string scaled =
      std::string(params == nullptr ? "" : params) + " max_success=" + std::to_string(sequences);
  setenv("RC_PARAMS", scaled.c_str(), 1);
  const bool passed = rc::check("a store and its model agree", [this] {
    const auto seed = *rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>());
    const auto steps = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(1, 60));
    RC_TAG(steps / 10);
    SeededRandom random(seed);
    const auto under_test = GetParam()();
    Driver driver(*under_test, random);
    for (int i = 0; i < steps; ++i) driver.step();
    driver.check_everything();
  });
  EXPECT_TRUE(passed);
}

}  // namespace
}  // namespace moor::store
