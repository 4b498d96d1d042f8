#include "block/core/sim_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"

namespace moor::block {
namespace {

constexpr std::uint64_t kSector = 512;

bool is_numbered(DiskOp op) {
  switch (op) {
    case DiskOp::open:
    case DiskOp::close:
    case DiskOp::pread:
    case DiskOp::size:
    case DiskOp::list: return false;
    default: return true;
  }
}

}  // namespace

std::unique_ptr<SimDisk> SimDisk::clone(std::uint64_t seed) const {
  auto copy = std::make_unique<SimDisk>(seed);
  std::map<const Inode*, std::shared_ptr<Inode>> copies;
  const auto copy_of = [&](const std::shared_ptr<Inode>& inode) -> std::shared_ptr<Inode> {
    if (inode == nullptr) return nullptr;
    auto& found = copies[inode.get()];
    if (found == nullptr) found = std::make_shared<Inode>(*inode);
    return found;
  };
  for (const auto& [name, inode] : names_) copy->names_[name] = copy_of(inode);
  for (const auto& [name, inode] : durable_names_) copy->durable_names_[name] = copy_of(inode);
  for (const NameChange& change : name_changes_) {
    copy->name_changes_.push_back({change.from, change.name, copy_of(change.inode)});
  }
  return copy;
}

void SimDisk::submit(DiskCommand& command) {
  queue_.push_back(&command);
}

bool SimDisk::step() {
  if (stopped_ || queue_.empty()) return false;
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    if (!held_ || queue_[i]->op != *held_) ready.push_back(i);
  }
  if (ready.empty()) return false;
  const std::size_t at = ready[random_.next() % ready.size()];
  DiskCommand* command = queue_[at];
  if (is_numbered(command->op)) {
    if (operations_ == stop_at_) {
      stopped_ = true;
      return false;
    }
    ++operations_;
  }
  queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(at));
  command->complete(perform(*command));
  return true;
}

void SimDisk::store(Image& image, std::uint64_t offset, const std::byte* bytes, std::uint64_t length) {
  while (length > 0) {
    const std::uint64_t page = offset / kPage;
    const std::uint64_t within = offset % kPage;
    const std::uint64_t now = std::min(length, kPage - within);
    auto fresh = std::make_shared<Page>();
    const auto found = image.pages.find(page);
    if (now < kPage && found != image.pages.end()) *fresh = *found->second;
    if (bytes != nullptr) {
      std::memcpy(fresh->data() + within, bytes, now);
      bytes += now;
    } else {
      std::memset(fresh->data() + within, 0, now);
    }
    if (bytes == nullptr && (now == kPage || found == image.pages.end())) {
      image.pages.erase(page);
    } else {
      image.pages[page] = std::move(fresh);
    }
    offset += now;
    length -= now;
  }
}

void SimDisk::load(const Image& image, std::uint64_t offset, std::byte* into, std::uint64_t length) {
  while (length > 0) {
    const std::uint64_t within = offset % kPage;
    const std::uint64_t now = std::min(length, kPage - within);
    const auto found = image.pages.find(offset / kPage);
    if (found == image.pages.end()) {
      std::memset(into, 0, now);
    } else {
      std::memcpy(into, found->second->data() + within, now);
    }
    into += now;
    offset += now;
    length -= now;
  }
}

void SimDisk::truncate(Image& image, std::uint64_t size) {
  if (size < image.size) store(image, size, nullptr, image.size - size);
  image.size = size;
}

// The part [from, end) of a change, in offsets of the file.
void SimDisk::apply(Image& image, const Change& change, std::uint64_t from, std::uint64_t end) {
  if (change.zeroed > 0) {
    store(image, from, nullptr, end - from);
    return;
  }
  store(image, from, change.bytes.data() + (from - change.offset), end - from);
  image.size = std::max(image.size, end);
}

