// A replica in memory that obeys peer.h: floors, sessions, drain before a newer HELLO is answered,
// generations, served marks, the dirty-region log, snapshots, and a disk that forgets unflushed sectors when
// the power goes. For tests of the engine; the real replica has tests of its own.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "block/core/engine.h"

namespace moor::block::engine::test {

inline constexpr std::uint64_t kSector = 512;
using Rng = std::mt19937_64;
using Image = std::vector<std::uint64_t>;  // one number per sector

struct MemberDisk {
  Floor floor;
  Generation generation = 0;
  Epoch wrote = 0;
  bool rebuilding = false;
  std::set<std::uint64_t> dirty;
  std::vector<Layer> chain;
  std::map<std::string, Image> layers;  // by id
  std::string head_id;
  std::string purging;  // snapshot being merged, and the identity that its child gets
  std::string purge_id;
};

class FakeMember {
 public:
  FakeMember(std::string name, std::uint64_t size, BufferPool& pool)
      : name_(std::move(name)),
        size_(size),
        pool_(&pool),
        current_(size / kSector),
        stable_(size / kSector) {}

  const std::string& name() const { return name_; }
  const MemberDisk& disk() const { return disk_; }
  const Image& current() const { return current_; }
  const Image& stable() const { return stable_; }
  bool has_unflushed() const { return !pending_.empty(); }
  bool has_applied(std::uint64_t value) const { return applied_.contains(value); }
  Epoch served() const { return served_; }
  bool running = true;
  std::function<void(const std::string&)> violation;
  // Says whether this write shall fail, and whether its bytes arrive all the same.
  std::function<std::pair<bool, bool>(std::uint64_t value)> write_fault;

  PeerRefusal judge(const Hello& hello) const {
    const Floor& floor = disk_.floor;
    if (hello.epoch < floor.epoch) return PeerRefusal::old_epoch;
    if (hello.epoch > floor.epoch) return PeerRefusal::none;
    if (hello.engine != floor.engine) return PeerRefusal::other_engine;
    return hello.session <= floor.session ? PeerRefusal::old_session : PeerRefusal::none;
  }
  HelloAnswer accept(const Hello& hello) {
    disk_.floor = {hello.epoch, hello.engine, hello.session};
    return answer();
  }
  HelloAnswer answer() const {
    HelloAnswer answer;
    answer.size = size_;
    answer.generation = disk_.generation;
    answer.served = served_;
    answer.wrote = disk_.wrote;
    answer.rebuilding = disk_.rebuilding;
    answer.dirty.assign(disk_.dirty.begin(), disk_.dirty.end());
    answer.chain = disk_.chain;
    answer.head_id = disk_.head_id;
    return answer;
  }

  // The process ends; the operating system keeps what it was given.
  void crash() {
    running = false;
    served_ = 0;
  }
  // Each unflushed sector keeps the flushed value or any of those written since.
  void power_loss(Rng& rng) {
    crash();
    for (const auto& [sector, values] : pending_) {
      const std::size_t pick = rng() % (values.size() + 1);
      if (pick > 0) stable_[sector] = values[pick - 1];
    }
    pending_.clear();
    current_ = stable_;
  }
  void background() {
    if (!disk_.purging.empty()) finish_purge();
  }

  PeerReply process(const PeerRequest& request, const Slice& payload, Epoch epoch, Slice& data) {
    PeerReply reply;
    reply.id = request.id;
    switch (request.op) {
      case PeerOp::read: data = read(request); break;
      case PeerOp::block_status: reply.extents.push_back({request.length, false, false}); break;
      case PeerOp::write:
      case PeerOp::trim:
      case PeerOp::write_zeroes: reply.error = change(request, payload, epoch); break;
      case PeerOp::flush: flush(); break;
      case PeerOp::store_generation: raise_generation(request.argument); break;
      case PeerOp::store_wrote: disk_.wrote = std::max<Epoch>(disk_.wrote, request.argument); break;
      case PeerOp::mark_served: served_ = request.argument; break;
      case PeerOp::clear_dirty:
        for (const std::uint64_t region : request.regions) disk_.dirty.erase(region);
        break;
      case PeerOp::set_rebuilding: disk_.rebuilding = request.argument != 0; break;
      case PeerOp::chain: reply.state = answer(); break;
      case PeerOp::snapshot_create:
      case PeerOp::snapshot_mark_removed:
      case PeerOp::snapshot_purge:
      case PeerOp::snapshot_revert: reply.error = chain_change(request.op, request.snapshot); break;
      case PeerOp::unsettled:
      case PeerOp::expand: reply.error = EINVAL; break;
      case PeerOp::disconnect: break;
    }
    return reply;
  }

