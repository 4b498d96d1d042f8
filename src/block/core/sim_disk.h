// A Disk in memory for tests and the simulator: it has a page cache and a durable state, loses and tears what
// was not synced, and completes commands in an order drawn from its seed. Same seed, same calls: same
// outcome.
//
// Power loss: of everything not synced, each 512-byte sector of each write, each change of a size and each
// change of a name either happened or did not, independently (a rename is atomic). That is more hostile than
// real file systems. A failed fdatasync drops what it was to sync, keeps it in the page cache, and later
// syncs succeed: as Linux does.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "block/core/disk.h"

namespace moor::block {

class SimDisk : public Disk {
 public:
  explicit SimDisk(std::uint64_t seed) : random_(seed) {}
  // The same files in the same state, nothing under way: to look at a copy without disturbing the original.
  std::unique_ptr<SimDisk> clone(std::uint64_t seed) const;

  void submit(DiskCommand& command) override;
  // Completes one command; false when none is under way or the disk has stopped.
  bool step();
  bool idle() const { return queue_.empty(); }

  // Crash points: each command that changes or syncs something has the next number. At `number` the disk
  // stops dead: that command does not happen and nothing completes any more, until power_loss.
  std::uint64_t operations() const { return operations_; }
  std::uint64_t reads() const { return reads_; }
  void stop_at(std::uint64_t number) { stop_at_ = number; }
  bool stopped() const { return stopped_; }
  // Forgets all commands under way and keeps of the unsynced state what chance decides.
  void power_loss();
  // The process dies, the machine lives: commands under way happen or not, the page cache stays.
  void process_crash();

  // Faults. Each holds until it is set again.
  void set_capacity(std::uint64_t bytes) { capacity_ = bytes; }
  std::uint64_t used_bytes() const;
  void fail_syncs_of(std::string name_part) { failing_syncs_ = std::move(name_part); }
  void fail_reads_of(std::string name_part) { failing_reads_ = std::move(name_part); }
  // A file's syncs complete only once it is let go again.
  void hold_back(std::optional<DiskOp> op) { held_ = op; }
  void flip_bit(const std::string& name, std::uint64_t bit);
  std::uint64_t size_of(const std::string& name) const;
  bool exists(const std::string& name) const { return names_.contains(name); }
  std::vector<std::string> list() const;
  // Replaces contents at once and durably.
  void put(const std::string& name, const std::vector<std::byte>& contents);
  std::vector<std::byte> get(const std::string& name) const;

 private:
  static constexpr std::uint64_t kPage = 4096;
  using Page = std::array<std::byte, kPage>;
  using Pages = std::map<std::uint64_t, std::shared_ptr<const Page>>;
  struct Image {
    Pages pages;
    std::uint64_t size = 0;
  };
  struct Change {  // of contents, not yet synced
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
    std::uint64_t zeroed = 0;  // punch: length
    std::optional<std::uint64_t> size;
  };
  struct Inode {
    Image cache;
    Image durable;
    std::vector<Change> pending;
  };
  struct NameChange {
    std::string from;  // rename; else empty
    std::string name;
    std::shared_ptr<Inode> inode;  // none: unlinked
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  std::int64_t perform(DiskCommand& command);
  std::int64_t perform_name(DiskCommand& command);
  std::int64_t write(Inode& inode, const DiskCommand& command);
  std::int64_t sync(Inode& inode);
  bool matches(const Inode& inode, const std::string& name_part) const;
  static void apply(Image& image, const Change& change, std::uint64_t from, std::uint64_t end);
  static void store(Image& image, std::uint64_t offset, const std::byte* bytes, std::uint64_t length);
  static void load(const Image& image, std::uint64_t offset, std::byte* into, std::uint64_t length);
  static void truncate(Image& image, std::uint64_t size);
  void settle(Inode& inode);

  SeededRandom random_;
  std::vector<DiskCommand*> queue_;
  Names names_;
  Names durable_names_;
  std::vector<NameChange> name_changes_;
  std::map<FileId, std::shared_ptr<Inode>> open_;
  FileId next_file_ = 1;
  std::uint64_t operations_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t stop_at_ = UINT64_MAX;
  bool stopped_ = false;
  std::uint64_t capacity_ = UINT64_MAX;
  std::string failing_syncs_;
  std::string failing_reads_;
  std::optional<DiskOp> held_;
};

}  // namespace moor::block
