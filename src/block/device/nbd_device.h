// A device of the kernel's nbd driver, served by this process over a socket pair: requests go through the
// bridge as those of FUSE do. The driver could talk to the engine itself, but then an engine that takes over
// would have to be told to it, and nobody would compare export ids or hold back what overlaps.
//
// No negotiation takes place on the socket: the driver starts with requests, so the protocol machine is led
// through a canned one before.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "block/core/nbd_server.h"
#include "block/device/front.h"
#include "block/device/nbd_control.h"
#include "block/io/connection.h"

namespace moor::block::device {

struct NbdDeviceOptions {
  std::uint64_t size = 0;
  std::uint32_t maximum_payload = kMaxRequestBytes;
  bool read_only = false;
  std::string owner;
};

class NbdDeviceFront final : public Front, public io::StreamHandler {
 public:
  static Result<std::unique_ptr<NbdDeviceFront>> attach(io::Loop& loop, BufferPool& pool, NbdControl& control,
                                                        const NbdDeviceOptions& options,
                                                        FrontHandler& handler);

  std::string path() const override { return path_; }
  void answer(const bridge::Answer& answer) override;
  // The driver counts them itself: it refuses to be taken exclusively.
  unsigned opens() const override { return 0; }
  void abort() override;
  void resize(std::uint64_t size) { server_.resize(size); }

 private:
  NbdDeviceFront(io::Loop& loop, BufferPool& pool, FrontHandler& handler)
      : loop_(loop), pool_(pool), handler_(handler), server_(pool) {}

  std::size_t on_bytes(Bytes bytes) override;
  bool wants_bytes() const override { return !server_.paused() && !gone_ && handler_.has_room(); }
  Slice direct_space() const override { return server_.direct_space(); }
  void direct_filled(std::size_t bytes) override;
  OutQueue& out() override { return server_.out(); }
  void on_closed(std::optional<Error> why) override;

  void skip_negotiation(const NbdDeviceOptions& options);
  void handle_events();
  void submit(nbd::Request& request);
  void end();

  io::Loop& loop_;
  BufferPool& pool_;
  FrontHandler& handler_;
  nbd::Server server_;
  std::unique_ptr<io::Connection> connection_;
  std::string path_;
  bool gone_ = false;
};

}  // namespace moor::block::device
