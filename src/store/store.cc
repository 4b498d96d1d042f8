#include "store/store.h"

#include <fmt/format.h>

#include <set>

namespace moor::store {
namespace {
Task<Result<Revision>> commit_one(Store* store, Transaction transaction) {
  CO_TRY(const Committed committed, co_await store->commit(std::move(transaction)));
  co_return committed.last();
}

Transaction single(std::optional<Compare> compare, Write write) {
  Transaction transaction;
  if (compare) transaction.compares.push_back(std::move(*compare));
  transaction.writes.push_back(std::move(write));
  return transaction;
}
}  // namespace

Task<Result<Revision>> Store::create(std::string key, std::string bytes) {
  return commit_one(this, single(Compare::absent(key), Write::put(key, std::move(bytes))));
}

Task<Result<Revision>> Store::update(std::string key, std::string bytes, Revision expected) {
  return commit_one(this, single(Compare::at(key, expected), Write::put(key, std::move(bytes))));
}

Task<Result<Revision>> Store::remove(std::string key, Revision expected) {
  return commit_one(this, single(Compare::at(key, expected), Write::remove(key)));
}

Task<Result<Revision>> Store::put(std::string key, std::string bytes) {
  return commit_one(this, single(std::nullopt, Write::put(std::move(key), std::move(bytes))));
}

Result<void> validate_key(std::string_view key) {
  if (key.empty()) return make_error(Errc::invalid, "a key must not be empty");
  if (key.size() > kMaxKeyBytes)
    return make_error(Errc::invalid,
                      fmt::format("a key has at most {} bytes, this one {}", kMaxKeyBytes, key.size()));
  for (const char c : key) {
    // Control characters would break exports, logs and the reserved names of the stores.
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return make_error(Errc::invalid, "a key must not contain control characters");
  }
  return {};
}

Result<void> validate(const Transaction& transaction) {
  if (transaction.writes.empty()) return make_error(Errc::invalid, "a transaction needs at least one write");
  if (transaction.writes.size() > kMaxWrites || transaction.compares.size() > kMaxCompares)
    return make_error(
        Errc::exhausted,
        fmt::format("a transaction has at most {} writes and {} compares, this one {} and {}", kMaxWrites,
                    kMaxCompares, transaction.writes.size(), transaction.compares.size()));
  std::size_t total = 0;
  std::set<std::string_view> keys;
  for (const Write& write : transaction.writes) {
    TRY_VOID(validate_key(write.key));
    if (!keys.insert(write.key).second)
      return make_error(Errc::invalid,
                        fmt::format("key '{}' is written twice in one transaction", write.key));
    const std::size_t size = write.value == nullptr ? 0 : write.value->size();
    if (size > kMaxValueBytes)
      return make_error(Errc::exhausted, fmt::format("'{}' has {} bytes, an object has at most {}", write.key,
                                                     size, kMaxValueBytes));
    total += size + write.key.size();
  }
  for (const Compare& compare : transaction.compares) {
    TRY_VOID(validate_key(compare.key));
    total += compare.key.size();
  }
  if (total > kMaxTransactionBytes)
    return make_error(Errc::exhausted, fmt::format("a transaction has at most {} bytes, this one {}",
                                                   kMaxTransactionBytes, total));
  return {};
}

bool holds(const Compare& compare, Revision found) {
  switch (compare.kind) {
    case Compare::Kind::absent: return found == 0;
    case Compare::Kind::exists: return found != 0;
    case Compare::Kind::at: return found != 0 && found == compare.revision;
  }
  return false;
}

Error compare_error(const Compare& compare, Revision found) {
  if (compare.kind == Compare::Kind::absent)
    return make_error(Errc::already_exists, fmt::format("'{}' exists (revision {})", compare.key, found));
  if (found == 0) return make_error(Errc::not_found, fmt::format("'{}' does not exist", compare.key));
  return make_error(Errc::conflict, fmt::format("'{}' is at revision {}, not {}: read it again", compare.key,
                                                found, compare.revision));
}

Error compacted_error(Revision asked, Revision compacted) {
  return make_error(Errc::expired, fmt::format("revision {} is compacted, the oldest kept is {}: list again",
                                               asked, compacted));
}

Error future_error(Revision asked, Revision newest) {
  return make_error(Errc::unavailable,
                    fmt::format("revision {} is not there yet, the newest is {}", asked, newest));
}

}  // namespace moor::store
