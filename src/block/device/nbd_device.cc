#include "block/device/nbd_device.h"

#include <linux/nbd.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/assert.h"
#include "base/log.h"

namespace moor::block::device {

namespace {

// A tag as the bridge's number of a request; never 0, which is the device's own flush.
std::uint64_t id_of(nbd::RequestTag tag) {
  return (static_cast<std::uint64_t>(tag.slot) + 1) << 32 | tag.generation;
}
nbd::RequestTag tag_of(std::uint64_t id) {
  return {static_cast<std::uint32_t>((id >> 32) - 1), static_cast<std::uint32_t>(id)};
}

std::uint32_t wire_error(int error) {
  switch (error) {
    case EPERM:
    case EROFS: return nbd::kErrPerm;
    case ENOMEM: return nbd::kErrNoMemory;
    case EINVAL: return nbd::kErrInvalid;
    case ENOSPC: return nbd::kErrNoSpace;
    case EOPNOTSUPP: return nbd::kErrNotSupported;
    default: return nbd::kErrIo;
  }
}

}  // namespace

Result<std::unique_ptr<NbdDeviceFront>> NbdDeviceFront::attach(io::Loop& loop, BufferPool& pool,
                                                               NbdControl& control,
                                                               const NbdDeviceOptions& options,
                                                               FrontHandler& handler) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return errno_error(errno, "socketpair");
  io::Descriptor ours(ends[0]);
  const io::Descriptor drivers(ends[1]);  // the driver holds the socket itself: ours closes
  std::unique_ptr<NbdDeviceFront> front(new NbdDeviceFront(loop, pool, handler));
  front->skip_negotiation(options);
  NbdDevice device;
  device.socket = drivers.get();
  device.size = options.size;
  // No FUA: the bridge has none, and the block layer then sends a flush instead. Trims are told: they free
  // space.
  device.flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_TRIM;
  if (options.read_only) device.flags |= NBD_FLAG_READ_ONLY;
  device.owner = options.owner;
  TRY(front->path_, control.connect(device));
  front->connection_ = std::make_unique<io::Connection>(loop, pool, std::move(ours), *front);
  front->connection_->stir();
  return front;
}

void NbdDeviceFront::skip_negotiation(const NbdDeviceOptions& options) {
  constexpr std::array<std::uint8_t, 20> kWords{
      0,   0,   0,   3,                        // fixed newstyle, no zeroes
      'I', 'H', 'A', 'V', 'E', 'O', 'P', 'T',  // an option:
      0,   0,   0,   1,   0,   0,   0,   0,    // EXPORT_NAME, the empty one; simple replies from here on
  };
  server_.feed(std::as_bytes(std::span(kWords)));
  nbd::ExportDescription description;
  description.size = options.size;
  description.read_only = options.read_only;
  description.fua = false;
  description.multi_conn = false;
  description.block_status = false;
  description.maximum_payload = options.maximum_payload;
  for (const nbd::ServerEvent& event : server_.take_events()) {
    MOOR_ASSERT(std::holds_alternative<nbd::OpenRequested>(event),
                "a canned negotiation asks for the export");
  }
  server_.accept(std::move(description));
  server_.out().clear();
  MOOR_ASSERT(server_.in_transmission() && !server_.structured(), "the driver speaks simple replies only");
}

std::size_t NbdDeviceFront::on_bytes(Bytes bytes) {
  if (gone_ || !handler_.has_room()) return 0;
  const std::size_t taken = server_.feed(bytes);
  handle_events();
  return taken;
}

void NbdDeviceFront::direct_filled(std::size_t bytes) {
  server_.direct_filled(bytes);
  handle_events();
}

void NbdDeviceFront::handle_events() {
  for (auto events = server_.take_events(); !events.empty(); events = server_.take_events()) {
    for (nbd::ServerEvent& event : events) {
      if (gone_) return;
      if (auto* request = std::get_if<nbd::Request>(&event)) {
        submit(*request);
      } else if (const auto* failed = std::get_if<nbd::Failed>(&event)) {
        log_error("the nbd driver speaks nonsense", {{"device", path_}, {"why", failed->why}});
        return end();
      } else {
        return end();  // disconnected
      }
    }
  }
}

void NbdDeviceFront::submit(nbd::Request& request) {
  bridge::Request wanted;
  wanted.id = id_of(request.tag);
  wanted.offset = request.offset;
  wanted.length = request.length;
  switch (static_cast<nbd::Command>(request.command)) {
    case nbd::Command::read: wanted.op = bridge::Op::read; break;
    case nbd::Command::write:
      wanted.op = bridge::Op::write;
      wanted.payload = std::move(request.payload);
      break;
    case nbd::Command::flush: wanted.op = bridge::Op::flush; break;
    // A trim may leave anything behind; zeros that may free space do what it asks for.
    case nbd::Command::trim: wanted.op = bridge::Op::write_zeroes; break;
    case nbd::Command::write_zeroes:
      wanted.op = bridge::Op::write_zeroes;
      wanted.no_hole = request.has(nbd::kFlagNoHole);
      break;
    default: return server_.reply_error(request.tag, nbd::kErrInvalid, "unknown command");
  }
  handler_.on_request(std::move(wanted));
}

void NbdDeviceFront::answer(const bridge::Answer& answer) {
  if (gone_) return;
  const nbd::RequestTag tag = tag_of(answer.id);
  if (answer.error != 0) {
    server_.reply_error(tag, wire_error(answer.error));
  } else if (answer.op == bridge::Op::read) {
    server_.reply_read(tag, answer.data);
  } else {
    server_.reply_done(tag);
  }
  if (connection_ != nullptr) connection_->stir();
}

void NbdDeviceFront::abort() {
  end();
}

void NbdDeviceFront::on_closed(std::optional<Error> why) {
  if (why) log_warn("the nbd driver's socket broke", {{"device", path_}, {"error", *why}});
  end();
}

// Closing the socket fails what the driver has under way.
void NbdDeviceFront::end() {
  if (std::exchange(gone_, true)) return;
  connection_.reset();
  handler_.on_gone();
}

}  // namespace moor::block::device
