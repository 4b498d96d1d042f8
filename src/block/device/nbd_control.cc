#include "block/device/nbd_control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/genetlink.h>
#include <linux/nbd-netlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/assert.h"
#include "block/io/address.h"

namespace moor::block::device {

namespace {

constexpr std::string_view kPrefix = "/dev/nbd";
constexpr std::uint64_t kSector = 512;  // clients may write single sectors; the engine takes any alignment
constexpr int kAnswerSeconds = 10;

// A generic netlink message under construction, and attributes of one that was received.
class Message {
 public:
  Message(std::uint16_t type, std::uint16_t flags, std::uint8_t command, std::uint8_t version) {
    nlmsghdr header{};
    header.nlmsg_type = type;
    header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    header.nlmsg_seq = 1;
    append(&header, sizeof header);
    const genlmsghdr generic{command, version, 0};
    append(&generic, sizeof generic);
  }
  void put(std::uint16_t type, const void* data, std::size_t size) {
    const nlattr attribute{static_cast<std::uint16_t>(NLA_HDRLEN + size), type};
    append(&attribute, sizeof attribute);
    append(data, size);
  }
  void put_u32(std::uint16_t type, std::uint32_t value) { put(type, &value, sizeof value); }
  void put_u64(std::uint16_t type, std::uint64_t value) { put(type, &value, sizeof value); }
  void put_text(std::uint16_t type, const std::string& text) { put(type, text.c_str(), text.size() + 1); }
  // Attributes put between the two belong to it.
  std::size_t open(std::uint16_t type) {
    const std::size_t at = bytes_.size();
    put(static_cast<std::uint16_t>(type | NLA_F_NESTED), nullptr, 0);
    return at;
  }
  void close(std::size_t at) {
    const auto length = static_cast<std::uint16_t>(bytes_.size() - at);
    std::memcpy(bytes_.data() + at, &length, sizeof length);
  }
  std::string_view finish() {
    const auto length = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &length, sizeof length);
    return bytes_;
  }

 private:
  void append(const void* data, std::size_t size) {
    if (size > 0) bytes_.append(static_cast<const char*>(data), size);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }
  std::string bytes_;
};

std::optional<std::uint32_t> find_number(std::string_view attributes, std::uint16_t wanted) {
  while (attributes.size() >= sizeof(nlattr)) {
    nlattr attribute{};
    std::memcpy(&attribute, attributes.data(), sizeof attribute);
    if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > attributes.size()) return std::nullopt;
    const std::string_view value = attributes.substr(NLA_HDRLEN, attribute.nla_len - NLA_HDRLEN);
    if ((attribute.nla_type & NLA_TYPE_MASK) == wanted && value.size() <= sizeof(std::uint32_t)) {
      std::uint32_t number = 0;
      std::memcpy(&number, value.data(), value.size());
      return number;
    }
    attributes.remove_prefix(std::min<std::size_t>(NLA_ALIGN(attribute.nla_len), attributes.size()));
  }
  return std::nullopt;
}

// Sends one request and reads until the kernel's verdict on it. The attributes of its answer, if it gave one.
Result<std::string> ask(Message& message, std::string_view what) {
  const io::Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC));
  if (!socket) return errno_error(errno, "netlink socket");
  const timeval limit{kAnswerSeconds, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const std::string_view bytes = message.finish();
  if (::send(socket.get(), bytes.data(), bytes.size(), 0) < 0) return errno_error(errno, what);
  std::string answer;
  std::array<char, 16'384> buffer;
  for (int i = 0; i < 16; ++i) {
    const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got < 0) return errno_error(errno, what);
    std::string_view rest(buffer.data(), static_cast<std::size_t>(got));
    while (rest.size() >= sizeof(nlmsghdr)) {
      nlmsghdr header{};
      std::memcpy(&header, rest.data(), sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) break;
      const std::string_view body = rest.substr(sizeof header, header.nlmsg_len - sizeof header);
      if (header.nlmsg_type == NLMSG_ERROR && body.size() >= sizeof(int)) {
        int error = 0;
        std::memcpy(&error, body.data(), sizeof error);
        if (error != 0) return errno_error(-error, what);
        return answer;
      }
      if (body.size() >= GENL_HDRLEN) answer = body.substr(GENL_HDRLEN);
      rest.remove_prefix(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), rest.size()));
    }
  }
  return make_error(Errc::internal, fmt::format("{}: no verdict from the kernel", what));
}

