// Response bodies that are written while they come into being (watches). The server owns the StreamBody and
// runs it once, on the loop's thread; the StreamWriter lives as long as that run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/task.h"

namespace moor::http {

// Bytes that many streams send at once: a watch event is rendered one time for all who get it.
using SharedText = std::shared_ptr<const std::string>;

class StreamWriter {
 public:
  virtual ~StreamWriter() = default;
  // Done when the kernel has taken all of it, so that a slow reader slows its writer. An error means that
  // the stream is over: the client has gone (unavailable) or was too slow (timed_out). One write at a time.
  // An empty chunk writes nothing. A stream that was told to end may still write its last words.
  virtual Task<Result<void>> write(std::string chunk) = 0;
  virtual Task<Result<void>> write(SharedText chunk) = 0;  // not copied
  // All parts as one chunk, none of them copied.
  virtual Task<Result<void>> write(std::vector<SharedText> parts) = 0;
};

// run() returning a value ends the body cleanly; an error ends it so that the client sees it is incomplete,
// except that a server which is stopping always ends its streams cleanly. A run must end soon after the
// request's token is cancelled.
class StreamBody {
 public:
  virtual ~StreamBody() = default;
  virtual Task<Result<void>> run(StreamWriter& writer) = 0;
};

// For bodies without state of their own. The function must not be a capturing coroutine; it calls one.
std::unique_ptr<StreamBody> make_stream(std::function<Task<Result<void>>(StreamWriter&)> run);

}  // namespace moor::http
