// Work that may block on our own FUSE file or loop device, done in a child process: the loop goes on
// answering meanwhile. The child holds none of our descriptors, so that when this process dies the kernel
// ends whatever the child waits for. One thread forks, so the child may run ordinary code.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "block/io/loop.h"

namespace moor::block::device {

using Work = std::function<Result<std::string>()>;
using WorkDone = std::function<void(Result<std::string>)>;

// `done` is called once, on the loop, with what the work returned (at most 4 KiB); unavailable: no child
// could be made, or it died. Whoever is gone by then must have made `done` harmless.
void run_in_child(io::Loop& loop, Work work, WorkDone done);

}  // namespace moor::block::device
