// The program that gets killed: many clients write to one embedded store and report each acknowledgement on
// stdout before they do anything else; a watcher reports each event. It runs until it is killed or the store
// fails.
//
//   store_writer DIRECTORY SEED WATCH_AFTER
//
//   open REVISION              the store is open
//   ack CLIENT COUNT REVISION  the client's COUNTth transaction is safe
//   moved REVISION             a transfer between two accounts is safe
//   event REVISION KEY VALUE   seen by the watcher (VALUE up to the first colon)
//   failed TEXT                the store refused; the program ends
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string>

#include "base/loop.h"
#include "base/random.h"
#include "base/task_group.h"
#include "scene.h"
#include "store/embedded/embedded_store.h"

namespace moor::store {
namespace {

// One write(2) of less than PIPE_BUF: a line arrives whole or not at all, and what was written is with the
// reader whatever happens to us next.
void report(const std::string& line) {
  if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(3);
}

Task<Result<int>> read_number(Store* store, std::string key) {
  CO_TRY(const Read read, co_await store->get(std::move(key)));
  co_return read.entry ? number_of(*read.entry->value) : 0;
}

std::string padded(Random* random, int number) {
  return fmt::format("{}:{}", number, std::string(random->below(1500), 'p'));
}

Task<Result<void>> count_up(Store* store, Random* random, int client) {
  CO_TRY(int count, co_await read_number(store, left_key(client)));
  while (true) {
    ++count;
    Transaction transaction;
    transaction.writes.push_back(Write::put(left_key(client), padded(random, count)));
    transaction.writes.push_back(Write::put(right_key(client), padded(random, count)));
    // A trail that is removed again, so that compaction has something to forget.
    transaction.writes.push_back(Write::put(trail_key(client, count), std::to_string(count)));
    if (count > kTrail) transaction.writes.push_back(Write::remove(trail_key(client, count - kTrail)));
    CO_TRY(const Committed committed, co_await store->commit(std::move(transaction)));
    report(fmt::format("ack {} {} {}\n", client, count, committed.last()));
  }
}

Task<Result<void>> move_money(Store* store, Random* random) {
  while (true) {
    const auto from = static_cast<int>(random->below(kAccounts));
    const int to = (from + 1 + static_cast<int>(random->below(kAccounts - 1))) % kAccounts;
    CO_TRY(const Read source, co_await store->get(account_key(from)));
    CO_TRY(const Read target, co_await store->get(account_key(to)));
    const int amount = 1 + static_cast<int>(random->below(10));
    Transaction transaction;
    transaction.compares = {Compare::at(account_key(from), source.entry->revision),
                            Compare::at(account_key(to), target.entry->revision)};
    transaction.writes = {
        Write::put(account_key(from), padded(random, number_of(*source.entry->value) - amount)),
        Write::put(account_key(to), padded(random, number_of(*target.entry->value) + amount))};
    const auto committed = co_await store->commit(std::move(transaction));
    if (committed) report(fmt::format("moved {}\n", committed->last()));
    if (!committed && !committed.is(Errc::conflict)) co_return committed.error();
  }
}

Task<Result<void>> watch_all(Store* store, Revision after) {
  CO_TRY(const auto stream, co_await store->watch("", after));
  while (true) {
    CO_TRY(const WatchBatch batch, co_await stream->next());
    for (const Event& event : batch.events) {
      const std::string value =
          event.kind == Event::Kind::remove ? "-" : std::to_string(number_of(*event.entry.value));
      report(fmt::format("event {} {} {}\n", event.entry.revision, event.entry.key, value));
    }
  }
}

Task<Result<void>> open_accounts(Store* store) {
  Transaction transaction;
  for (int account = 0; account < kAccounts; ++account) {
    transaction.compares.push_back(Compare::absent(account_key(account)));
    transaction.writes.push_back(Write::put(account_key(account), std::to_string(kMoney / kAccounts)));
  }
  const auto committed = co_await store->commit(std::move(transaction));
  if (!committed && !committed.is(Errc::already_exists)) co_return committed.error();
  co_return Result<void>();
}

Result<void> run(const std::string& directory, std::uint64_t seed, Revision watch_after) {
  Loop loop;
  EmbeddedOptions options;
  // Much copying of the log and much forgetting, to be killed in the middle of.
  options.checkpoint = {.start = 150, .finish = 30, .rounds = 3, .limit = 2'000};
  options.journaled.history_records = 4'000;
  TRY(const auto store, open_embedded_store(loop, directory, options));
  TRY(const StoreStatus status, block_on(loop, store->status()));
  report(fmt::format("open {}\n", status.revision));
  TRY_VOID(block_on(loop, open_accounts(store.get())));
  SeededRandom random(seed);
  TaskGroup group(loop);
  group.spawn(watch_all(store.get(), watch_after));
  for (int client = 0; client < kClients; ++client) group.spawn(count_up(store.get(), &random, client));
  for (int i = 0; i < 3; ++i) group.spawn(move_money(store.get(), &random));
  // The watcher waits for ever when all writers have failed: the first failure ends the program.
  while (group.running() == static_cast<std::size_t>(kClients) + 4) loop.run_one();
  report("failed the store refused a write\n");
  _exit(1);
}

}  // namespace
}  // namespace moor::store

int main(int count, char** arguments) {
  if (count != 4) {
    fmt::print(stderr, "usage: store_writer DIRECTORY SEED WATCH_AFTER\n");
    return 2;
  }
  const auto done = moor::store::run(arguments[1], std::strtoull(arguments[2], nullptr, 10),
                                     std::strtoull(arguments[3], nullptr, 10));
  if (!done) moor::store::report("failed " + done.error().message.substr(0, 2000) + "\n");
  return 1;
}
