// A random client of a volume: reads, writes, TRIM, WRITE_ZEROES, FLUSH of 512 bytes to 4 MiB at any multiple
// of 512, over several NBD connections with many requests in flight (libnbd's asynchronous API), and the
// model that says what the volume must hold. Requests in flight never overlap with a write, so what a read
// must return is known exactly; every sector names the write that filled it (replica_model.h).
#pragma once

#include <libnbd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "block/core/replica_model.h"

namespace moor::block::e2e {

// What may be on the volume. `now` is acknowledged; `open` was sent and not answered; `older` are values that
// a crash of every replica may bring back, because nothing was flushed since.
class VolumeModel {
 public:
  explicit VolumeModel(std::uint64_t size) : now(size / kModelSector, 0), users_(now.size(), 0) {}
  std::uint64_t size() const { return now.size() * kModelSector; }

  bool is_free(Extent extent, bool writing) const;
  void begin(Extent extent, bool writing, Tag tag);
  void done(Extent extent, bool writing, Tag tag, bool fua);
  // A request that failed or was never answered: a write may have happened or not.
  void unknown(Extent extent, bool writing);
  // A write that was refused before anything happened.
  void refused(Extent extent);
  // Everything acknowledged is durable; nothing is in flight.
  void flushed() { older_.clear(); }
  // What was found after a crash. Says what is wrong with it, or nothing; from then on it is the truth.
  std::string adopt(const std::vector<Tag>& found, bool every_replica_died);

  std::vector<Tag> now;

 private:
  static constexpr std::uint8_t kWriting = 255;
  std::vector<std::uint8_t> users_;
  std::unordered_map<std::uint64_t, Tag> open_;
  std::unordered_map<std::uint64_t, std::set<Tag>> older_;
};

struct LoadOptions {
  int connections = 4;
  int depth = 64;                // over all connections
  std::uint64_t per_second = 0;  // requests; 0: as fast as it goes
  std::uint64_t most_bytes = 4u << 20;
  bool small_only = false;  // 512-byte writes and little else
  bool may_break = false;   // connections may end and requests fail: somebody is being killed
};

class Load {
 public:
  Load(VolumeModel& model, std::uint64_t seed, LoadOptions options)
      : model_(model), random_(seed), options_(options) {}
  ~Load() { disconnect(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  bool connect(const std::string& uri);
  // What is not answered becomes unknown.
  void disconnect();
  // Keeps requests in flight until `stop` or until every connection is gone.
  void run(const std::function<bool()>& stop);
  // Waits for all answers; false: the connections broke first.
  bool drain();
  // Drained and synced: nothing of the present state may get lost any more.
  bool flush();
  // The whole volume through a connection of its own.
  static std::vector<Tag> read_all(const std::string& uri, std::uint64_t size, std::string& failure);
  // Tags that writes have been given since the last call, by sector: what a snapshot under load may hold.
  std::map<std::uint64_t, std::set<Tag>> take_written() { return std::exchange(written_, {}); }
  // The next write's; a load after this one goes on from there.
  Tag next_tag = 1;

  const std::string& failure() const { return failure_; }
  std::uint64_t requests() const { return requests_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  enum class Kind : std::uint8_t { read, write, trim, zero, flush, status };
  struct Slot {
    Load* load = nullptr;
    Kind kind = Kind::read;
    Extent extent;
    Tag tag = 0;
    bool fua = false;
    bool fast = false;
    std::vector<std::byte> bytes;
  };
  static int on_done(void* data, int* error);
  static int on_extents(void* data, const char* context, std::uint64_t offset, std::uint32_t* entries,
                        std::size_t count, int* error);
  void finish(Slot& slot, int error);
  void check_read(const Slot& slot);
  bool submit(nbd_handle* handle);
  bool send(nbd_handle* handle, Slot& slot);
  Kind some_kind();
  Extent some_extent(Kind kind);
  bool turn(int milliseconds);
  void fail(const std::string& text) {
    if (failure_.empty()) failure_ = text;
  }

  VolumeModel& model_;
  std::mt19937_64 random_;
  LoadOptions options_;
  std::vector<nbd_handle*> handles_;
  std::map<Slot*, std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<Slot>> retired_;  // libnbd is still inside their callback
  std::map<std::uint64_t, std::set<Tag>> written_;
  std::string failure_;
  std::uint64_t requests_ = 0;
  std::uint64_t bytes_ = 0;
  std::size_t next_handle_ = 0;
};

}  // namespace moor::block::e2e