Result<std::uint32_t> index_of(const std::string& device) {
  std::uint32_t index = 0;
  const std::string_view digits = std::string_view(device).substr(std::min(kPrefix.size(), device.size()));
  const auto end = digits.data() + digits.size();
  if (!device.starts_with(kPrefix) || std::from_chars(digits.data(), end, index).ptr != end ||
      digits.empty()) {
    return make_error(Errc::invalid, device + " is no nbd device");
  }
  return index;
}

class Kernel final : public NbdControl {
 public:
  Result<void> check() override {
    TRY_VOID(family());
    return {};
  }

  Result<std::string> connect(const NbdDevice& device) override {
    TRY(const std::uint16_t type, family());
    // The kernel chooses a free device. No time-out of requests: a lost engine is waited for without limit,
    // and the one that answers is this process. No dead-connection time-out: when it dies, requests fail at
    // once.
    Message message(type, NLM_F_ACK, NBD_CMD_CONNECT, NBD_GENL_VERSION);
    message.put_u64(NBD_ATTR_SIZE_BYTES, device.size);
    message.put_u64(NBD_ATTR_BLOCK_SIZE_BYTES, kSector);
    message.put_u64(NBD_ATTR_SERVER_FLAGS, device.flags);
    message.put_text(NBD_ATTR_BACKEND_IDENTIFIER, device.owner);
    const std::size_t sockets = message.open(NBD_ATTR_SOCKETS);
    const std::size_t item = message.open(NBD_SOCK_ITEM);
    message.put_u32(NBD_SOCK_FD, static_cast<std::uint32_t>(device.socket));
    message.close(item);
    message.close(sockets);
    TRY(const std::string answer, ask(message, "connect nbd"));
    const auto index = find_number(answer, NBD_ATTR_INDEX);
    if (!index) return make_error(Errc::internal, "connect nbd: the kernel names no device");
    return fmt::format("{}{}", kPrefix, *index);
  }

  Result<void> resize(const std::string& device, std::uint64_t size) override {
    TRY(const std::uint32_t index, index_of(device));
    TRY(const std::uint16_t type, family());
    Message message(type, NLM_F_ACK, NBD_CMD_RECONFIGURE, NBD_GENL_VERSION);
    message.put_u32(NBD_ATTR_INDEX, index);
    message.put_u64(NBD_ATTR_SIZE_BYTES, size);
    TRY_VOID(ask(message, "resize " + device));
    return {};
  }

  Result<void> disconnect(const std::string& device) override {
    TRY(const std::uint32_t index, index_of(device));
    TRY(const std::uint16_t type, family());
    Message message(type, NLM_F_ACK, NBD_CMD_DISCONNECT, NBD_GENL_VERSION);
    message.put_u32(NBD_ATTR_INDEX, index);
    TRY_VOID(ask(message, "disconnect " + device));
    return {};
  }

 private:
  // Asked each time: the module may come and go.
  static Result<std::uint16_t> family() {
    Message message(GENL_ID_CTRL, NLM_F_ACK, CTRL_CMD_GETFAMILY, 1);
    message.put_text(CTRL_ATTR_FAMILY_NAME, NBD_GENL_FAMILY_NAME);
    const Result<std::string> answer = ask(message, "look for nbd");
    const auto id = answer.ok() ? find_number(*answer, CTRL_ATTR_FAMILY_ID) : std::nullopt;
    if (!id) {
      return make_error(
          Errc::unavailable,
          "this kernel has no nbd driver, or it is not loaded (modprobe nbd); fuse+loop needs none");
    }
    return static_cast<std::uint16_t>(*id);
  }
};

}  // namespace

NbdControl& kernel_nbd() {
  static Kernel kernel;  // holds nothing
  return kernel;
}

Result<std::string> detach_nbd(NbdControl& control, const std::string& device) {
  int fd = ::open(device.c_str(), O_RDWR | O_EXCL | O_CLOEXEC);
  if (fd < 0 && (errno == EROFS || errno == EACCES))
    fd = ::open(device.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
  if (fd < 0) {
    if (errno == EBUSY) return make_error(Errc::conflict, device + " is in use");
    return errno_error(errno, "open " + device);
  }
  const io::Descriptor held(fd);
  std::string trouble;
  if (::fsync(fd) != 0) trouble = errno_error(errno, "fsync " + device).message;
  TRY_VOID(control.disconnect(device));
  return trouble;
}

std::vector<std::string> nbds_of(const std::string& owner) {
  std::vector<std::string> devices;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block", failed)) {
    const std::string name = entry.path().filename();
    std::ifstream backend(entry.path() / "backend");
    std::string text;
    if (name.starts_with("nbd") && std::getline(backend, text) && text == owner)
      devices.push_back("/dev/" + name);
  }
  return devices;
}

}  // namespace moor::block::device
