// The device's side of a volume as a step machine without I/O: requests of clients in, NBD requests out. It
// outlives connections: what was not answered when one is lost is sent again on the next, provided that the
// engine there tells the same export id. Another id, no id, or a smaller size is another life of the volume,
// in which acknowledged bytes may be gone: then every request fails, now and later, and clients must reopen
// (docs/decisions/0100, 5).
//
// One thread. Each request is answered exactly once. Sending twice is harmless only while nobody can tell, so
// a request that overlaps an unanswered change waits for it: no reader sees a value go away and come back,
// and the set that is sent again never holds two changes of one byte. FLUSH waits for nothing: it covers what
// was answered before it came, and that holds for an engine which took over as well, because acknowledged
// means on the replicas.
//
// Time is the owner's: it makes connections, and decides when to try again and when to give up (Abort).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "block/core/buffer.h"
#include "block/core/nbd_client.h"
#include "block/core/types.h"

namespace moor::block::bridge {

// Nothing is submitted above this; the owner stops taking requests meanwhile.
inline constexpr std::size_t kMaxRequests = 1024;
// NBD has 32 bits for a length, and a replica should not be held up by one range for long.
inline constexpr std::uint64_t kMaxRangeBytes = 1ull << 30;

enum class Op : std::uint8_t { read, write, flush, write_zeroes };

struct Request {
  std::uint64_t id = 0;  // the owner's; not in use by another open request
  Op op = Op::read;
  bool no_hole = false;  // write_zeroes: the space shall stay allocated
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // read and write: at most the export's maximum payload
  Slice payload;             // write: the data
};

// Events
struct Submit {
  Request request;
};
struct Up {
  std::uint64_t connection = 0;  // the owner's number, never used twice
  nbd::RemoteExport remote;
};
struct Down {
  std::uint64_t connection = 0;
};
struct Replied {
  std::uint64_t connection = 0;
  nbd::ClientReply reply;
};
// Forced removal, or a server that speaks nonsense: whatever is open fails, and all that comes.
struct Abort {
  std::string why;
};
// A look at the export beside the connection: the volume may have grown.
struct Looked {
  nbd::RemoteExport remote;
};
using Event = std::variant<Submit, Up, Down, Replied, Abort, Looked>;

// Actions
struct Send {
  nbd::ClientRequest request;
};
struct Answer {
  std::uint64_t id = 0;
  Op op = Op::read;
  std::uint64_t length = 0;
  int error = 0;  // an errno
  Slice data;     // read
};
struct Resized {
  std::uint64_t size = 0;
};
// This connection is of no use (the engine ends): close it, report Down, connect again.
struct DropConnection {};
// The volume's life that clients knew has ended. No further connection is wanted.
struct Ended {
  std::string why;
};
using Action = std::variant<Send, Answer, Resized, DropConnection, Ended>;
using Actions = std::vector<Action>;

struct Statistics {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t flushes = 0;
  std::uint64_t zeroes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t failed = 0;
  std::uint64_t resent = 0;
  std::uint64_t waited = 0;  // for an overlapping change
  std::uint64_t connections = 0;
};

enum class State : std::uint8_t { starting, up, down, ended };

class Bridge {
 public:
  void step(Event event, Actions& actions);

  bool has_room() const { return open_.size() < kMaxRequests; }
  std::size_t open() const { return open_.size(); }
  State state() const { return state_; }
  // Of the last connection; size 0 before the first.
  const nbd::RemoteExport& remote() const { return remote_; }
  const std::string& why_ended() const { return why_ended_; }
  const Statistics& statistics() const { return statistics_; }

 private:
  struct Open {
    Request request;
    std::uint64_t done = 0;  // of a long range: how much has been answered
    bool sent = false;       // on this connection
    bool was_sent = false;
  };
  using Number = std::uint64_t;  // order of arrival, and the id on the wire

  void on(Submit& event);
  void on(Up& event);
  void on(Down& event);
  void on(Replied& event);
  void on(Abort& event);
  void on(Looked& event);

  int refusal(const Request& request) const;
  bool must_wait(Number number, const Open& open) const;
  void send(Number number, Open& open);
  void send_waiting();
  void answer(std::map<Number, Open>::iterator open, int error, Slice data);
  void end(std::string why);

  State state_ = State::starting;
  std::uint64_t connection_ = 0;
  nbd::RemoteExport remote_;
  std::string why_ended_;
  std::map<Number, Open> open_;
  Number last_ = 0;
  std::size_t waiting_ = 0;  // because of an overlap
  Statistics statistics_;
  Actions* actions_ = nullptr;
};

}  // namespace moor::block::bridge