std::int64_t SimDisk::write(Inode& inode, const DiskCommand& command) {
  const std::uint64_t end = command.offset + command.length;
  std::uint64_t fresh = 0;
  for (std::uint64_t page = command.offset / kPage; page * kPage < end; ++page) {
    if (!inode.cache.pages.contains(page)) fresh += kPage;
  }
  if (fresh > 0 && capacity_ != UINT64_MAX && used_bytes() + fresh > capacity_) return -ENOSPC;
  Change change;
  change.offset = command.offset;
  change.bytes.assign(command.data, command.data + command.length);
  apply(inode.cache, change, command.offset, end);
  inode.pending.push_back(std::move(change));
  return static_cast<std::int64_t>(command.length);
}

bool SimDisk::matches(const Inode& inode, const std::string& name_part) const {
  if (name_part.empty()) return false;
  return std::ranges::any_of(names_, [&](const auto& entry) {
    return entry.second.get() == &inode && entry.first.find(name_part) != std::string::npos;
  });
}

std::int64_t SimDisk::sync(Inode& inode) {
  if (matches(inode, failing_syncs_)) {
    inode.pending.clear();  // never to reach the disk, and no longer known to be missing
    return -EIO;
  }
  // Only what the changes touched: after an earlier failed sync the cache holds pages the disk will never
  // get.
  for (const Change& change : inode.pending) {
    if (change.size) {
      truncate(inode.durable, *change.size);
    } else if (change.zeroed > 0) {
      apply(inode.durable, change, change.offset, change.offset + change.zeroed);
    } else {
      apply(inode.durable, change, change.offset, change.offset + change.bytes.size());
    }
  }
  inode.pending.clear();
  return 0;
}

std::int64_t SimDisk::perform(DiskCommand& command) {
  switch (command.op) {
    case DiskOp::open:
    case DiskOp::create:
    case DiskOp::rename:
    case DiskOp::unlink:
    case DiskOp::sync_dir:
    case DiskOp::list: return perform_name(command);
    case DiskOp::close: return open_.erase(command.file) == 1 ? 0 : -EBADF;
    default: break;
  }
  const auto found = open_.find(command.file);
  MOOR_ASSERT(found != open_.end(), "a command on file {}, which is not open", command.file);
  Inode& inode = *found->second;
  switch (command.op) {
    case DiskOp::pread: {
      ++reads_;
      if (matches(inode, failing_reads_)) return -EIO;
      const std::uint64_t size = inode.cache.size;
      const std::uint64_t got = command.offset >= size ? 0 : std::min(command.length, size - command.offset);
      load(inode.cache, command.offset, command.data, got);
      return static_cast<std::int64_t>(got);
    }
    case DiskOp::pwrite: return write(inode, command);
    case DiskOp::fdatasync: return sync(inode);
    case DiskOp::punch: {
      Change change;
      change.offset = command.offset;
      change.zeroed = command.length;
      apply(inode.cache, change, command.offset, command.offset + command.length);
      inode.pending.push_back(std::move(change));
      return 0;
    }
    case DiskOp::truncate: {
      Change change;
      change.size = command.offset;
      truncate(inode.cache, command.offset);
      inode.pending.push_back(std::move(change));
      return 0;
    }
    case DiskOp::size: return static_cast<std::int64_t>(inode.cache.size);
    default: MOOR_UNREACHABLE("unknown disk command");
  }
}

std::int64_t SimDisk::perform_name(DiskCommand& command) {
  const auto found = names_.find(command.name);
  switch (command.op) {
    case DiskOp::create: {
      if (capacity_ != UINT64_MAX && used_bytes() + kPage > capacity_) return -ENOSPC;
      auto inode = std::make_shared<Inode>();
      names_[command.name] = inode;
      name_changes_.push_back({"", command.name, inode});
      open_[next_file_] = inode;
      return next_file_++;
    }
    case DiskOp::open:
      if (found == names_.end()) return -ENOENT;
      open_[next_file_] = found->second;
      return next_file_++;
    case DiskOp::rename:
      if (found == names_.end()) return -ENOENT;
      name_changes_.push_back({command.name, command.new_name, found->second});
      names_[command.new_name] = found->second;
      names_.erase(command.name);
      return 0;
    case DiskOp::unlink:
      if (found == names_.end()) return -ENOENT;
      name_changes_.push_back({"", command.name, nullptr});
      names_.erase(found);
      return 0;
    case DiskOp::sync_dir:
      if (!failing_syncs_.empty() && failing_syncs_ == "/") return -EIO;
      durable_names_ = names_;
      name_changes_.clear();
      return 0;
    case DiskOp::list: command.names = list(); return 0;
    default: MOOR_UNREACHABLE("unknown disk command");
  }
}

