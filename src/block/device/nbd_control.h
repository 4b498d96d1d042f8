// The kernel's nbd driver, by generic netlink: devices are made, grown and taken away. Every call is short,
// except for disconnect(), which may wait for whoever serves the device: in a Helper, never on the loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace moor::block::device {

struct NbdDevice {
  int socket = -1;  // in the transmission phase; the driver keeps it
  std::uint64_t size = 0;
  std::uint64_t flags = 0;  // of the NBD protocol
  std::string owner;        // shown in sysfs: by it the device of a dead process is found
};

class NbdControl {
 public:
  virtual ~NbdControl() = default;
  // unavailable: this kernel has no nbd driver, or it is not loaded.
  virtual Result<void> check() = 0;
  // "/dev/nbd3"
  virtual Result<std::string> connect(const NbdDevice& device) = 0;
  virtual Result<void> resize(const std::string& device, std::uint64_t size) = 0;
  // Whatever is under way fails, also when someone has it open.
  virtual Result<void> disconnect(const std::string& device) = 0;
};

// The running kernel.
NbdControl& kernel_nbd();

// Writes what is cached and disconnects. conflict: it is mounted or otherwise held. A failure to write is in
// the result's text, and the device goes all the same.
Result<std::string> detach_nbd(NbdControl& control, const std::string& device);
// Devices of this owner. Looks only at sysfs and never blocks.
std::vector<std::string> nbds_of(const std::string& owner);

}  // namespace moor::block::device
