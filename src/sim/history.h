// What clients of one volume asked for and were told. Every slot (one sector of the volume that clients use)
// has the values it can legally hold, given what was submitted, acknowledged, flushed and read. Knows nothing
// of replicas, epochs or nodes, and is deliberately simple.
//
// A value ends when it was answered, or when nothing that has it can bring it to the volume any more. One
// that ended before another was submitted is replaced by that one's acknowledgement, and by any read that
// returns something else.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace moor::sim {

class SlotHistory {
 public:
  static constexpr std::uint64_t kOpen = std::numeric_limits<std::uint64_t>::max();
  struct Entry {
    std::uint64_t uid = 0;      // of the request
    std::uint64_t content = 0;  // 0: zeros, as in the beginning
    std::uint64_t submitted = 0;
    std::uint64_t ended = kOpen;
    bool acknowledged = false;
    std::uint64_t orphan_of = 0;  // the client that had it is gone; the epoch that may still bring it
  };
  using Entries = std::vector<Entry>;

  SlotHistory();
  const Entries& possible() const { return possible_; }
  const Entries& durable() const { return durable_; }
  bool allows(std::uint64_t content) const { return allows(possible_, content); }
  static bool allows(const Entries& entries, std::uint64_t content);
  // Somebody waits for the answer to a write.
  bool is_written() const {
    return !possible_.empty() && possible_.back().ended == kOpen && possible_.back().orphan_of == 0;
  }

  void submit(const Entry& entry);
  // False: it is acknowledged, but nothing that may follow it is left: it had been lost.
  bool acknowledge(std::uint64_t uid, std::uint64_t submitted, std::uint64_t now);
  void end(std::uint64_t uid, std::uint64_t now);
  void orphan(std::uint64_t uid, std::uint64_t epoch);
  // An engine of that epoch serves: what older ones had is there by now or never will be.
  void end_orphans(std::uint64_t epoch, std::uint64_t now);
  void flushed(std::uint64_t submitted);
  void seen(std::uint64_t content, std::uint64_t submitted);
  // The volume begins another life (a new export id): only what was flushed counts.
  void roll_back();
  std::string describe() const;

 private:
  Entries possible_;
  Entries durable_;
};

enum class ClientOp : std::uint8_t { read, write, flush };

struct VolumeHistory {
  std::string volume;  // its name
  std::string uid;
  std::uint64_t size = 0;
  std::vector<std::uint64_t> offsets;  // of the slots
  std::vector<SlotHistory> slots;
  std::string export_id;      // of the newest engine that serves
  std::uint64_t serving = 0;  // its epoch
  std::uint64_t acknowledged_writes = 0;
  std::uint64_t acknowledged_flushes = 0;
  std::uint64_t checked_reads = 0;
  std::uint64_t lives = 0;  // how often the export id has changed

  void begin_again() {
    slots.assign(slots.size(), SlotHistory());
    export_id.clear();
    serving = 0;
  }
};

// One answer to a client.
struct ClientAnswer {
  std::string volume;
  std::string volume_uid;
  std::string node;
  std::uint64_t client = 0;
  std::uint64_t epoch = 0;  // of the engine that answered; 0: the device did by itself
  ClientOp op = ClientOp::read;
  std::size_t slot = 0;
  std::uint64_t uid = 0;
  std::uint64_t value = 0;      // written, or read
  std::uint64_t submitted = 0;  // step
  int error = 0;
  TimePoint at;
};

}  // namespace moor::sim
