// What a status of a call means for the caller, by etcd's api/v3rpc/rpctypes/error.go and gRPC's own
// messages. The one question that must never be answered too hopefully: had the call certainly no effect?
#include <string_view>

#include "store/etcd/wire.h"

namespace moor::store::etcd {
namespace {

// gRPC's status codes, which are fixed by the protocol.
enum Status : int {
  kCancelled = 1,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Refused by the server: no effect, and the same request is refused again.
CallError refused(Errc code, const std::string& message) {
  return {make_error(code, "etcd: " + message), true, false, false, 0};
}

CallError not_now(const std::string& message) {
  return {make_error(Errc::unavailable, "etcd: " + message), true, true, false, 0};
}

CallError unknown(Errc code, const std::string& message) {
  return {make_error(code, "etcd: " + message), false, true, false, 0};
}

CallError resource_exhausted(const std::string& message) {
  // "grpc: received …" is the server's word about our request, "Received …" our own about its answer.
  if (has(message, "Received message larger"))
    return {make_error(Errc::exhausted, "etcd: " + message), false, false, true, 0};
  if (has(message, "too many requests")) return not_now(message);
  return refused(Errc::exhausted, message);
}

CallError unavailable(const std::string& message) {
  // The call never left: no connection was there, or the server had no leader to hand it to.
  for (const std::string_view sure :
       {"failed to connect to all addresses", "empty address list", "DNS resolution failed",
        "etcdserver: no leader", "etcdserver: not capable", "not supported for learner"}) {
    if (has(message, sure)) return not_now(message);
  }
  return unknown(Errc::unavailable, message);
}

}  // namespace

CallError classify(int status_code, const std::string& message) {
  switch (status_code) {
    case kDeadlineExceeded:
      return unknown(Errc::timed_out, "no answer in time");
    case kInvalidArgument:
      if (has(message, "request is too large") || has(message, "too many operations"))
        return refused(Errc::exhausted, message);
      return refused(Errc::internal, message);
    case kNotFound:
      return refused(Errc::not_found, message);
    case kPermissionDenied:
      return refused(Errc::forbidden, message);
    case kUnauthenticated:
      return refused(Errc::unauthorized, message);
    case kResourceExhausted:
      return resource_exhausted(message);
    case kOutOfRange:
      return refused(has(message, "future") ? Errc::unavailable : Errc::expired, message);
    case kUnimplemented:
      return refused(Errc::unsupported, message);
    case kDataLoss:
      return refused(Errc::corrupt, message);
    case kFailedPrecondition:
      return refused(Errc::internal, message);
    case kUnavailable:
      return unavailable(message);
    case kCancelled:
    default:
      return unknown(Errc::unavailable, message.empty() ? "the call was broken off" : message);
  }
}

}  // namespace moor::store::etcd
