#include "sim/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace moor::sim {

using namespace std::chrono_literals;
namespace bridge = block::bridge;

namespace {
constexpr std::uint64_t kSector = 512;
constexpr std::size_t kMostUnderWay = 6;
}  // namespace

Client::Client(Machine& machine, VolumeHistory& history, std::uint64_t number, std::function<bool()> may_open,
               Failed failed)
    : machine_(machine),
      history_(history),
      number_(number),
      may_open_(std::move(may_open)),
      failed_(std::move(failed)) {
  if (!context().options.moods) return;
  const std::uint64_t dice = context().scheduler.random().below(4);
  mood_ = dice < 2 ? Mood::steady : dice == 2 ? Mood::bursts : Mood::rare;
}

void Client::open() {
  look();
}

void Client::look() {
  if (over_ || closing_) return;
  device_ = machine_.find_device("/dev/mooring/" + history_.volume);
  if (device_ != nullptr && device_->is_usable() && may_open_()) {
    opened_as_ = device_->core().remote().export_id;
    device_->hold(number_, fmt::format("pid {} (workload)", 1000 + number_));
    return schedule_turn();
  }
  device_.reset();
  context().scheduler.after(context().scheduler.between(300ms, 1s),
                            [self = shared_from_this()] { self->look(); });
}

void Client::schedule_turn() {
  context().scheduler.after(pause_before_turn(), [self = shared_from_this()] { self->turn(); });
}

Duration Client::pause_before_turn() {
  Scheduler& scheduler = context().scheduler;
  const auto pause = context().options.io_pause;
  if (hurry_ > 0) {
    --hurry_;
    return scheduler.between(20us, 3ms);
  }
  if (reads_only_ && is_written()) return scheduler.between(200us, 8ms);
  if (reads_only_) return scheduler.between(1ms, pause / 10);
  if (mood_ == Mood::steady || all_read_) return scheduler.between(pause / 10, pause * 2);
  if (burst_ > 0) {
    --burst_;
    return mood_ == Mood::bursts ? scheduler.between(20us, 3ms) : scheduler.between(pause / 10, pause * 2);
  }
  burst_ = 2 + static_cast<std::uint32_t>(scheduler.random().below(mood_ == Mood::bursts ? 60 : 6));
  hot_slot_ = static_cast<std::size_t>(scheduler.random().below(history_.slots.size()));
  return mood_ == Mood::bursts ? scheduler.between(1s, 20s) : scheduler.between(5s, 90s);
}

void Client::hurry() {
  if (context().options.moods) hurry_ = 150;
}

bool Client::is_written() const {
  return std::any_of(history_.slots.begin(), history_.slots.end(),
                     [](const SlotHistory& slot) { return slot.is_written(); });
}

std::size_t Client::choose_slot() {
  Random& random = context().scheduler.random();
  if (reads_only_)
    for (std::size_t i = 0; i < history_.slots.size(); ++i)
      if (history_.slots[i].is_written()) return i;
  if (hurry_ > 0) return static_cast<std::size_t>(random.below(history_.slots.size()));
  if (mood_ != Mood::bursts) return static_cast<std::size_t>(random.below(history_.slots.size()));
  return std::min<std::size_t>(hot_slot_ + random.below(2), history_.slots.size() - 1);
}

void Client::turn() {
  if (over_ || device_ == nullptr) return;
  if (!device_->is_usable()) {
    release();
    return look();
  }
  if (closing_) return;
  if (all_read_ && next_read_ < history_.slots.size()) {
    submit(ClientOp::read, next_read_++, 1);
    return context().scheduler.soon([self = shared_from_this()] { self->turn(); });
  }
  if (!resting_ && under_way_ < kMostUnderWay && device_->has_room()) {
    Random& random = context().scheduler.random();
    const std::uint64_t dice = random.below(100);
    std::size_t slot = choose_slot();
    std::size_t count = 1 + static_cast<std::size_t>(random.below(3));
    while (count > 1 &&
           (slot + count > history_.slots.size() ||
            history_.offsets[slot + count - 1] != history_.offsets[slot] + (count - 1) * kSector))
      --count;
    if (reads_only_) {
      submit(ClientOp::read, slot, 1);
    } else if (dice < 55) {
      submit(ClientOp::write, slot, count);
    } else if (dice < 90) {
      submit(ClientOp::read, slot, count);
    } else {
      submit(ClientOp::flush, 0, 0);
    }
  }
  schedule_turn();
}

