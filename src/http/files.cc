#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "http/certificates.h"

namespace moor::http {
namespace {

constexpr std::size_t kMaxFile = 1024 * 1024;

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

Result<void> write_whole(int file, const std::string& content, const std::string& path) {
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::write(file, content.data() + done, content.size() - done);
    if (count < 0 && errno != EINTR) return errno_error(errno, "write " + path);
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  if (::fsync(file) != 0) return errno_error(errno, "fsync " + path);
  return {};
}

}  // namespace

Result<void> write_file_atomically(const std::string& path, const std::string& content, unsigned mode) {
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  std::string temporary = path + ".XXXXXX";
  const Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));  // 0600 from the start
  if (file.get() < 0) return errno_error(errno, "create " + temporary);
  auto written = write_whole(file.get(), content, temporary);
  if (written && ::fchmod(file.get(), mode) != 0) written = errno_error(errno, "chmod " + temporary);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0)
    written = errno_error(errno, "rename to " + path);
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  const Descriptor parent(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0 || ::fsync(parent.get()) != 0) return errno_error(errno, "fsync " + directory);
  return {};
}

Result<std::string> read_small_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return errno_error(errno, "open " + path);
  std::string content;
  std::array<char, 16 * 1024> buffer;
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count == 0) return content;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(errno, "read " + path);
    content.append(buffer.data(), static_cast<std::size_t>(count));
    if (content.size() > kMaxFile) return make_error(Errc::exhausted, path + " is larger than 1 MiB");
  }
}

}  // namespace moor::http
