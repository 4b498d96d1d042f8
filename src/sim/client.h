// A workload on a node: opens the device of a volume, writes numbered values, reads them back and flushes,
// and holds every answer against what it may be (history.h). It ends with its machine; its device may be
// taken from it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "sim/machine.h"

namespace moor::sim {

class Client : public std::enable_shared_from_this<Client> {
 public:
  using Failed = std::function<void(std::string rule, std::string message)>;
  // `may_open`: its ticket is satisfied. Nobody opens a device before that.
  Client(Machine& machine, VolumeHistory& history, std::uint64_t number, std::function<bool()> may_open,
         Failed failed);

  void open();
  // From now on it only reads, and most of all what somebody else is just writing: two readers, or one that
  // asks twice, must not see a value come and go.
  void only_read() { reads_only_ = true; }
  // Something is about to happen to the volume: as many requests as it can, for a moment.
  void hurry();
  // Closes the device when nothing is under way, or gives up waiting: a workload that is told to stop.
  void close();
  // Asks for nothing more; `rested` when everything is answered and flushed, as a hypervisor does before it
  // lets a guest go on elsewhere.
  void rest(std::function<void()> rested);
  void go_on() { resting_ = false; }
  // The machine has lost its power.
  void die();
  // Reads every slot, then answers.
  void read_all(std::function<void()> done);
  bool is_open() const { return device_ != nullptr; }
  bool is_over() const { return over_; }
  Machine& machine() { return machine_; }
  const std::string& volume() const { return history_.volume; }

 private:
  // Steadily; hammering on a few sectors and then resting; or now and then, with rests in which everything
  // cools down.
  enum class Mood : std::uint8_t { steady, bursts, rare };

  void look();
  void turn();
  Duration pause_before_turn();
  std::size_t choose_slot();
  bool is_written() const;
  void schedule_turn();
  void wait_for_rest(std::function<void()> rested, bool flushed);
  void submit(ClientOp op, std::size_t slot, std::size_t count);
  void answered(ClientOp op, std::size_t slot, std::size_t count, std::uint64_t uid, std::uint64_t first,
                std::uint64_t submitted, std::vector<SlotHistory::Entries> before,
                const block::bridge::Answer& answer, std::uint64_t epoch);
  void judge_read(std::size_t slot, std::uint64_t value, const SlotHistory::Entries& before,
                  std::uint64_t submitted, std::uint64_t epoch);
  void release();
  Context& context() { return machine_.context(); }

  Machine& machine_;
  VolumeHistory& history_;
  std::uint64_t number_;
  std::function<bool()> may_open_;
  Failed failed_;
  std::shared_ptr<DeviceProcess> device_;
  std::string opened_as_;  // the export id of the life that it knows
  std::size_t under_way_ = 0;
  Mood mood_ = Mood::steady;
  std::uint32_t burst_ = 0;   // requests that are left of it
  std::size_t hot_slot_ = 0;  // where it hits
  std::uint32_t hurry_ = 0;   // requests without a pause between them
  bool reads_only_ = false;
  bool closing_ = false;
  bool resting_ = false;
  bool over_ = false;
  std::size_t next_read_ = 0;
  std::function<void()> all_read_;
};

}  // namespace moor::sim