void SimDisk::settle(Inode& inode) {
  for (const Change& change : inode.pending) {
    if (change.size) {
      if (random_.next() % 2 == 0) truncate(inode.durable, *change.size);
      continue;
    }
    const std::uint64_t end = change.offset + std::max<std::uint64_t>(change.zeroed, change.bytes.size());
    // All, nothing, or sector by sector: the middle ground alone would make whole survivals too rare to be
    // tested.
    const std::uint64_t kind = random_.next() % 4;
    if (kind == 0) continue;
    for (std::uint64_t at = change.offset; at < end;) {
      const std::uint64_t stop = std::min(end, (at / kSector + 1) * kSector);
      if (kind == 1 || random_.next() % 2 == 0) apply(inode.durable, change, at, stop);
      at = stop;
    }
  }
  inode.pending.clear();
  inode.cache = inode.durable;
}

void SimDisk::power_loss() {
  queue_.clear();
  open_.clear();
  for (const NameChange& change : name_changes_) {
    if (random_.next() % 2 == 0) continue;
    if (!change.from.empty()) durable_names_.erase(change.from);
    if (change.inode == nullptr) {
      durable_names_.erase(change.name);
    } else {
      durable_names_[change.name] = change.inode;
    }
  }
  name_changes_.clear();
  names_ = durable_names_;
  for (auto& [name, inode] : names_) settle(*inode);
  stopped_ = false;
  stop_at_ = UINT64_MAX;
}

void SimDisk::process_crash() {
  // The kernel finishes some of what was asked of it.
  for (DiskCommand* command : queue_) {
    if (command->op == DiskOp::pwrite && random_.next() % 2 == 0) (void)perform(*command);
  }
  queue_.clear();
  open_.clear();
  stopped_ = false;
  stop_at_ = UINT64_MAX;
}

std::uint64_t SimDisk::used_bytes() const {
  std::set<const Inode*> seen;
  std::uint64_t used = 0;
  const auto add = [&](const Inode& inode) {
    if (seen.insert(&inode).second) used += kPage + inode.cache.pages.size() * kPage;
  };
  for (const auto& [name, inode] : names_) add(*inode);
  for (const auto& [file, inode] : open_) add(*inode);
  return used;
}

std::vector<std::string> SimDisk::list() const {
  std::vector<std::string> names;
  for (const auto& [name, inode] : names_) names.push_back(name);
  return names;
}

void SimDisk::flip_bit(const std::string& name, std::uint64_t bit) {
  std::vector<std::byte> contents = get(name);
  MOOR_ASSERT(bit / 8 < contents.size(), "bit {} is beyond the end of {}", bit, name);
  contents[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  Inode& inode = *names_.at(name);
  for (Image* image : {&inode.cache, &inode.durable}) store(*image, bit / 8, &contents[bit / 8], 1);
}

std::uint64_t SimDisk::size_of(const std::string& name) const {
  return names_.at(name)->cache.size;
}

std::vector<std::byte> SimDisk::get(const std::string& name) const {
  const Inode& inode = *names_.at(name);
  std::vector<std::byte> contents(inode.cache.size);
  load(inode.cache, 0, contents.data(), contents.size());
  return contents;
}

void SimDisk::put(const std::string& name, const std::vector<std::byte>& contents) {
  auto inode = std::make_shared<Inode>();
  store(inode->cache, 0, contents.data(), contents.size());
  inode->cache.size = contents.size();
  inode->durable = inode->cache;
  names_[name] = inode;
  durable_names_[name] = inode;
}

}  // namespace moor::block
