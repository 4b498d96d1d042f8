// How a Json holds its value. Only json*.cc include this.
//
// Arrays and objects are counted nodes that copies share until one of them is changed. A node into which a
// reference for writing was handed out (`open`) is not shared any more, for nobody knows when that reference
// is last used: a copy of it gets a node of its own, whose items are shared as far as they can be. So a copy
// costs what was touched, and yet is a value of its own.
//
// The counts are atomic: copies of one value may live on several threads. A node with one owner, and
// therefore every open node, belongs to its owner's thread.
#pragma once

#include <atomic>
#include <cstring>
#include <iterator>
#include <new>

#include "base/json.h"

namespace moor::json {

enum class Tag : std::uint8_t {
  null,
  boolean,
  int64,
  uint64,
  number,
  short_string,
  long_string,
  array,
  object
};

struct Text {
  std::atomic<std::uint32_t> owners{1};
  std::uint32_t size = 0;
  char* data() { return reinterpret_cast<char*>(this + 1); }
  const char* data() const { return reinterpret_cast<const char*>(this + 1); }
};

// Items of either kind follow their node in memory.
struct Node {
  std::atomic<std::uint32_t> owners{1};
  bool open = false;
  std::uint32_t size = 0;
  std::uint32_t capacity = 0;
  std::uint32_t* index = nullptr;  // of objects with many members: places by hash, 0 for none
  std::uint32_t index_mask = 0;
};
static_assert(sizeof(Node) % 8 == 0);

// The node of every object without members that nobody has written to: half of the objects of an API are the
// empty ones of its managed fields. Never open, and its owners are not counted.
extern Node no_members;
inline bool is_counted(const Node* node) {
  return node != &no_members;
}

inline constexpr std::size_t kShort = 22;  // characters that fit into the value itself

struct Slot;  // a member of an object
}  // namespace moor::json

namespace moor {

struct JsonAccess {
  using Tag = json::Tag;
  static constexpr std::size_t kTag = Json::kTagPlace;
  static_assert(Tag::null == Tag{0} && static_cast<std::byte>(Tag::long_string) == Json::kFirstCounted);
  static_assert(std::size(Json::kKinds) == static_cast<std::size_t>(Tag::object) + 1);
  static constexpr std::size_t kLength = 22;

  static Tag tag(const Json& json) { return static_cast<Tag>(json.storage_[kTag]); }
  static void set_tag(Json& json, Tag tag) { json.storage_[kTag] = static_cast<std::byte>(tag); }
  template <class T>
  static T load(const Json& json) {
    T value;
    std::memcpy(&value, json.storage_, sizeof value);
    return value;
  }
  template <class T>
  static void store(Json& json, T value, Tag tag) {
    std::memcpy(json.storage_, &value, sizeof value);
    set_tag(json, tag);
  }
  static json::Node* node(const Json& json) { return load<json::Node*>(json); }
  static bool has_node(const Json& json) { return tag(json) >= Tag::array; }

  static std::string_view text(const Json& json) {
    if (tag(json) == Tag::short_string)
      return {reinterpret_cast<const char*>(json.storage_), static_cast<std::size_t>(json.storage_[kLength])};
    const auto* text = load<const json::Text*>(json);
    return {text->data(), text->size};
  }
  static void set_text(Json& json, std::string_view text);
  // A short text is filled up with zeros, so that two of them are equal when all their bytes are.
  struct Image {
    std::uint64_t words[3];
    bool operator==(const Image&) const = default;
  };
  static Image image(const Json& json) {
    Image image;
    std::memcpy(&image, json.storage_, sizeof image);
    return image;
  }

  // Values can be moved in memory by copying their bytes: nothing in them points at them.
  static void relocate(Json* to, const Json* from, std::size_t count) {
    std::memcpy(static_cast<void*>(to), static_cast<const void*>(from), count * sizeof(Json));
  }
  // Puts a node of its own into a value that owns nothing.
  static void set_node(Json& json, json::Node* node, Tag tag) { store(json, node, tag); }
  static std::byte* bytes(Json& json) { return json.storage_; }
};

namespace json {

struct Slot {
  Json key;
  Json value;
};

inline Json* items(Node* node) {
  return reinterpret_cast<Json*>(node + 1);
}
inline Slot* members(Node* node) {
  return reinterpret_cast<Slot*>(node + 1);
}
inline std::string_view key_of(const Slot& slot) {
  return JsonAccess::text(slot.key);
}

// A node with room for so many items, none in it yet.
Node* make_array(std::size_t capacity);
Node* make_object(std::size_t capacity);
// Members that were put behind each other by hand: keys that stand twice keep the last value, and large
// objects get their index.
void finish_object(Node* node);

}  // namespace json
}  // namespace moor
