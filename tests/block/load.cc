#include "load.h"

#include <errno.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>

namespace moor::block::e2e {

namespace {
template <class Visit>
void each_sector(Extent extent, Visit visit) {
  for (std::uint64_t s = extent.offset / kModelSector; s < extent.end() / kModelSector; ++s) visit(s);
}
using Clock = std::chrono::steady_clock;
}  // namespace

bool VolumeModel::is_free(Extent extent, bool writing) const {
  bool free = true;
  each_sector(extent, [&](std::uint64_t s) {
    free = free && !open_.contains(s) && (writing ? users_[s] == 0 : users_[s] < kWriting - 1);
  });
  return free;
}

void VolumeModel::begin(Extent extent, bool writing, Tag tag) {
  each_sector(extent, [&](std::uint64_t s) {
    if (writing) {
      users_[s] = kWriting;
      open_[s] = tag;
    } else {
      ++users_[s];
    }
  });
}

void VolumeModel::done(Extent extent, bool writing, Tag tag, bool fua) {
  each_sector(extent, [&](std::uint64_t s) {
    if (!writing) {
      --users_[s];
      return;
    }
    users_[s] = 0;
    open_.erase(s);
    if (fua) {
      older_.erase(s);
    } else {
      older_[s].insert(now[s]);
    }
    now[s] = tag;
  });
}

void VolumeModel::unknown(Extent extent, bool writing) {
  each_sector(extent, [&](std::uint64_t s) { users_[s] = writing ? 0 : users_[s] - 1; });
}

void VolumeModel::refused(Extent extent) {
  each_sector(extent, [&](std::uint64_t s) {
    users_[s] = 0;
    open_.erase(s);
  });
}

std::string VolumeModel::adopt(const std::vector<Tag>& found, bool every_replica_died) {
  if (found.size() != now.size()) return "the volume has another size";
  std::string wrong;
  std::uint64_t count = 0;
  for (std::uint64_t s = 0; s < found.size(); ++s) {
    const Tag tag = found[s];
    const auto open = open_.find(s);
    const auto older = older_.find(s);
    const bool allowed = tag == now[s] || (open != open_.end() && tag == open->second) ||
                         (every_replica_died && older != older_.end() && older->second.contains(tag));
    if (!allowed && count++ == 0) {
      wrong = fmt::format("sector {} holds {}, acknowledged is {}{}", s, static_cast<std::int64_t>(tag),
                          now[s], open != open_.end() ? fmt::format(", open {}", open->second) : "");
    }
  }
  if (count > 1) wrong += fmt::format(" (and {} more sectors)", count - 1);
  now = found;
  open_.clear();
  older_.clear();
  std::fill(users_.begin(), users_.end(), 0);
  return wrong;
}

bool Load::connect(const std::string& uri) {
  for (int i = 0; i < options_.connections; ++i) {
    nbd_handle* handle = nbd_create();
    handles_.push_back(handle);
    if (nbd_add_meta_context(handle, "base:allocation") != 0 || nbd_connect_uri(handle, uri.c_str()) != 0) {
      fail(fmt::format("cannot connect: {}", nbd_get_error()));
      return false;
    }
  }
  return true;
}

void Load::disconnect() {
  for (nbd_handle* handle : handles_) nbd_close(handle);
  handles_.clear();
  for (auto& [pointer, slot] : slots_) {
    if (slot->kind != Kind::flush) {
      model_.unknown(slot->extent, slot->kind != Kind::read && slot->kind != Kind::status);
    }
  }
  slots_.clear();
  retired_.clear();
}

Load::Kind Load::some_kind() {
  const std::uint64_t dice = random_() % 100;
  if (options_.small_only) return dice < 85 ? Kind::write : dice < 90 ? Kind::trim : Kind::read;
  if (dice < 45) return Kind::write;
  if (dice < 70) return Kind::read;
  if (dice < 78) return Kind::trim;
  if (dice < 88) return Kind::zero;
  return dice < 94 ? Kind::flush : Kind::status;
}

Extent Load::some_extent(Kind kind) {
  if (kind == Kind::flush) return {};
  std::uint64_t sectors = 1;
  if (!options_.small_only) {
    const std::uint64_t dice = random_() % 100;
    if (dice < 30)
      sectors = 1 + random_() % 8;
    else if (dice < 60)
      sectors = 8 * (1 + random_() % 16);
    else if (dice < 85)
      sectors = 1 + random_() % 128;
    else if (dice < 98)
      sectors = 1 + random_() % 512;
    else
      sectors = 1 + random_() % (options_.most_bytes / kModelSector);
  }
  sectors = std::min(sectors, model_.now.size() / 4);
  // A third of the requests within a small part, so that layers and blocks are written again and again.
  const std::uint64_t room = random_() % 3 == 0 ? std::max<std::uint64_t>(sectors, 2048) : model_.now.size();
  const std::uint64_t first = random_() % (std::min<std::uint64_t>(room, model_.now.size()) - sectors + 1);
  return {first * kModelSector, sectors * kModelSector};
}

bool Load::submit(nbd_handle* handle) {
  const Kind kind = some_kind();
  const bool writing = kind == Kind::write || kind == Kind::trim || kind == Kind::zero;
  Extent extent = some_extent(kind);
  for (int tries = 0; !model_.is_free(extent, writing); ++tries) {
    if (tries == 20) return false;
    extent = some_extent(kind);
  }
  auto slot = std::make_unique<Slot>();
  slot->load = this;
  slot->kind = kind;
  slot->extent = extent;
  slot->fua = writing && random_() % 10 == 0;
  if (kind == Kind::write) {
    slot->tag = next_tag++;
    slot->bytes = fill(slot->tag, extent);
  }
  if (kind == Kind::read) slot->bytes.resize(extent.length);
  Slot& sent = *slot;
  slots_[slot.get()] = std::move(slot);
  if (kind != Kind::flush) model_.begin(extent, writing, sent.tag);
  if (writing) each_sector(extent, [&](std::uint64_t s) { written_[s].insert(sent.tag); });
  ++requests_;
  bytes_ += extent.length;
  return send(handle, sent);
}

bool Load::send(nbd_handle* handle, Slot& slot) {
  nbd_completion_callback done{};
  done.callback = &Load::on_done;
  done.user_data = &slot;
  const std::uint32_t fua = slot.fua ? LIBNBD_CMD_FLAG_FUA : 0;
  const std::uint64_t offset = slot.extent.offset;
  std::int64_t cookie = -1;
  switch (slot.kind) {
    case Kind::read:
      cookie = nbd_aio_pread(handle, slot.bytes.data(), slot.bytes.size(), offset, done, 0);
      break;
    case Kind::write:
      cookie = nbd_aio_pwrite(handle, slot.bytes.data(), slot.bytes.size(), offset, done, fua);
      break;
    case Kind::trim: cookie = nbd_aio_trim(handle, slot.extent.length, offset, done, fua); break;
    case Kind::zero: {
      const std::uint64_t dice = random_() % 3;
      slot.fast = dice == 2;
      const std::uint32_t how = dice == 0   ? LIBNBD_CMD_FLAG_NO_HOLE
                                : dice == 2 ? LIBNBD_CMD_FLAG_FAST_ZERO
                                            : 0;
      cookie = nbd_aio_zero(handle, slot.extent.length, offset, done, fua | how);
      break;
    }
    case Kind::flush: cookie = nbd_aio_flush(handle, done, 0); break;
    case Kind::status: {
      nbd_extent_callback extents{};
      extents.callback = &Load::on_extents;
      extents.user_data = &slot;
      cookie = nbd_aio_block_status(handle, slot.extent.length, offset, extents, done, 0);
    }
  }
  if (cookie >= 0) return true;
  if (!options_.may_break) fail(fmt::format("cannot send: {}", nbd_get_error()));
  return false;
}

int Load::on_done(void* data, int* error) {
  auto* slot = static_cast<Slot*>(data);
  slot->load->finish(*slot, *error);
  return 1;
}

// What is called a hole or zero must read as zeros. (Nothing writes there meanwhile.)
int Load::on_extents(void* data, const char*, std::uint64_t offset, std::uint32_t* entries, std::size_t count,
                     int*) {
  auto* slot = static_cast<Slot*>(data);
  for (std::size_t i = 0; i + 1 < count; i += 2) {
    const std::uint64_t end = std::min<std::uint64_t>(offset + entries[i], slot->extent.end());
    if ((entries[i + 1] & LIBNBD_STATE_ZERO) != 0 && offset < end) {
      each_sector({offset, end - offset}, [&](std::uint64_t s) {
        if (slot->load->model_.now[s] != 0) {
          slot->load->fail(
              fmt::format("sector {} is said to be zero and holds {}", s, slot->load->model_.now[s]));
        }
      });
    }
    offset += entries[i];
  }
  return 0;
}

void Load::finish(Slot& slot, int error) {
  const bool writing = slot.kind != Kind::read && slot.kind != Kind::flush && slot.kind != Kind::status;
  const bool refused = slot.fast && error == ENOTSUP;  // an honest answer, and nothing has happened
  if (error != 0 && !refused && !options_.may_break) {
    fail(fmt::format("request {} at {}+{} failed: {}", static_cast<int>(slot.kind), slot.extent.offset,
                     slot.extent.length, error));
  }
  if (refused) {
    model_.refused(slot.extent);
  } else if (error != 0 && slot.kind != Kind::flush) {
    model_.unknown(slot.extent, writing);
  } else if (slot.kind != Kind::flush) {
    if (slot.kind == Kind::read) check_read(slot);
    model_.done(slot.extent, writing, slot.tag, slot.fua);
  }
  auto node = slots_.extract(&slot);
  retired_.push_back(std::move(node.mapped()));
}

void Load::check_read(const Slot& slot) {
  for (std::uint64_t at = 0; at < slot.extent.length; at += kModelSector) {
    const std::uint64_t sector = (slot.extent.offset + at) / kModelSector;
    const Tag tag = tag_of(slot.bytes.data() + at, sector);
    if (tag != model_.now[sector]) {
      return fail(fmt::format("sector {} reads {}, acknowledged is {}", sector,
                              static_cast<std::int64_t>(tag), model_.now[sector]));
    }
  }
}

// One wait on all connections; false when none is left.
bool Load::turn(int milliseconds) {
  retired_.clear();
  std::vector<pollfd> waits;
  std::vector<nbd_handle*> owners;
  for (nbd_handle* handle : handles_) {
    if (nbd_aio_is_dead(handle) == 1 || nbd_aio_is_closed(handle) == 1) continue;
    const unsigned direction = nbd_aio_get_direction(handle);
    short events = 0;
    if ((direction & LIBNBD_AIO_DIRECTION_READ) != 0) events |= POLLIN;
    if ((direction & LIBNBD_AIO_DIRECTION_WRITE) != 0) events |= POLLOUT;
    waits.push_back({nbd_aio_get_fd(handle), events, 0});
    owners.push_back(handle);
  }
  if (waits.empty()) return false;
  if (::poll(waits.data(), waits.size(), milliseconds) <= 0) return true;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    const unsigned direction = nbd_aio_get_direction(owners[i]);
    if ((waits[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 &&
        (direction & LIBNBD_AIO_DIRECTION_READ) != 0) {
      nbd_aio_notify_read(owners[i]);
    } else if ((waits[i].revents & POLLOUT) != 0 && (direction & LIBNBD_AIO_DIRECTION_WRITE) != 0) {
      nbd_aio_notify_write(owners[i]);
    }
  }
  return true;
}

void Load::run(const std::function<bool()>& stop) {
  const auto began = Clock::now();
  const std::uint64_t first = requests_;
  const auto due = [&] {
    if (options_.per_second == 0) return true;
    const std::chrono::duration<double> elapsed = Clock::now() - began;
    return static_cast<double>(requests_ - first) <
           elapsed.count() * static_cast<double>(options_.per_second);
  };
  while (failure_.empty() && !stop()) {
    for (int tries = 0;
         slots_.size() < static_cast<std::size_t>(options_.depth) && tries < options_.depth && due();
         ++tries) {
      nbd_handle* handle = handles_[next_handle_++ % handles_.size()];
      if (nbd_aio_is_ready(handle) == 1 || nbd_aio_is_processing(handle) == 1) submit(handle);
    }
    if (!turn(options_.per_second == 0 ? 20 : 2)) break;
  }
}

bool Load::drain() {
  while (!slots_.empty() && failure_.empty()) {
    if (!turn(100)) return false;
  }
  return slots_.empty();
}

bool Load::flush() {
  if (!drain() || nbd_flush(handles_.front(), 0) != 0) return false;
  model_.flushed();
  return true;
}

std::vector<Tag> Load::read_all(const std::string& uri, std::uint64_t size, std::string& failure) {
  constexpr std::uint64_t kStep = 1u << 20;
  std::vector<Tag> tags;
  nbd_handle* handle = nbd_create();
  std::vector<std::byte> bytes(kStep);
  if (nbd_connect_uri(handle, uri.c_str()) != 0) failure = nbd_get_error();
  for (std::uint64_t at = 0; at < size && failure.empty(); at += kStep) {
    if (nbd_pread(handle, bytes.data(), kStep, at, 0) != 0) failure = nbd_get_error();
    for (std::uint64_t i = 0; i < kStep; i += kModelSector) {
      tags.push_back(tag_of(bytes.data() + i, (at + i) / kModelSector));
    }
  }
  nbd_close(handle);
  return tags;
}

}  // namespace moor::block::e2e
