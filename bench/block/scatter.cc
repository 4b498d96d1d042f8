#include "bench/block/scatter.h"

#include <libnbd.h>

#include <array>

#include "base/assert.h"

namespace moor::bench {

Scatter::Scatter(const std::string& uri) : handle_(nbd_create()) {
  MOOR_ASSERT(handle_ != nullptr && nbd_connect_uri(handle_, uri.c_str()) == 0, "{}: {}", uri,
              nbd_get_error());
}

Scatter::~Scatter() {
  nbd_shutdown(handle_, 0);
  nbd_close(handle_);
}

void Scatter::write(const std::vector<std::uint64_t>& offsets, std::uint8_t fill) {
  std::array<std::uint8_t, 4096> block{};
  block.fill(fill);
  for (const std::uint64_t offset : offsets) {
    const auto cookie = nbd_aio_pwrite(handle_, block.data(), block.size(), offset, NBD_NULL_COMPLETION, 0);
    MOOR_ASSERT(cookie > 0, "{}", nbd_get_error());
  }
  while (nbd_aio_in_flight(handle_) > 0) {
    MOOR_ASSERT(nbd_poll(handle_, -1) >= 0, "{}", nbd_get_error());
    for (std::int64_t done = 0; (done = nbd_aio_peek_command_completed(handle_)) > 0;) {
      MOOR_ASSERT(nbd_aio_command_completed(handle_, static_cast<std::uint64_t>(done)) == 1, "{}",
                  nbd_get_error());
    }
  }
}

}  // namespace moor::bench
