#include "base/assert.h"

#include <unistd.h>

#include <cstdlib>

#include "base/log.h"

namespace moor {

void assertion_failed(const AssertSite& site, std::string_view message) {
  const std::string text = fmt::format("assertion failed: {} at {}:{}{}{}\n", site.condition, site.file,
                                       site.line, message.empty() ? "" : ": ", message);
  if (log_waits()) flush_log();
  // Nothing can be done about a short write here; the abort below speaks for itself.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  std::abort();
}

}  // namespace moor
