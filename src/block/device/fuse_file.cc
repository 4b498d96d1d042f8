#include "block/device/fuse_file.h"

#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/falloc.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "base/assert.h"
#include "base/log.h"

namespace moor::block::device {

namespace {

constexpr fuse_ino_t kFileInode = 2;
// As many as a loop device has in flight, twice. The kernel's default of 12 would be our queue depth.
constexpr unsigned kMaxBackground = 256;
constexpr int kRequestsPerTurn = 64;

// libfuse 3.14 has no name for parallel direct writes; this is the kernel's struct fuse_open_out. Kernels
// that do not know the flag take writes one by one.
struct OpenReply {
  std::uint64_t handle = 0;
  std::uint32_t flags = 0;
  std::uint32_t padding = 0;
};
constexpr std::uint32_t kOpenDirectIo = 1u << 0;
constexpr std::uint32_t kOpenParallelDirectWrites = 1u << 6;

}  // namespace

void force_unmount(const std::string& directory) {
  // The first aborts the connection and then finds the mount busy; the second takes it out of the tree.
  ::umount2(directory.c_str(), MNT_FORCE | UMOUNT_NOFOLLOW);
  ::umount2(directory.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
}

class FuseFile::Core final : public io::Retired, public io::Completion {
 public:
  Core(io::Loop& loop, BufferPool& pool, FuseOptions options, FrontHandler& handler)
      : loop_(loop), pool_(pool), options_(std::move(options)), handler_(&handler) {}
  ~Core() override {
    if (session_ != nullptr) fuse_session_destroy(session_);
    std::free(buffer_.mem);
  }

  Result<void> mount() {
    if (::mkdir(options_.directory.c_str(), 0700) != 0 && errno != EEXIST) {
      return errno_error(errno, "mkdir " + options_.directory);
    }
    std::string words = "fsname=moorblk";
    if (options_.read_only) words += ",ro";
    words += ",max_read=" + std::to_string(options_.max_io_bytes);
    char* arguments[] = {const_cast<char*>("moorblk"), const_cast<char*>("-o"), words.data(), nullptr};
    fuse_args args = FUSE_ARGS_INIT(3, arguments);
    const fuse_lowlevel_ops operations = make_operations();
    session_ = fuse_session_new(&args, &operations, sizeof operations, this);
    fuse_opt_free_args(&args);
    if (session_ == nullptr) return make_error(Errc::internal, "libfuse does not start");
    if (fuse_session_mount(session_, options_.directory.c_str()) != 0) {
      return make_error(Errc::unavailable,
                        "cannot mount FUSE on " + options_.directory + " (needs root and /dev/fuse)");
    }
    mounted_ = true;
    const int fd = fuse_session_fd(session_);
    if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) return errno_error(errno, "O_NONBLOCK");
    arm();
    return {};
  }

  void on_complete(int) override {
    armed_ = false;
    dispatching_ = true;  // the owner may let go in any callback
    for (int i = 0; i < kRequestsPerTurn && handler_ != nullptr && handler_->has_room(); ++i) {
      const int got = fuse_session_receive_buf(session_, &buffer_);
      if (got == -EAGAIN || got == -EINTR) break;
      if (got <= 0 || fuse_session_exited(session_) != 0) {
        if (!std::exchange(gone_, true)) handler_->on_gone();
        break;
      }
      fuse_session_process_buf(session_, &buffer_);
    }
    dispatching_ = false;
    if (handler_ == nullptr) return loop_.retired_done(*this);
    arm();
  }

  void answer(const bridge::Answer& answer) {
    const auto found = requests_.find(answer.id);
    MOOR_ASSERT(found != requests_.end());
    const fuse_req_t request = found->second;
    requests_.erase(found);
    // A failed reply means that the connection is gone, which the poll tells as well.
    if (answer.error != 0) {
      fuse_reply_err(request, answer.error);
    } else if (answer.op == bridge::Op::read) {
      fuse_reply_buf(request, reinterpret_cast<const char*>(answer.data.data()), answer.data.size());
    } else if (answer.op == bridge::Op::write) {
      fuse_reply_write(request, answer.length);
    } else {
      fuse_reply_err(request, 0);
    }
    arm();
  }

  void abort() { force_unmount(options_.directory); }

  // The owner lets go. True: nothing is pending and this can be deleted now.
  bool leave() {
    handler_ = nullptr;
    for (const auto& [id, request] : requests_) fuse_reply_err(request, EIO);
    requests_.clear();
    if (std::exchange(mounted_, false)) {
      abort();
      ::rmdir(options_.directory.c_str());
    }
    if (armed_) loop_.cancel(*this);
    return !armed_ && !dispatching_;
  }

  const FuseOptions& options() const { return options_; }
  unsigned opens() const { return opens_; }

 private:
  static Core& self(fuse_req_t request) { return *static_cast<Core*>(fuse_req_userdata(request)); }

  void arm() {
    if (armed_ || dispatching_ || handler_ == nullptr || gone_ || !handler_->has_room()) return;
    armed_ = true;
    loop_.poll(*this, fuse_session_fd(session_), POLLIN);
  }

  void submit(fuse_req_t request, bridge::Request out) {
    out.id = reinterpret_cast<std::uintptr_t>(request);  // unique while it is open
    requests_.emplace(out.id, request);
    handler_->on_request(std::move(out));
  }

  struct stat attributes(fuse_ino_t inode) const {
    struct stat out {};
    out.st_ino = inode;
    out.st_nlink = inode == FUSE_ROOT_ID ? 2 : 1;
    out.st_mode = inode == FUSE_ROOT_ID ? S_IFDIR | 0700 : S_IFREG | (options_.read_only ? 0400 : 0600);
    out.st_blksize = kBlockSize;
    if (inode == kFileInode) {
      out.st_size = static_cast<off_t>(handler_->volume_size());
      out.st_blocks = out.st_size / 512;
    }
    return out;
  }

  static void init(void* data, fuse_conn_info* connection) {
    const auto& core = *static_cast<Core*>(data);
    connection->max_write = core.options_.max_io_bytes;
    connection->max_read = core.options_.max_io_bytes;
    connection->max_background = kMaxBackground;
    connection->congestion_threshold = kMaxBackground * 3 / 4;
    connection->want |= connection->capable & FUSE_CAP_ASYNC_DIO;
  }
  static void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    if (parent != FUSE_ROOT_ID || std::strcmp(name, kName) != 0) {
      fuse_reply_err(request, ENOENT);
      return;
    }
    fuse_entry_param entry{};
    entry.ino = kFileInode;
    entry.attr = self(request).attributes(kFileInode);
    fuse_reply_entry(request, &entry);  // timeouts of 0: a resize shows at the next look
  }
  static void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
    const struct stat out = self(request).attributes(inode);
    fuse_reply_attr(request, &out, 0);
  }
  // Times and modes are of no meaning here; the size is the engine's.
  static void setattr(fuse_req_t request, fuse_ino_t inode, struct stat* wanted, int what, fuse_file_info*) {
    const struct stat out = self(request).attributes(inode);
    if ((what & FUSE_SET_ATTR_SIZE) != 0 && wanted->st_size != out.st_size) {
      fuse_reply_err(request, EPERM);
      return;
    }
    fuse_reply_attr(request, &out, 0);
  }
  static void open(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
    Core& core = self(request);
    if (inode != kFileInode || !core.handler_->may_open()) {
      fuse_reply_err(request, inode != kFileInode ? EISDIR : EBUSY);
      return;
    }
    OpenReply reply;
    reply.flags = kOpenDirectIo | kOpenParallelDirectWrites;
    if (fuse_reply_buf(request, reinterpret_cast<const char*>(&reply), sizeof reply) != 0) return;
    core.handler_->on_opens(++core.opens_);
  }
  static void release(fuse_req_t request, fuse_ino_t, fuse_file_info*) {
    Core& core = self(request);
    fuse_reply_err(request, 0);
    if (core.opens_ > 0) core.handler_->on_opens(--core.opens_);
  }
  static void read(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info*) {
    Core& core = self(request);
    const std::uint64_t end = core.handler_->volume_size();
    const auto begin = static_cast<std::uint64_t>(offset);
    if (begin >= end || size == 0) {
      fuse_reply_buf(request, nullptr, 0);
      return;
    }
    bridge::Request out;
    out.op = bridge::Op::read;
    out.offset = begin;
    out.length = std::min<std::uint64_t>(size, end - begin);
    core.submit(request, std::move(out));
  }
  static void write(fuse_req_t request, fuse_ino_t, const char* data, std::size_t size, off_t offset,
                    fuse_file_info*) {
    Core& core = self(request);
    const std::uint64_t end = core.handler_->volume_size();
    const auto begin = static_cast<std::uint64_t>(offset);
    if (begin >= end && size > 0) {
      fuse_reply_err(request, ENOSPC);
      return;
    }
    bridge::Request out;
    out.op = bridge::Op::write;
    out.offset = begin;
    out.length = std::min<std::uint64_t>(size, end - begin);
    // libfuse reads the next request into the same memory.
    out.payload = core.pool_.copy_of(std::as_bytes(std::span(data, out.length)));
    core.submit(request, std::move(out));
  }
  static void fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
    bridge::Request out;
    out.op = bridge::Op::flush;
    self(request).submit(request, std::move(out));
  }
  // A punched hole must read as zeros (loop sends both its discards and its write-zeroes so), which NBD's
  // TRIM does not promise: so it is WRITE_ZEROES that may free the space.
  static void fallocate(fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length,
                        fuse_file_info*) {
    Core& core = self(request);
    const std::uint64_t end = core.handler_->volume_size();
    const auto begin = static_cast<std::uint64_t>(offset);
    const bool punch = mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    const bool zero = (mode & ~FALLOC_FL_KEEP_SIZE) == FALLOC_FL_ZERO_RANGE;
    if (!punch && !zero) {
      fuse_reply_err(request, EOPNOTSUPP);
      return;
    }
    bridge::Request out;
    out.op = bridge::Op::write_zeroes;
    out.no_hole = zero;
    out.offset = std::min(begin, end);
    out.length = std::min<std::uint64_t>(static_cast<std::uint64_t>(length), end - out.offset);
    core.submit(request, std::move(out));
  }
  static void readdir(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset, fuse_file_info*) {
    char entry[256];
    if (inode != FUSE_ROOT_ID || offset > 0) {
      fuse_reply_buf(request, nullptr, 0);
      return;
    }
    const struct stat file = self(request).attributes(kFileInode);
    const std::size_t needed = fuse_add_direntry(request, entry, sizeof entry, kName, &file, 1);
    fuse_reply_buf(request, entry, needed <= size && needed <= sizeof entry ? needed : 0);
  }

  static fuse_lowlevel_ops make_operations() {
    fuse_lowlevel_ops operations{};
    operations.init = &init;
    operations.lookup = &lookup;
    operations.getattr = &getattr;
    operations.setattr = &setattr;
    operations.open = &open;
    operations.release = &release;
    operations.read = &read;
    operations.write = &write;
    operations.fsync = &fsync;
    operations.fallocate = &fallocate;
    operations.readdir = &readdir;
    return operations;
  }

  io::Loop& loop_;
  BufferPool& pool_;
  FuseOptions options_;
  FrontHandler* handler_;
  fuse_session* session_ = nullptr;
  fuse_buf buffer_{};
  std::unordered_map<std::uint64_t, fuse_req_t> requests_;
  unsigned opens_ = 0;
  bool mounted_ = false;
  bool armed_ = false;
  bool dispatching_ = false;
  bool gone_ = false;
  friend class FuseFile;
};

Result<std::unique_ptr<FuseFile>> FuseFile::mount(io::Loop& loop, BufferPool& pool, FuseOptions options,
                                                  FrontHandler& handler) {
  auto core = std::make_unique<Core>(loop, pool, std::move(options), handler);
  std::unique_ptr<FuseFile> file(new FuseFile(std::move(core)));
  TRY_VOID(file->core_->mount());
  return file;
}

FuseFile::FuseFile(std::unique_ptr<Core> core) : core_(core.release()), loop_(core_->loop_) {}

// A poll may be pending, or this may be a callback of the core: it goes when the loop has heard of both.
FuseFile::~FuseFile() {
  std::unique_ptr<Core> core(core_);
  if (!core->leave()) loop_.retire(std::move(core));
}

std::string FuseFile::path() const {
  return core_->options().directory + "/" + kName;
}
void FuseFile::answer(const bridge::Answer& answer) {
  core_->answer(answer);
}
unsigned FuseFile::opens() const {
  return core_->opens();
}
void FuseFile::abort() {
  core_->abort();
}

}  // namespace moor::block::device
