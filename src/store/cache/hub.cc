#include "store/cache/hub.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/plant.h"

namespace moor::store {
namespace {
std::size_t weight(const Change& change) {
  // The before side is the after side of an older change, or freed with it: count each value once.
  return change.key().size() + (change.after == nullptr ? 0 : change.after->entry.value->size());
}
}  // namespace

bool CachedObject::has(const Term& term) const {
  return std::binary_search(terms.begin(), terms.end(), term);
}

Subscription::~Subscription() {
  close();
}

void Subscription::close() {
  if (hub_ == nullptr) return;
  last_ = delivered();
  hub_->remove(*this);
  hub_ = nullptr;
  wake();
}

void Subscription::wake() {
  if (waiting_) waiting_->set(true);
}

void Subscription::fail(Error error) {
  pending_.clear();
  failed_ = std::move(error);
  wake();
}

void Subscription::offer(const ChangePtr& change, std::size_t limit) {
  if (failed_) return;
  if (pending_.size() >= limit) {
    fail(make_error(Errc::expired,
                    fmt::format("the watcher is {} changes behind: list again", pending_.size())));
    return;
  }
  pending_.push_back(change);
  wake();
}

Revision Subscription::delivered() const {
  if (!pending_.empty()) return pending_.front()->revision - 1;
  return hub_ == nullptr ? last_ : hub_->revision();
}

Task<Result<std::vector<ChangePtr>>> Subscription::next(CancelToken token) {
  MOOR_ASSERT(!waiting_, "one next() at a time");
  while (true) {
    if (failed_) co_return *failed_;
    if (hub_ == nullptr) co_return make_error(Errc::cancelled, "the watch was closed");
    CO_TRY_VOID(token.check());
    if (!pending_.empty()) {
      std::vector<ChangePtr> changes(pending_.begin(), pending_.end());
      pending_.clear();
      co_return changes;
    }
    waiting_.emplace(hub_->executor_);
    const Completion<bool> wake = *waiting_;
    const CancelCallback on_cancel(token, [wake] { wake.set(false); });
    co_await wake;
    waiting_.reset();
  }
}

Hub::Hub(Executor& executor, HubOptions options) : executor_(executor), options_(options) {}

Hub::~Hub() {
  for (const auto& [number, subscription] : everybody()) subscription->close();
}

Hub::Watchers Hub::everybody() const {
  Watchers found;
  for (const auto& [prefix, bucket] : buckets_) {
    found.insert(bucket.all.begin(), bucket.all.end());
    for (const auto& [term, watchers] : bucket.by_term) found.insert(watchers.begin(), watchers.end());
  }
  return found;
}

void Hub::add(Subscription& subscription) {
  subscription.number_ = ++last_number_;
  Bucket& bucket = buckets_[subscription.interest_.prefix];
  const auto& term = subscription.interest_.term;
  (term ? bucket.by_term[*term] : bucket.all).emplace(subscription.number_, &subscription);
  ++watchers_;
}

void Hub::remove(Subscription& subscription) {
  const auto found = buckets_.find(subscription.interest_.prefix);
  MOOR_ASSERT(found != buckets_.end());
  Bucket& bucket = found->second;
  if (const auto& term = subscription.interest_.term) {
    const auto watchers = bucket.by_term.find(*term);
    watchers->second.erase(subscription.number_);
    if (watchers->second.empty()) bucket.by_term.erase(watchers);
  } else {
    bucket.all.erase(subscription.number_);
  }
  if (bucket.all.empty() && bucket.by_term.empty()) buckets_.erase(found);
  --watchers_;
}

bool Hub::concerns(const Interest& interest, const Change& change) {
  const std::string& key = change.key();
  const bool below =
      interest.prefix.empty() || key == interest.prefix ||
      (interest.prefix.back() == '/' && key.compare(0, interest.prefix.size(), interest.prefix) == 0);
  if (!below) return false;
  if (!interest.term) return true;
  return (change.before != nullptr && change.before->has(*interest.term)) ||
         (change.after != nullptr && change.after->has(*interest.term));
}

Result<std::unique_ptr<Subscription>> Hub::subscribe(Interest interest, Revision after) {
  if (after < ring_start_)
    return make_error(Errc::expired, fmt::format("revision {} is too old, the oldest kept is {}: list again",
                                                 after, ring_start_));
  std::unique_ptr<Subscription> subscription(new Subscription(*this, std::move(interest)));
  auto change = std::partition_point(ring_.begin(), ring_.end(), [after](const ChangePtr& c) {
    return c->revision <= after + (MOOR_PLANT("hub-resume-skips") ? 1 : 0);
  });
  // The backlog is bounded by the ring itself, not by the limit for watchers that fall behind.
  for (; change != ring_.end(); ++change) {
    if (concerns(subscription->interest_, **change)) subscription->pending_.push_back(*change);
  }
  add(*subscription);
  return subscription;
}

void Hub::offer_bucket(const Bucket& bucket, const ChangePtr& change) {
  // A watcher only wakes here, it never runs: the sets do not change under us.
  for (const auto& [number, subscription] : bucket.all) subscription->offer(change, options_.pending_limit);
  if (bucket.by_term.empty()) return;
  std::vector<Term> terms;
  if (change->before != nullptr) terms = change->before->terms;
  if (change->after != nullptr)
    terms.insert(terms.end(), change->after->terms.begin(), change->after->terms.end());
  std::sort(terms.begin(), terms.end());
  terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
  for (const Term& term : terms) {
    const auto found = bucket.by_term.find(term);
    if (found == bucket.by_term.end()) continue;
    for (const auto& [number, subscription] : found->second)
      subscription->offer(change, options_.pending_limit);
  }
}

void Hub::publish(ChangePtr change) {
  MOOR_ASSERT(change->revision > revision_, "change {} after {}", change->revision, revision_);
  revision_ = change->revision;
  const std::string& key = change->key();
  if (!buckets_.empty()) {
    std::string_view prefix;
    for (std::size_t end = 0; end != std::string::npos; end = key.find('/', end)) {
      if (end != 0) ++end;  // the '/' belongs to the prefix
      prefix = std::string_view(key).substr(0, end);
      if (const auto found = buckets_.find(prefix); found != buckets_.end())
        offer_bucket(found->second, change);
    }
    if (const auto found = buckets_.find(key); found != buckets_.end() && prefix != key)
      offer_bucket(found->second, change);
  }
  ring_bytes_ += weight(*change);
  ring_.push_back(std::move(change));
  while (ring_.size() > options_.ring_changes || (ring_bytes_ > options_.ring_bytes && ring_.size() > 1)) {
    ring_start_ = ring_.front()->revision;
    ring_bytes_ -= weight(*ring_.front());
    ring_.pop_front();
  }
}

void Hub::advance(Revision revision) {
  revision_ = std::max(revision_, revision);
}

void Hub::reset(Revision revision) {
  ring_.clear();
  ring_bytes_ = 0;
  ring_start_ = revision;
  revision_ = revision;
  if (MOOR_PLANT("hub-reset-not-told")) return;
  for (const auto& [number, subscription] : everybody())
    subscription->fail(make_error(Errc::expired, "the history before this watch is gone: list again"));
}

}  // namespace moor::store