void Client::submit(ClientOp op, std::size_t slot, std::size_t count) {
  const std::uint64_t now = context().scheduler.steps();
  const std::uint64_t uid = now << 8 | (number_ & 0xff);
  bridge::Request request;
  request.op = op == ClientOp::read    ? bridge::Op::read
               : op == ClientOp::write ? bridge::Op::write
                                       : bridge::Op::flush;
  if (op != ClientOp::flush) request.offset = history_.offsets[slot];
  request.length = count * kSector;
  std::vector<SlotHistory::Entries> before;
  const std::uint64_t first = uid << 4;
  if (op == ClientOp::write) {
    request.payload = device_->pool().allocate(static_cast<std::uint32_t>(request.length));
    std::fill(request.payload.span().begin(), request.payload.span().end(), std::byte{0});
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t value = first + i;
      std::memcpy(request.payload.data() + i * kSector, &value, sizeof value);
      history_.slots[slot + i].submit({uid, value, now, SlotHistory::kOpen, false, 0});
    }
  }
  if (op == ClientOp::read)
    for (std::size_t i = 0; i < count; ++i) before.push_back(history_.slots[slot + i].possible());
  ++under_way_;
  const auto device = device_;
  device->submit(std::move(request), [self = shared_from_this(), op, slot, count, uid, first, now, before](
                                         const bridge::Answer& answer, std::uint64_t epoch) {
    self->answered(op, slot, count, uid, first, now, before, answer, epoch);
  });
}

void Client::answered(ClientOp op, std::size_t slot, std::size_t count, std::uint64_t uid,
                      std::uint64_t first, std::uint64_t submitted, std::vector<SlotHistory::Entries> before,
                      const bridge::Answer& answer, std::uint64_t epoch) {
  --under_way_;
  Context& world = context();
  const std::uint64_t now = world.scheduler.steps();
  world.scheduler.mix(uid);
  world.changed.io = true;
  if (answer.error == 0 && epoch != 0 && epoch == history_.serving && opened_as_ != history_.export_id)
    failed_("DATA", fmt::format("volume {} has begun another life ({}), in which acknowledged writes may be "
                                "lost, and a workload on node {} that opened it as {} is not told",
                                history_.volume, history_.export_id, machine_.name(), opened_as_));
  if (answer.error != 0) {
    if (op == ClientOp::write)
      for (std::size_t i = 0; i < count; ++i) history_.slots[slot + i].orphan(uid, history_.serving);
  } else if (op == ClientOp::flush) {
    ++history_.acknowledged_flushes;
    ++world.counts.acknowledged;
    // A standby's own flush is none of what its source holds.
    if (epoch != 0)
      for (SlotHistory& one : history_.slots) one.flushed(submitted);
  } else if (op == ClientOp::write) {
    ++history_.acknowledged_writes;
    ++world.counts.acknowledged;
    for (std::size_t i = 0; i < count; ++i) {
      if (history_.slots[slot + i].acknowledge(uid, submitted, now)) continue;
      failed_("S1", fmt::format(
                        "the write of {} to sector {} of {} is acknowledged by epoch {} after it was seen to "
                        "be lost",
                        first + i, history_.offsets[slot + i] / kSector, history_.volume, epoch));
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t value = 0;
      std::memcpy(&value, answer.data.data() + i * kSector, sizeof value);
      judge_read(slot + i, value, before[i], submitted, epoch);
      if (i == 0) first = value;
    }
  }
  if (world.on_answer)
    world.on_answer({history_.volume, history_.uid, machine_.name(), number_, epoch, op, slot, uid, first,
                     submitted, answer.error, world.scheduler.now()});
  if (all_read_ && next_read_ >= history_.slots.size() && under_way_ == 0)
    std::exchange(all_read_, nullptr)();
}

void Client::judge_read(std::size_t slot, std::uint64_t value, const SlotHistory::Entries& before,
                        std::uint64_t submitted, std::uint64_t epoch) {
  SlotHistory& history = history_.slots[slot];
  // A fenced engine on a cut-off node may still answer old reads: documented, not wrong.
  if (epoch != history_.serving) return;
  ++history_.checked_reads;
  ++context().counts.reads_checked;
  if (!history.allows(value) && !SlotHistory::allows(before, value))
    return failed_("S1", fmt::format("sector {} of {} reads {} through epoch {}; what it may hold is{}",
                                     history_.offsets[slot] / kSector, history_.volume, value, epoch,
                                     history.describe()));
  history.seen(value, submitted);
}

void Client::release() {
  if (device_ != nullptr) device_->let_go(number_);
  device_.reset();
}

void Client::close() {
  if (std::exchange(closing_, true)) return;
  release();
  over_ = under_way_ == 0;
}

void Client::rest(std::function<void()> rested) {
  resting_ = true;
  wait_for_rest(std::move(rested), false);
}

void Client::wait_for_rest(std::function<void()> rested, bool flushed) {
  if (closing_ || !resting_) return;
  const bool usable = !over_ && device_ != nullptr && device_->is_usable();
  if (under_way_ == 0 && (flushed || !usable)) return rested();
  if (under_way_ == 0) {
    submit(ClientOp::flush, 0, 0);
    flushed = true;
  }
  context().scheduler.after(20ms, [self = shared_from_this(), rested = std::move(rested), flushed] {
    self->wait_for_rest(rested, flushed);
  });
}

void Client::die() {
  over_ = true;
  release();
}

void Client::read_all(std::function<void()> done) {
  next_read_ = 0;
  all_read_ = std::move(done);
}

}  // namespace moor::sim
