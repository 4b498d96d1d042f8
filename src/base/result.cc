#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace moor {

std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::not_found: return "not found";
    case Errc::already_exists: return "already exists";
    case Errc::conflict: return "conflict";
    case Errc::invalid: return "invalid";
    case Errc::unauthorized: return "unauthorized";
    case Errc::forbidden: return "forbidden";
    case Errc::expired: return "expired";
    case Errc::exhausted: return "exhausted";
    case Errc::unavailable: return "unavailable";
    case Errc::timed_out: return "timed out";
    case Errc::cancelled: return "cancelled";
    case Errc::corrupt: return "corrupt";
    case Errc::unsupported: return "unsupported";
    case Errc::internal: return "internal";
  }
  return "unknown";
}

namespace {
Errc errc_of(int error_number) {
  switch (error_number) {
    case ENOENT: return Errc::not_found;
    case EEXIST: return Errc::already_exists;
    case EACCES:
    case EPERM: return Errc::forbidden;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE: return Errc::exhausted;
    case EAGAIN:
    case EBUSY:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE: return Errc::unavailable;
    case ETIMEDOUT: return Errc::timed_out;
    case ECANCELED: return Errc::cancelled;
    case EINVAL: return Errc::invalid;
    default: return Errc::internal;
  }
}
}  // namespace

Error errno_error(int error_number, std::string_view what) {
  char buffer[128];
  const char* text = strerror_r(error_number, buffer, sizeof buffer);  // thread-safe, unlike strerror
  return Error{errc_of(error_number), std::string(what) + ": " + text};
}

}  // namespace moor
