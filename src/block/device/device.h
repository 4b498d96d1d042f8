// Shows an engine's export as a block device on this host: one bridge, one connection at a time, one FUSE
// file with a loop device on it or one device of the kernel's nbd driver, one link that names it. Everything
// runs on one loop; what could block on the device itself runs in a child.
//
// Life: start() → connected → mounted → attached → on_ready. A lost engine is waited for without limit. Ends
// with loop.stop() after remove(), or when the set-up fails (see failure()).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "block/core/bridge.h"
#include "block/device/front.h"
#include "block/device/probe.h"
#include "block/io/control_server.h"
#include "block/io/nbd_link.h"

namespace moor::block::device {

enum class Method : std::uint8_t {
  automatic,  // nbd where the kernel has it, else fuse_loop
  nbd,
  fuse_loop,
  fuse,  // the link points to the file
};
std::string_view to_string(Method method);
Result<Method> parse_method(std::string_view text);

struct DeviceOptions {
  io::Address engine;  // a unix socket: see README, "Why unix sockets only"
  std::string export_name;
  std::string path;       // the link
  std::string directory;  // where the FUSE file is mounted
  Method method = Method::automatic;
  std::chrono::milliseconds start_wait{30'000};
  std::function<void(const std::string& device)> on_ready;
};

class Device final : public io::NbdLinkHandler, public FrontHandler {
 public:
  Device(io::Loop& loop, BufferPool& pool, DeviceOptions options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  void add_control(io::ControlServer& control);
  void start();
  // SIGTERM: waits until nobody uses the device; a second time: by force.
  void ask_to_end();
  const std::optional<Error>& failure() const { return failure_; }

 private:
  enum class Phase : std::uint8_t { connecting, attaching, serving, detaching, flushing, forced, gone };

  void on_event(nbd::ClientEvent event) override;
  void on_closed(std::optional<Error> why) override;
  void on_request(bridge::Request request) override;
  std::uint64_t volume_size() const override { return bridge_.remote().size; }
  bool has_room() const override { return bridge_.has_room(); }
  void on_opens(unsigned open) override;
  bool may_open() const override { return phase_ < Phase::detaching; }
  void on_gone() override;

  void step(bridge::Event event);
  void perform(bridge::Action& action);
  void connect();
  void connected(nbd::RemoteExport remote);
  void came_up();
  void lost();
  void mount();
  Result<void> mount_fuse();
  Result<void> attach_nbd();
  void attached(Result<std::string> device);
  void resized();
  void fail(Error error);

  using Refused = std::function<void(std::optional<Error>)>;
  void remove_cleanly(Refused answer);
  void detached(Result<std::string> result, const Refused& answer);
  void flush_and_finish();
  void remove_by_force();
  void detach_after_force();
  void finish();
  void look(io::Responder responder);
  Json status() const;
  Json stats() const;
  void publish_state();

  io::Loop& loop_;
  BufferPool& pool_;
  DeviceOptions options_;
  bridge::Bridge bridge_;
  bridge::Actions spare_;
  io::Timer connect_timer_;
  io::Timer start_timer_;
  io::Timer retry_removal_;
  io::Timer end_timer_;
  io::ControlServer* control_ = nullptr;
  Phase phase_ = Phase::connecting;
  std::unique_ptr<io::NbdLink> link_;
  std::unique_ptr<Front> file_;
  std::unique_ptr<Probe> probe_;
  std::string device_;  // "/dev/loop7", "/dev/nbd3"
  std::string target_;  // of the link, once it was made
  bool attach_running_ = false;
  bool let_go_ = false;  // the loop driver will close the file
  std::uint64_t connection_ = 0;
  std::chrono::milliseconds retry_after_{0};
  std::string last_problem_;
  // A standby was read through; pages of then must be gone before an activated engine's answers count.
  bool over_standby_ = false;
  std::optional<nbd::RemoteExport> waiting_up_;  // connected, but pages are being dropped first
  io::Timer drop_timer_;
  std::uint64_t pages_dropped_ = 0;  // how often
  bool resizing_ = false;
  bool resize_again_ = false;
  bool asked_to_end_ = false;
  std::optional<Error> failure_;
};

}  // namespace moor::block::device