 private:
  Slice read(const PeerRequest& request) const {
    Slice data = pool_->allocate(request.length);
    std::fill(data.span().begin(), data.span().end(), std::byte{0});
    for (std::uint64_t at = 0; at < request.length; at += kSector) {
      std::memcpy(data.data() + at, &current_[(request.offset + at) / kSector], sizeof(std::uint64_t));
    }
    return data;
  }

  std::uint32_t change(const PeerRequest& request, const Slice& payload, Epoch epoch) {
    for (std::uint64_t r = request.offset / kRegionSize; r * kRegionSize < request.offset + request.length;
         ++r) {
      disk_.dirty.insert(r);
    }
    if (!request.copy) disk_.wrote = epoch;
    std::uint64_t first = 0;
    if (request.op == PeerOp::write) std::memcpy(&first, payload.data(), sizeof first);
    const auto [fails, lands] = write_fault ? write_fault(first) : std::pair(false, true);
    if (lands) {
      for (std::uint64_t at = 0; at < request.length; at += kSector) {
        std::uint64_t value = 0;
        if (request.op == PeerOp::write) std::memcpy(&value, payload.data() + at, sizeof value);
        const std::uint64_t sector = (request.offset + at) / kSector;
        current_[sector] = value;
        pending_[sector].push_back(value);
        if (request.fua && !fails) {
          stable_[sector] = value;
          pending_.erase(sector);
        }
        if (!fails) applied_.insert(value);
      }
    }
    return fails ? ENOSPC : 0;
  }

  void flush() {
    for (const auto& [sector, values] : pending_) stable_[sector] = current_[sector];
    pending_.clear();
  }
  void raise_generation(Generation generation) { disk_.generation = std::max(disk_.generation, generation); }

  std::vector<Layer>::iterator layer(const std::string& snapshot) {
    return std::find_if(disk_.chain.begin(), disk_.chain.end(),
                        [&](const Layer& l) { return l.snapshot == snapshot; });
  }

  std::uint32_t chain_change(PeerOp op, const SnapshotCommand& command) {
    const auto found = layer(command.name);
    if ((op == PeerOp::snapshot_create) != (found == disk_.chain.end()))
      return op == PeerOp::snapshot_create ? EEXIST : ENOENT;
    if (op == PeerOp::snapshot_create) {
      if (has_unflushed()) violation(name_ + " is told to make a snapshot of unflushed data");
      Layer made;
      made.id = command.layer_id;
      made.snapshot = command.name;
      disk_.layers[made.id] = current_;
      disk_.chain.push_back(made);
      disk_.head_id = command.head_id;
    } else if (op == PeerOp::snapshot_mark_removed) {
      found->removed = true;
    } else if (op == PeerOp::snapshot_purge) {
      if (!found->removed) return EINVAL;
      disk_.purging = command.name;
      disk_.purge_id = command.layer_id;
    } else {
      current_ = stable_ = disk_.layers[found->id];
      pending_.clear();
      disk_.head_id = command.head_id;
    }
    raise_generation(command.generation);
    return 0;
  }

  void finish_purge() {
    const auto found = layer(disk_.purging);
    if (found != disk_.chain.end()) {
      const auto child = found + 1;
      if (child == disk_.chain.end()) {
        disk_.head_id = disk_.purge_id;
      } else {
        auto node = disk_.layers.extract(child->id);
        node.key() = disk_.purge_id;
        disk_.layers.insert(std::move(node));
        child->id = disk_.purge_id;
      }
      disk_.layers.erase(found->id);
      disk_.chain.erase(found);
    }
    disk_.purging.clear();
  }

  std::string name_;
  std::uint64_t size_;
  BufferPool* pool_;
  MemberDisk disk_;
  Image current_;
  Image stable_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> pending_;  // sector → values since the last flush
  std::set<std::uint64_t> applied_;
  Epoch served_ = 0;
};

}  // namespace moor::block::engine::test
