#include "block/device/device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/assert.h"
#include "base/log.h"
#include "block/device/fuse_file.h"
#include "block/device/helper.h"
#include "block/device/link.h"
#include "block/device/loop_device.h"
#include "block/device/nbd_device.h"

namespace moor::block::device {

namespace {

constexpr std::chrono::milliseconds kFirstRetry{20};
constexpr std::chrono::milliseconds kLastRetry{1'000};
constexpr std::chrono::milliseconds kRemovalRetry{500};
constexpr std::chrono::seconds kForceWait{5};  // for the loop driver, after every request has failed
constexpr std::chrono::seconds kGoodbye{1};
constexpr std::chrono::seconds kDropWait{
    2};  // dropping does not wait for writes, but it may get stuck behind them
constexpr std::uint64_t kLastFlush = 0;  // the id of our own request; those of FUSE are addresses

}  // namespace

std::string_view to_string(Method method) {
  switch (method) {
    case Method::automatic: return "auto";
    case Method::nbd: return "nbd";
    case Method::fuse_loop: return "fuse+loop";
    case Method::fuse: return "fuse";
  }
  MOOR_UNREACHABLE("no such method");
}

Result<Method> parse_method(std::string_view text) {
  for (const Method method : {Method::automatic, Method::nbd, Method::fuse_loop, Method::fuse}) {
    if (text == to_string(method)) return method;
  }
  return make_error(Errc::invalid,
                    fmt::format("'{}' is no way to show a device: auto, nbd, fuse+loop or fuse", text));
}

Device::Device(io::Loop& loop, BufferPool& pool, DeviceOptions options)
    : loop_(loop),
      pool_(pool),
      options_(std::move(options)),
      connect_timer_(loop, [this] { connect(); }),
      start_timer_(loop,
                   [this] {
                     fail(make_error(Errc::timed_out, fmt::format("no engine at {}: {}", options_.engine.text,
                                                                  last_problem_)));
                   }),
      retry_removal_(loop, [this] { remove_cleanly(nullptr); }),
      end_timer_(loop,
                 [this] {
                   if (phase_ == Phase::gone) return loop_.stop();
                   finish();
                 }),
      drop_timer_(loop, [this] {
        log_warn("pages read before the activation may stay: dirty ones keep the kernel from dropping them");
        came_up();
      }) {}

Device::~Device() = default;

void Device::start() {
  start_timer_.start(options_.start_wait);
  connect();
}

void Device::fail(Error error) {
  failure_ = std::move(error);
  remove_by_force();
}

// The bridge

void Device::step(bridge::Event event) {
  bridge::Actions actions = std::exchange(spare_, {});
  actions.clear();
  bridge_.step(std::move(event), actions);
  for (bridge::Action& action : actions) perform(action);
  spare_ = std::move(actions);
}

void Device::perform(bridge::Action& action) {
  if (auto* send = std::get_if<bridge::Send>(&action)) {
    // A link that has just ended takes nothing; its loss is reported next, and then this is sent again.
    if (link_ != nullptr && link_->can_send()) link_->send(std::move(send->request));
  } else if (auto* answer = std::get_if<bridge::Answer>(&action)) {
    if (answer->id == kLastFlush) {
      if (answer->error != 0) log_error("the last flush failed", {{"errno", answer->error}});
      if (phase_ == Phase::flushing) finish();
    } else if (file_ != nullptr) {
      file_->answer(*answer);
    }
  } else if (std::holds_alternative<bridge::Resized>(action)) {
    resized();
  } else if (std::holds_alternative<bridge::DropConnection>(action)) {
    lost();
  } else if (const auto* ended = std::get_if<bridge::Ended>(&action)) {
    log_error("the volume has ended for its clients; they must reopen it", {{"why", ended->why}});
    link_.reset();
    connect_timer_.stop();
    publish_state();
  }
}

// The connection

void Device::connect() {
  io::NbdLinkOptions options;
  options.client.export_name = options_.export_name;
  options.client.block_status = false;
  options.client.max_in_flight = bridge::kMaxRequests;
  options.client.watch_standby = true;
  ++connection_;
  link_ = std::make_unique<io::NbdLink>(loop_, pool_, options_.engine, std::move(options), *this);
}

void Device::on_event(nbd::ClientEvent event) {
  if (auto* reply = std::get_if<nbd::ClientReply>(&event)) {
    step(bridge::Replied{connection_, std::move(*reply)});
  } else if (auto* ready = std::get_if<nbd::Ready>(&event)) {
    log_info("connected", {{"engine", options_.engine.text},
                           {"export_id", ready->remote.export_id},
                           {"size", ready->remote.size},
                           {"open", bridge_.open()}});
    retry_after_ = std::chrono::milliseconds(0);
    last_problem_.clear();
    connected(std::move(ready->remote));
  } else if (auto* refused = std::get_if<nbd::Refused>(&event)) {
    last_problem_ = std::move(refused->message);
  } else if (auto* farewell = std::get_if<nbd::Farewell>(&event)) {
    last_problem_ = std::move(farewell->message);
    // It is there and waits for us: no reason to let the client wait.
    if (last_problem_.starts_with("moor:activated")) retry_after_ = std::chrono::milliseconds(-1);
  } else if (auto* failed = std::get_if<nbd::ClientFailed>(&event)) {
    // It may still read requests out of its socket, so sending them again elsewhere could let an old write
    // follow a newer one.
    if (bridge_.state() == bridge::State::up) step(bridge::Abort{"a broken NBD stream: " + failed->why});
    last_problem_ = std::move(failed->why);
  }
}

// The first engine after a standby that is none: activated, or a new process in its place. Nothing is sent to
// it, and so nothing answered by it, before the kernel has forgotten what was read through the standby. With
// the FUSE file alone there is nothing to forget: it is opened with direct I/O.
void Device::connected(nbd::RemoteExport remote) {
  const bool drop = over_standby_ && !remote.standby && !device_.empty();
  if (!drop) over_standby_ = remote.standby;
  waiting_up_ = std::move(remote);
  if (!drop) return came_up();
  drop_timer_.start(kDropWait);
  run_in_child(
      loop_,
      [device = device_]() -> Result<std::string> {
        TRY_VOID(drop_pages(device));
        return std::string();
      },
      [this, connection = connection_](const Result<std::string>& done) {
        if (!done) log_error("pages read before the activation may stay", {{"error", done.error()}});
        over_standby_ = false;
        ++pages_dropped_;
        if (connection == connection_) came_up();
      });
}

void Device::came_up() {
  if (!waiting_up_) return;
  drop_timer_.stop();
  step(bridge::Up{connection_, *std::exchange(waiting_up_, std::nullopt)});
  if (phase_ == Phase::connecting) mount();
  publish_state();
}

void Device::on_closed(std::optional<Error> why) {
  if (phase_ == Phase::gone) return loop_.stop();
  if (why && last_problem_.empty()) last_problem_ = why->message;
  lost();
}

void Device::lost() {
  link_.reset();
  waiting_up_.reset();
  drop_timer_.stop();
  const bool was_up = bridge_.state() == bridge::State::up;
  step(bridge::Down{connection_});
  if (bridge_.state() == bridge::State::ended || phase_ >= Phase::forced) return;
  if (was_up) {
    log_warn("the engine is lost; requests wait", {{"why", last_problem_}, {"open", bridge_.open()}});
    publish_state();
  }
  const bool at_once = retry_after_.count() < 0;
  retry_after_ =
      at_once ? std::chrono::milliseconds(0) : std::clamp(retry_after_ * 2, kFirstRetry, kLastRetry);
  connect_timer_.start(retry_after_);
}

// The device

void Device::mount() {
  start_timer_.stop();
  const bool may_choose = options_.method == Method::automatic;
  if (may_choose) options_.method = kernel_nbd().check().ok() ? Method::nbd : Method::fuse_loop;
  if (options_.method == Method::nbd) {
    const Result<void> attached_nbd = attach_nbd();
    if (attached_nbd) return;
    if (!may_choose) return fail(attached_nbd.error());
    log_warn("nbd does not work; uses fuse+loop", {{"error", attached_nbd.error()}});
    options_.method = Method::fuse_loop;
  }
  if (const Result<void> mounted = mount_fuse(); !mounted) fail(mounted.error());
}

Result<void> Device::attach_nbd() {
  NbdDeviceOptions options;
  options.size = bridge_.remote().size;
  options.maximum_payload = bridge_.remote().maximum_payload;
  options.read_only = bridge_.remote().has(nbd::kReadOnly);
  options.owner = options_.directory;
  TRY(file_, NbdDeviceFront::attach(loop_, pool_, kernel_nbd(), options, *this));
  phase_ = Phase::attaching;
  attached(file_->path());
  return {};
}

Result<void> Device::mount_fuse() {
  FuseOptions fuse;
  fuse.directory = options_.directory;
  fuse.max_io_bytes = std::min<std::uint32_t>(1u << 20, bridge_.remote().maximum_payload);
  fuse.read_only = bridge_.remote().has(nbd::kReadOnly);
  const LoopOptions loop{fuse.directory + "/" + FuseFile::kName, fuse.read_only};
  TRY(file_, FuseFile::mount(loop_, pool_, std::move(fuse), *this));
  phase_ = Phase::attaching;
  if (options_.method == Method::fuse) {
    attached(std::string());
    return {};
  }
  attach_running_ = true;
  run_in_child(
      loop_, [loop] { return attach_loop(loop); },
      [this](Result<std::string> device) { attached(std::move(device)); });
  return {};
}

void Device::attached(Result<std::string> device) {
  attach_running_ = false;
  if (device) device_ = *std::move(device);
  if (phase_ == Phase::forced) return detach_after_force();  // asked to end meanwhile
  if (!device) return fail(std::move(device).error());
  target_ = device_.empty() ? file_->path() : device_;
  if (const auto linked = make_link(options_.path, target_); !linked) return fail(linked.error());
  phase_ = Phase::serving;
  log_info("the device is there",
           {{"path", options_.path}, {"device", target_}, {"method", to_string(options_.method)}});
  if (options_.on_ready) options_.on_ready(target_);
  publish_state();
}

void Device::resized() {
  if (device_.empty() || phase_ != Phase::serving) return;
  if (options_.method == Method::nbd) {
    // The machine first: requests beyond the old end come as soon as the driver knows.
    static_cast<NbdDeviceFront&>(*file_).resize(volume_size());
    if (const auto grown = kernel_nbd().resize(device_, volume_size()); !grown) {
      log_error("the device cannot grow", {{"error", grown.error()}});
    }
    return publish_state();
  }
  if (resizing_) {
    resize_again_ = true;
    return;
  }
  resizing_ = true;
  run_in_child(
      loop_,
      [device = device_, file = file_->path()]() -> Result<std::string> {
        TRY_VOID(resize_loop(device, file));
        return std::string();
      },
      [this](const Result<std::string>& done) {
        resizing_ = false;
        if (!done) log_error("the device cannot grow", {{"error", done.error()}});
        if (done) log_info("the device has grown", {{"size", volume_size()}});
        publish_state();
        if (std::exchange(resize_again_, false)) resized();
      });
}

void Device::on_request(bridge::Request request) {
  step(bridge::Submit{std::move(request)});
}

void Device::on_opens(unsigned open) {
  if (phase_ == Phase::detaching && open == 0 && let_go_) flush_and_finish();
}

void Device::on_gone() {
  if (phase_ >= Phase::forced) return;
  // The driver lets go while a child still waits for its word that it has.
  if (options_.method == Method::nbd && phase_ >= Phase::detaching) return;
  const std::string what = options_.method == Method::nbd ? file_->path() : "the FUSE mount";
  log_error("the device was taken away", {{"what", what}});
  failure_ = make_error(Errc::unavailable, what + " was taken away");
  remove_by_force();
}

// Removal

void Device::ask_to_end() {
  if (std::exchange(asked_to_end_, true)) return remove_by_force();
  remove_cleanly(nullptr);
}

// `answer` hears that the removal goes on, or why not; without one it is tried until the device is free.
void Device::remove_cleanly(Refused answer) {
  if (phase_ == Phase::connecting || phase_ == Phase::attaching) {
    if (answer) answer(std::nullopt);
    return remove_by_force();  // nobody can have used it
  }
  if (phase_ != Phase::serving) {
    if (answer) answer(std::nullopt);
    return;
  }
  phase_ = Phase::detaching;  // no one opens the file any more
  if (options_.method != Method::fuse) {
    const bool is_nbd = options_.method == Method::nbd;
    run_in_child(
        loop_,
        [device = device_, is_nbd] {
          return is_nbd ? detach_nbd(kernel_nbd(), device) : detach_loop(device);
        },
        [this, answer](Result<std::string> result) { detached(std::move(result), answer); });
  } else if (file_->opens() > 0) {
    detached(make_error(Errc::conflict, file_->path() + " is in use"), answer);
  } else {
    detached(std::string(), answer);
  }
}

void Device::detached(Result<std::string> result, const Refused& answer) {
  if (phase_ != Phase::detaching) {
    if (answer) answer(std::nullopt);
    return;
  }
  if (!result) {
    phase_ = Phase::serving;
    last_problem_ = result.error().message;
    if (answer) return answer(std::move(result).error());
    log_warn("waits with its removal", {{"why", last_problem_}});
    publish_state();
    return retry_removal_.start(kRemovalRetry);
  }
  if (!result->empty()) log_error("not everything could be written", {{"error", *result}});
  if (answer) answer(std::nullopt);
  let_go_ = true;
  // The driver lets go of the file when the last opener of the device has: on_opens() tells.
  if (file_->opens() == 0) flush_and_finish();
}

void Device::flush_and_finish() {
  phase_ = Phase::flushing;
  bridge::Request flush;
  flush.id = kLastFlush;
  flush.op = bridge::Op::flush;
  step(bridge::Submit{std::move(flush)});
}

// Nothing here waits for the engine: first every request fails, then the kernel can let go.
void Device::remove_by_force() {
  if (phase_ >= Phase::forced) return;
  phase_ = Phase::forced;
  start_timer_.stop();
  retry_removal_.stop();
  step(bridge::Abort{"removed by force"});
  connect_timer_.stop();
  link_.reset();
  remove_link(options_.path, {target_});
  if (file_ != nullptr) file_->abort();
  end_timer_.start(kForceWait);
  if (!attach_running_) detach_after_force();
}

void Device::detach_after_force() {
  if (device_.empty()) return finish();
  run_in_child(
      loop_,
      [device = device_, is_nbd = options_.method == Method::nbd]() -> Result<std::string> {
        TRY_VOID(is_nbd ? kernel_nbd().disconnect(device) : detach_loop_lazily(device));
        return std::string();
      },
      [this](const Result<std::string>& done) {
        if (!done) log_error("the device stays behind", {{"error", done.error()}});
        if (phase_ == Phase::forced) finish();
      });
}

void Device::finish() {
  remove_link(options_.path, {target_});
  phase_ = Phase::gone;
  connect_timer_.stop();
  log_info("the device is removed", {{"path", options_.path}});
  if (control_ != nullptr) control_->publish("stopping", Json::object());
  // At the end of the turn: this may be a callback of the file.
  const bool goodbye = link_ != nullptr && bridge_.state() == bridge::State::up;
  if (goodbye) link_->disconnect();
  end_timer_.start(goodbye ? std::chrono::nanoseconds(kGoodbye) : std::chrono::nanoseconds(0));
}

}  // namespace moor::block::device
