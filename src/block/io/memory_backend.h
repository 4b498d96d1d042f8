// An export that lives in RAM and does nothing else: what remains of its cost is the cost of NBD and the
// loop. It is the floor in benchmarks and the counterpart in tests of the protocol, and no place for anyone's
// data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "block/io/nbd_front.h"

namespace moor::block::io {

class MemoryBackend final : public NbdBackend {
 public:
  // exhausted: that much address space cannot be had.
  static Result<std::unique_ptr<MemoryBackend>> create(std::uint64_t size, std::string name);
  ~MemoryBackend();

  // Before the front serves.
  void attach(NbdFront& front) { front_ = &front; }
  // Told to clients: by it they see that the bytes they knew died with an earlier process.
  void set_export_id(std::string id) { export_id_ = std::move(id); }
  std::uint64_t size() const { return size_; }
  std::uint64_t allocated_bytes() const;
  std::uint64_t requests() const { return requests_; }

  std::vector<nbd::Server::ListedExport> list() override;
  void open(ConnectionId connection, const nbd::OpenRequested& request) override;
  void request(ConnectionId connection, nbd::Request request) override;
  void closed(ConnectionId) override {}

 private:
  MemoryBackend(std::byte* memory, std::uint64_t size, std::string name);
  void write(const nbd::Request& request);
  std::uint32_t write_zeroes(const nbd::Request& request);
  void discard(std::uint64_t offset, std::uint64_t length);
  std::vector<BlockStatus> status(std::uint64_t offset, std::uint32_t length) const;

  std::byte* memory_;
  std::uint64_t size_;
  std::string name_;
  std::string export_id_;
  std::vector<bool> allocated_;  // per block: holds data, or zeros that were asked to take space
  NbdFront* front_ = nullptr;
  std::uint64_t requests_ = 0;
};

}  // namespace moor::block::io
