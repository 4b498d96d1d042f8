// What can fail returns Result<T>: a value, or an Error with one small code that callers branch on and a
// sentence for people. Results must be looked at ([[nodiscard]]); a broken invariant is no Result but a
// MOOR_ASSERT. Each door maps Errc to its own codes in one table.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace moor {

enum class Errc {
  not_found,       // the thing named does not exist
  already_exists,  // a thing of that name exists
  conflict,        // our view was old: read again, decide again
  invalid,         // the request can never succeed as it stands
  unauthorized,    // who is asking is not known
  forbidden,       // who is asking is known and may not
  expired,         // the revision or token asked for is too old to be served
  exhausted,       // a limit is reached (space, size, count): the message names it
  unavailable,     // try again later: not now, not ready, cut off
  timed_out,       // no answer in time: it may or may not have happened
  cancelled,       // the caller asked to stop
  corrupt,         // stored data is damaged; never guessed around
  unsupported,     // a newer format or a feature this build does not have
  internal,        // a failure of ours or of the system below, named in the message
};

std::string_view to_string(Errc code);

struct Error {
  Errc code;
  std::string message;

  // The same error seen from one floor up: "open volume v1: no such file".
  Error with_context(std::string_view context) && {
    message.insert(0, ": ").insert(0, context);
    return std::move(*this);
  }
  bool operator==(const Error&) const = default;
};

inline Error make_error(Errc code, std::string message) {
  return Error{code, std::move(message)};
}

// An Error out of errno, with what was tried: "fsync /x/meta: Input/output error".
Error errno_error(int error_number, std::string_view what);

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
  using Base = tl::expected<T, Error>;

 public:
  using value_type = T;
  using Base::Base;
  Result(Error error) : Base(tl::unexpect, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return this->has_value(); }
  Errc code() const { return this->error().code; }
  bool is(Errc code) const { return !ok() && this->error().code == code; }
};

}  // namespace moor

#define MOOR_CAT_(a, b) a##b
#define MOOR_CAT(a, b) MOOR_CAT_(a, b)
#define MOOR_TRY_IMPL(ret, tmp, decl, ...) \
  auto&& tmp = (__VA_ARGS__);              \
  if (!tmp) [[unlikely]]                   \
    ret std::move(tmp).error();            \
  decl = *std::move(tmp)
#define MOOR_TRY_VOID_IMPL(ret, tmp, ...) \
  do {                                    \
    auto&& tmp = (__VA_ARGS__);           \
    if (!tmp) [[unlikely]]                \
      ret std::move(tmp).error();         \
  } while (false)

// TRY(auto volume, store.get(key));   passes an error up, else gives the value a name.
// TRY_VOID(store.check());            the same for Result<void>.
#define TRY(decl, ...) MOOR_TRY_IMPL(return, MOOR_CAT(try_, __COUNTER__), decl, __VA_ARGS__)
#define TRY_VOID(...) MOOR_TRY_VOID_IMPL(return, MOOR_CAT(try_, __COUNTER__), __VA_ARGS__)
// The same inside a coroutine: CO_TRY(auto page, co_await store.list(options));
#define CO_TRY(decl, ...) MOOR_TRY_IMPL(co_return, MOOR_CAT(try_, __COUNTER__), decl, __VA_ARGS__)
#define CO_TRY_VOID(...) MOOR_TRY_VOID_IMPL(co_return, MOOR_CAT(try_, __COUNTER__), __VA_ARGS__)
