// What the kernel's side of a device asks for, and who answers: a FUSE file under a loop device, or the
// kernel's own nbd driver. It turns what comes into requests of the bridge and decides nothing about them.
#pragma once

#include <cstdint>
#include <string>

#include "block/core/bridge.h"

namespace moor::block::device {

class FrontHandler {
 public:
  virtual void on_request(bridge::Request request) = 0;
  virtual std::uint64_t volume_size() const = 0;
  // While false nothing is read from the kernel; answer() looks again.
  virtual bool has_room() const = 0;
  // Someone opened the file or let go of it.
  virtual void on_opens(unsigned open) = 0;
  virtual bool may_open() const = 0;
  // Unmounted, disconnected or aborted by someone else. The last call.
  virtual void on_gone() = 0;

 protected:
  ~FrontHandler() = default;
};

class Front {
 public:
  virtual ~Front() = default;
  virtual std::string path() const = 0;
  virtual void answer(const bridge::Answer& answer) = 0;
  virtual unsigned opens() const = 0;
  // Every waiter in the kernel gets an error now, also those whose request was never read. Then on_gone().
  virtual void abort() = 0;
};

}  // namespace moor::block::device
