// The Json value that rooms pass around. How it is held is known to json.cc and json_text.cc only. A copy
// shares what neither side writes to (json_inside.h, decision 0006), and is a value of its own all the same.
//
// Objects keep the order in which keys were added; keys and texts move when members are. Reading the wrong
// kind through as_*() is a programming error and asserts; look with is_*() or use the get_*() forms, which
// answer "absent" for a missing key and for a value of another kind alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace moor {

class Json {
 public:
  enum class Kind { null, boolean, int64, uint64, number, string, array, object };
  struct Member;  // {key, value} of an object, for building

  Json() noexcept { storage_[kTagPlace] = std::byte{0}; }
  Json(std::nullptr_t) noexcept;            // NOLINT(google-explicit-constructor)
  Json(bool value) noexcept;                // NOLINT
  Json(int value) noexcept;                 // NOLINT
  Json(long value) noexcept;                // NOLINT
  Json(long long value) noexcept;           // NOLINT
  Json(unsigned value) noexcept;            // NOLINT
  Json(unsigned long value) noexcept;       // NOLINT
  Json(unsigned long long value) noexcept;  // NOLINT
  Json(double value) noexcept;              // NOLINT
  Json(const char* value);                  // NOLINT
  Json(std::string_view value);             // NOLINT
  Json(const std::string& value);           // NOLINT
  Json(const Json& other);
  Json(Json&& other) noexcept {
    std::memcpy(storage_, other.storage_, sizeof storage_);
    other.storage_[kTagPlace] = std::byte{0};
  }
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json() {
    if (storage_[kTagPlace] >= kFirstCounted) release();
  }

  static Json object(std::initializer_list<Member> members = {});
  static Json array(std::initializer_list<Json> items = {});

  Kind kind() const { return kKinds[static_cast<std::size_t>(storage_[kTagPlace])]; }
  bool is_null() const { return kind() == Kind::null; }
  bool is_bool() const { return kind() == Kind::boolean; }
  bool is_integer() const { return kind() == Kind::int64 || kind() == Kind::uint64; }
  bool is_number() const { return is_integer() || kind() == Kind::number; }
  bool is_string() const { return kind() == Kind::string; }
  bool is_array() const { return kind() == Kind::array; }
  bool is_object() const { return kind() == Kind::object; }

  bool as_bool() const;
  double as_double() const;  // any number
  std::string_view as_string() const;
  // Absent when the value is no integer or does not fit.
  std::optional<std::int64_t> to_int64() const;
  std::optional<std::uint64_t> to_uint64() const;

  // Arrays and objects: the number of items; other kinds: 0.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  // Array items by position; asserts on a wrong kind or a position out of range.
  const Json& at(std::size_t index) const;
  Json& at(std::size_t index);
  Json& push_back(Json value);
  void insert(std::size_t index, Json value);
  void erase(std::size_t index);

  // Object members. find() answers nullptr when this is no object or the key is missing.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  Json& set(std::string_view key, Json value);  // asserts unless object
  Json& operator[](std::string_view key);       // inserts null when missing; a null Json becomes an object
  bool erase(std::string_view key);             // keeps the order of the others
  // Members by position, in the order they were added.
  std::string_view key_at(std::size_t index) const;
  const Json& value_at(std::size_t index) const;
  Json& value_at(std::size_t index);

  // A nested member: find_path({"spec", "nodeID"}).
  const Json* find_path(std::initializer_list<std::string_view> path) const;
  std::optional<std::string_view> get_string(std::string_view key) const;
  std::optional<std::int64_t> get_int64(std::string_view key) const;
  std::optional<std::uint64_t> get_uint64(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;

  // Equal as JSON: the order of an object's members plays no part, 1 equals 1u.
  friend bool operator==(const Json& a, const Json& b);

 private:
  friend struct JsonAccess;
  // Known here so that the smallest steps need no call; json_inside.h has the tags.
  static constexpr std::size_t kTagPlace = 23;
  static constexpr std::byte kFirstCounted{6};
  static constexpr Kind kKinds[] = {Kind::null,   Kind::boolean, Kind::int64, Kind::uint64, Kind::number,
                                    Kind::string, Kind::string,  Kind::array, Kind::object};
  void release();  // what the value shares or owns
  // A tag, and a number, a short text or a counted node (json_inside.h).
  alignas(8) std::byte storage_[24];
};

struct Json::Member {
  std::string_view key;
  Json value;
};

struct JsonParseOptions {
  std::size_t max_depth = 64;
  bool allow_duplicate_keys = true;  // the last one wins, as in Kubernetes without strict validation
  // When set: dotted paths of keys that stood twice, up to 32 of them.
  std::vector<std::string>* duplicates = nullptr;
};

// Strict RFC 8259 in valid UTF-8; an error says where.
Result<Json> parse_json(std::string_view text, const JsonParseOptions& options = {});

// Compact text. Doubles print as people write them (1.5, not 1.5E0); integral doubles keep no ".0".
std::string to_text(const Json& value);
void append_text(std::string& out, const Json& value);
std::string to_pretty_text(const Json& value, int indent = 2);
// A JSON string literal with its quotes; also used by the log.
void append_json_string(std::string& out, std::string_view text);

}  // namespace moor
