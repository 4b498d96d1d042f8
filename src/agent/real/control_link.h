// The control protocol of moorblk from the side of a client, on the loop.
#pragma once

#include <memory>
#include <string>

#include "agent/host.h"
#include "base/loop.h"

namespace moor::agent {

// One try: connects, says hello, subscribes to everything. unavailable: nobody listens there.
Task<Result<std::unique_ptr<Control>>> open_control(Loop& loop, std::string path, CancelToken token);

}  // namespace moor::agent
