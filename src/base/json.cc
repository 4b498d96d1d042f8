#include "base/json.h"

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "base/json_inside.h"
#include "base/json_share.h"

namespace moor {

using json::Node;
using json::Slot;
using json::Text;
using Access = JsonAccess;
using Tag = json::Tag;

namespace json {

constinit Node no_members{.owners = 2};  // nobody's alone

namespace {

constexpr std::size_t kFirstMembers = 4;  // room that a first item makes

// Objects with more members than this are looked up by hash.
constexpr std::uint32_t kScanned = 24;

void* allocate(std::size_t bytes) {
  void* memory = std::malloc(bytes);
  MOOR_ASSERT(memory != nullptr, "no memory for a JSON value of {} bytes", bytes);
  return memory;
}

std::uint32_t checked(std::size_t size) {
  MOOR_ASSERT(size < std::numeric_limits<std::uint32_t>::max() / 4, "a JSON value with {} items", size);
  return static_cast<std::uint32_t>(size);
}

Node* make_node(std::size_t capacity, std::size_t item_bytes) {
  Node* node = new (allocate(sizeof(Node) + capacity * item_bytes)) Node;
  node->capacity = checked(capacity);
  return node;
}

std::size_t hash(std::string_view key) {
  return std::hash<std::string_view>()(key);
}

void drop_index(Node* node) {
  std::free(node->index);
  node->index = nullptr;
}

void note_in_index(Node* node, std::uint32_t place) {
  std::size_t at = hash(key_of(members(node)[place])) & node->index_mask;
  while (node->index[at] != 0) at = (at + 1) & node->index_mask;
  node->index[at] = place + 1;
}

void build_index(Node* node) {
  drop_index(node);
  if (node->size <= kScanned) return;
  std::size_t room = 64;
  while (room < std::size_t{node->capacity} * 2) room *= 2;
  node->index = static_cast<std::uint32_t*>(allocate(room * sizeof(std::uint32_t)));
  std::memset(node->index, 0, room * sizeof(std::uint32_t));
  node->index_mask = checked(room - 1);
  for (std::uint32_t i = 0; i < node->size; ++i) note_in_index(node, i);
}

// A short text as it lies in a value. Put together from whole words, without a call: nearly every look into
// an object begins here.
Access::Image image_of(std::string_view text) {
  static_assert(std::endian::native == std::endian::little, "bytes of a text are the low bytes of its words");
  const auto load = [&](std::size_t at, auto word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    return static_cast<std::uint64_t>(word);
  };
  const auto byte = [&](std::size_t at) {
    return static_cast<std::uint64_t>(static_cast<unsigned char>(text[at])) << (8 * at);
  };
  const std::size_t size = text.size();
  Access::Image image{};
  if (size >= 8) image.words[0] = load(0, std::uint64_t{});
  if (size >= 16) image.words[1] = load(8, std::uint64_t{});
  // The last word overlaps the one before it, and what both hold is shifted out.
  if (size > 16)
    image.words[2] = load(size - 8, std::uint64_t{}) >> (8 * (24 - size));
  else if (size > 8 && size < 16)
    image.words[1] = load(size - 8, std::uint64_t{}) >> (8 * (16 - size));
  else if (size >= 4 && size < 8)
    image.words[0] = load(0, std::uint32_t{}) | load(size - 4, std::uint32_t{}) << (8 * (size - 4));
  else if (size > 0 && size < 4)
    image.words[0] = byte(0) | byte(size / 2) | byte(size - 1);
  image.words[2] |= static_cast<std::uint64_t>(size) << (8 * (Access::kLength - 16)) |
                    static_cast<std::uint64_t>(Tag::short_string) << (8 * (Access::kTag - 16));
  return image;
}

Slot* look_up(Node* node, std::string_view key) {
  Slot* slots = members(node);
  if (node->index == nullptr && key.size() <= kShort) {
    const Access::Image wanted = image_of(key);
    for (Slot* slot = slots; slot != slots + node->size; ++slot)
      if (Access::load<std::uint64_t>(slot->key) == wanted.words[0] && Access::image(slot->key) == wanted)
        return slot;
    return nullptr;
  }
  if (node->index == nullptr) {
    for (std::uint32_t i = 0; i < node->size; ++i)
      if (key_of(slots[i]) == key) return &slots[i];
    return nullptr;
  }
  for (std::size_t at = hash(key) & node->index_mask; node->index[at] != 0; at = (at + 1) & node->index_mask)
    if (key_of(slots[node->index[at] - 1]) == key) return &slots[node->index[at] - 1];
  return nullptr;
}

Node* copy_array(Node* from, std::size_t capacity) {
  Node* node = make_array(capacity);
  for (std::uint32_t i = 0; i < from->size; ++i) new (&items(node)[i]) Json(items(from)[i]);
  node->size = from->size;
  return node;
}

Node* copy_object(Node* from, std::size_t capacity) {
  Node* node = make_object(capacity);
  for (std::uint32_t i = 0; i < from->size; ++i)
    new (&members(node)[i]) Slot{members(from)[i].key, members(from)[i].value};
  node->size = from->size;
  build_index(node);
  return node;
}

void release(Node* node, Tag tag) {  // NOLINT(misc-no-recursion): as deep as the value
  if (!is_counted(node)) return;
  if (node->owners.load(std::memory_order_acquire) != 1 &&
      node->owners.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  if (tag == Tag::array) {
    for (std::uint32_t i = 0; i < node->size; ++i) items(node)[i].~Json();
  } else {
    for (std::uint32_t i = 0; i < node->size; ++i) members(node)[i].~Slot();
    drop_index(node);
  }
  std::free(node);
}

void release(Text* text) {
  if (text->owners.load(std::memory_order_acquire) == 1 ||
      text->owners.fetch_sub(1, std::memory_order_acq_rel) == 1)
    std::free(text);
}

// The value's node for writing: its own from here on.
Node* own(Json& json) {
  Node* node = Access::node(json);
  if (!is_counted(node)) {
    node = make_object(kFirstMembers);
    Access::set_node(json, node, Tag::object);
  } else if (node->owners.load(std::memory_order_acquire) != 1) {
    const Tag tag = Access::tag(json);
    Node* copy =
        tag == Tag::array ? copy_array(node, node->size + 1) : copy_object(node, std::size_t{node->size} + 1);
    release(node, tag);
    Access::set_node(json, copy, tag);
    node = copy;
  }
  node->open = true;
  return node;
}

Node* with_room(Json& json) {
  Node* node = own(json);
  if (node->size < node->capacity) return node;
  const bool array = Access::tag(json) == Tag::array;
  const std::uint32_t capacity = checked(std::max<std::size_t>(kFirstMembers, std::size_t{node->size} * 2));
  void* memory =
      std::realloc(static_cast<void*>(node), sizeof(Node) + capacity * (array ? sizeof(Json) : sizeof(Slot)));
  MOOR_ASSERT(memory != nullptr, "no memory for a JSON value of {} items", capacity);
  node = static_cast<Node*>(memory);
  node->capacity = capacity;
  Access::set_node(json, node, array ? Tag::array : Tag::object);
  if (node->index != nullptr) build_index(node);
  return node;
}

Json& append_member(Json& json, std::string_view key, Json value) {
  Node* node = with_room(json);
  Slot* slot = new (&members(node)[node->size]) Slot{Json(key), std::move(value)};
  ++node->size;
  if (node->index != nullptr) {
    note_in_index(node, node->size - 1);
  } else if (node->size > kScanned) {
    build_index(node);
  }
  return slot->value;
}

}  // namespace

Node* make_array(std::size_t capacity) {
  return make_node(capacity, sizeof(Json));
}
Node* make_object(std::size_t capacity) {
  return make_node(capacity, sizeof(Slot));
}

namespace {

// One bit of 64: keys without a bit in common differ. 0: not known.
std::uint64_t mark_of(const Json& key) {
  if (Access::tag(key) != Tag::short_string) return 0;
  const Access::Image image = Access::image(key);
  const std::uint64_t mixed =
      (image.words[0] ^ image.words[1] * 3 ^ image.words[2] * 5) * 0x9e3779b97f4a7c15u;
  return std::uint64_t{1} << (mixed >> 58);
}

}  // namespace

void finish_object(Node* node) {
  Slot* slots = members(node);
  std::uint32_t kept = 0;
  const std::uint32_t given = node->size;
  node->size = 0;
  const bool indexed = given > kScanned;
  if (indexed) {
    node->size = given;
    build_index(node);
    std::memset(node->index, 0, (std::size_t{node->index_mask} + 1) * sizeof(std::uint32_t));
    node->size = 0;
  }
  std::uint64_t seen = 0;
  for (std::uint32_t i = 0; i < given; ++i) {
    const std::uint64_t mark = mark_of(slots[i].key);
    const bool is_new = mark != 0 && (seen & mark) == 0;
    seen |= mark;
    if (Slot* earlier = is_new ? nullptr : look_up(node, key_of(slots[i]))) {
      earlier->value = std::move(slots[i].value);
      slots[i].~Slot();
      continue;
    }
    if (kept != i) std::memcpy(static_cast<void*>(&slots[kept]), static_cast<void*>(&slots[i]), sizeof(Slot));
    node->size = ++kept;
    if (indexed) note_in_index(node, kept - 1);
  }
}

}  // namespace json

void JsonAccess::set_text(Json& json, std::string_view text) {
  if (text.size() <= json::kShort) {
    const Image image = json::image_of(text);
    std::memcpy(json.storage_, &image, sizeof json.storage_);
    return;
  }
  Text* held = new (json::allocate(sizeof(Text) + text.size())) Text;
  held->size = json::checked(text.size());
  std::memcpy(held->data(), text.data(), text.size());
  store(json, held, Tag::long_string);
}

Json::Json(std::nullptr_t) noexcept : Json() {}
Json::Json(bool value) noexcept {
  Access::store(*this, value, Tag::boolean);
}
Json::Json(int value) noexcept : Json(static_cast<long long>(value)) {}
Json::Json(long value) noexcept : Json(static_cast<long long>(value)) {}
Json::Json(long long value) noexcept {
  Access::store(*this, static_cast<std::int64_t>(value), Tag::int64);
}
Json::Json(unsigned value) noexcept : Json(static_cast<unsigned long long>(value)) {}
Json::Json(unsigned long value) noexcept : Json(static_cast<unsigned long long>(value)) {}
Json::Json(unsigned long long value) noexcept {
  Access::store(*this, static_cast<std::uint64_t>(value), Tag::uint64);
}
Json::Json(double value) noexcept {
  Access::store(*this, value, Tag::number);
}
Json::Json(const char* value) : Json(std::string_view(value)) {}
Json::Json(std::string_view value) {
  Access::set_text(*this, value);
}
Json::Json(const std::string& value) : Json(std::string_view(value)) {}

Json::Json(const Json& other) {  // NOLINT(misc-no-recursion): open nodes only
  std::memcpy(storage_, other.storage_, sizeof storage_);
  const Tag tag = Access::tag(other);
  if (tag < Tag::long_string) return;
  if (tag == Tag::long_string) {
    Access::load<Text*>(other)->owners.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Node* node = Access::node(other);
  if (!node->open) {
    if (json::is_counted(node)) node->owners.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Access::set_node(
      *this, tag == Tag::array ? json::copy_array(node, node->size) : json::copy_object(node, node->size),
      tag);
}

Json& Json::operator=(const Json& other) {
  if (this != &other) *this = Json(other);  // it may be a part of what it replaces
  return *this;
}

Json& Json::operator=(Json&& other) noexcept {
  if (this == &other) return *this;
  Json old(std::move(*this));  // goes last: the other may be a part of it
  std::memcpy(storage_, other.storage_, sizeof storage_);
  Access::set_tag(other, Tag::null);
  return *this;
}

void Json::release() {  // NOLINT(misc-no-recursion): as deep as the value
  const Tag tag = Access::tag(*this);
  if (tag == Tag::long_string) {
    json::release(Access::load<Text*>(*this));
  } else {
    json::release(Access::node(*this), tag);
  }
}

Json Json::object(std::initializer_list<Member> members) {
  Json made;
  if (members.size() == 0) {
    Access::set_node(made, &json::no_members, Tag::object);
    return made;
  }
  Node* node = json::make_object(members.size());
  for (const Member& member : members)
    new (&json::members(node)[node->size++]) Slot{Json(member.key), member.value};
  json::finish_object(node);
  Access::set_node(made, node, Tag::object);
  return made;
}

Json Json::array(std::initializer_list<Json> items) {
  Json made;
  Node* node = json::make_array(items.size());
  for (const Json& item : items) new (&json::items(node)[node->size++]) Json(item);
  Access::set_node(made, node, Tag::array);
  return made;
}

bool Json::as_bool() const {
  MOOR_ASSERT(is_bool());
  return Access::load<bool>(*this);
}

double Json::as_double() const {
  switch (Access::tag(*this)) {
    case Tag::number: return Access::load<double>(*this);
    case Tag::int64: return static_cast<double>(Access::load<std::int64_t>(*this));
    case Tag::uint64: return static_cast<double>(Access::load<std::uint64_t>(*this));
    default: MOOR_UNREACHABLE("not a number");
  }
}

std::string_view Json::as_string() const {
  MOOR_ASSERT(is_string());
  return Access::text(*this);
}

std::optional<std::int64_t> Json::to_int64() const {
  if (Access::tag(*this) == Tag::int64) return Access::load<std::int64_t>(*this);
  if (Access::tag(*this) != Tag::uint64) return std::nullopt;
  const auto number = Access::load<std::uint64_t>(*this);
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<std::uint64_t> Json::to_uint64() const {
  if (Access::tag(*this) == Tag::uint64) return Access::load<std::uint64_t>(*this);
  if (Access::tag(*this) != Tag::int64) return std::nullopt;
  const auto number = Access::load<std::int64_t>(*this);
  if (number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

std::size_t Json::size() const {
  return Access::has_node(*this) ? Access::node(*this)->size : 0;
}

const Json& Json::at(std::size_t index) const {
  MOOR_ASSERT(is_array() && index < size(), "item {} of {}", index, size());
  return json::items(Access::node(*this))[index];
}

Json& Json::at(std::size_t index) {
  MOOR_ASSERT(is_array() && index < size(), "item {} of {}", index, size());
  return json::items(json::own(*this))[index];
}

Json& Json::push_back(Json value) {
  MOOR_ASSERT(is_array());
  Node* node = json::with_room(*this);
  return *new (&json::items(node)[node->size++]) Json(std::move(value));
}

void Json::insert(std::size_t index, Json value) {
  MOOR_ASSERT(is_array() && index <= size());
  Node* node = json::with_room(*this);
  Json* place = json::items(node) + index;
  std::memmove(static_cast<void*>(place + 1), static_cast<void*>(place), (node->size - index) * sizeof(Json));
  new (place) Json(std::move(value));
  ++node->size;
}

void Json::erase(std::size_t index) {
  MOOR_ASSERT(is_array() && index < size());
  Node* node = json::own(*this);
  Json* place = json::items(node) + index;
  place->~Json();
  --node->size;
  std::memmove(static_cast<void*>(place), static_cast<void*>(place + 1), (node->size - index) * sizeof(Json));
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const Slot* slot = json::look_up(Access::node(*this), key);
  return slot == nullptr ? nullptr : &slot->value;
}

Json* Json::find(std::string_view key) {
  if (!is_object() || json::look_up(Access::node(*this), key) == nullptr) return nullptr;
  return &json::look_up(json::own(*this), key)->value;
}

Json& Json::set(std::string_view key, Json value) {
  MOOR_ASSERT(is_object(), "set '{}' in something that is no object", key);
  if (Slot* slot = json::look_up(json::own(*this), key)) {
    slot->value = std::move(value);
    return slot->value;
  }
  return json::append_member(*this, key, std::move(value));
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) *this = object();
  MOOR_ASSERT(is_object(), "member '{}' of something that is no object", key);
  if (Slot* slot = json::look_up(json::own(*this), key)) return slot->value;
  return json::append_member(*this, key, Json());
}

bool Json::erase(std::string_view key) {
  if (!is_object() || json::look_up(Access::node(*this), key) == nullptr) return false;
  Node* node = json::own(*this);
  Slot* slot = json::look_up(node, key);
  slot->~Slot();
  --node->size;
  const auto place = static_cast<std::size_t>(slot - json::members(node));
  std::memmove(static_cast<void*>(slot), static_cast<void*>(slot + 1), (node->size - place) * sizeof(Slot));
  if (node->index != nullptr) json::build_index(node);
  return true;
}

std::string_view Json::key_at(std::size_t index) const {
  MOOR_ASSERT(is_object() && index < size());
  return json::key_of(json::members(Access::node(*this))[index]);
}

const Json& Json::value_at(std::size_t index) const {
  MOOR_ASSERT(is_object() && index < size());
  return json::members(Access::node(*this))[index].value;
}

Json& Json::value_at(std::size_t index) {
  MOOR_ASSERT(is_object() && index < size());
  return json::members(json::own(*this))[index].value;
}

const Json* Json::find_path(std::initializer_list<std::string_view> path) const {
  const Json* here = this;
  for (std::string_view key : path) {
    here = here->find(key);
    if (here == nullptr) return nullptr;
  }
  return here;
}

std::optional<std::string_view> Json::get_string(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->as_string();
}
std::optional<std::int64_t> Json::get_int64(std::string_view key) const {
  const Json* value = find(key);
  return value == nullptr ? std::nullopt : value->to_int64();
}
std::optional<std::uint64_t> Json::get_uint64(std::string_view key) const {
  const Json* value = find(key);
  return value == nullptr ? std::nullopt : value->to_uint64();
}
std::optional<bool> Json::get_bool(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_bool()) return std::nullopt;
  return value->as_bool();
}

namespace {

bool same_text(const Json& left, const Json& right) {
  if (Access::tag(left) == Tag::short_string || Access::tag(right) == Tag::short_string)
    return Access::image(left) == Access::image(right);
  return Access::text(left) == Access::text(right);
}

// Members nearly always stand in the same order on both sides: then no key is looked up.
bool same_members(Node* left, Node* right) {  // NOLINT(misc-no-recursion): as deep as the value
  if (left->size != right->size) return false;
  for (std::uint32_t i = 0; i < left->size; ++i) {
    const Slot& mine = json::members(left)[i];
    const Slot* theirs = &json::members(right)[i];
    if (!same_text(theirs->key, mine.key)) theirs = json::look_up(right, json::key_of(mine));
    if (theirs == nullptr || !(mine.value == theirs->value)) return false;
  }
  return true;
}

bool same_items(Node* left, Node* right) {  // NOLINT(misc-no-recursion): as deep as the value
  if (left->size != right->size) return false;
  for (std::uint32_t i = 0; i < left->size; ++i)
    if (!(json::items(left)[i] == json::items(right)[i])) return false;
  return true;
}

}  // namespace

bool operator==(const Json& a, const Json& b) {  // NOLINT(misc-no-recursion): as deep as the value
  const Json::Kind kind = a.kind();
  if (a.is_integer() && b.is_integer()) {
    const bool small = a.to_int64().has_value();
    return small ? a.to_int64() == b.to_int64() : a.to_uint64() == b.to_uint64();
  }
  if (kind != b.kind()) return false;
  switch (kind) {
    case Json::Kind::null: return true;
    case Json::Kind::boolean: return a.as_bool() == b.as_bool();
    case Json::Kind::int64:
    case Json::Kind::uint64: return false;  // compared above
    case Json::Kind::number: return a.as_double() == b.as_double();
    case Json::Kind::string: return same_text(a, b);
    case Json::Kind::array:
    case Json::Kind::object: break;
  }
  Node* left = Access::node(a);
  Node* right = Access::node(b);
  if (left == right) return true;
  return kind == Json::Kind::array ? same_items(left, right) : same_members(left, right);
}

void settle(Json& json) {  // NOLINT(misc-no-recursion): as deep as the value
  if (!Access::has_node(json)) return;
  Node* node = Access::node(json);
  // Whoever writes into a value opens everything above it.
  if (!node->open) return;
  const bool array = json.is_array();
  for (std::uint32_t i = 0; i < node->size; ++i)
    settle(array ? json::items(node)[i] : json::members(node)[i].value);
  node->open = false;
}

bool is_shared(const Json& a, const Json& b) {
  return Access::has_node(a) && Access::tag(a) == Access::tag(b) && Access::node(a) == Access::node(b);
}

bool reads_back_alike(const Json& json) {  // NOLINT(misc-no-recursion): as deep as the value
  if (!Access::has_node(json)) return Access::tag(json) != Tag::number;
  Node* node = Access::node(json);
  const bool array = json.is_array();
  for (std::uint32_t i = 0; i < node->size; ++i)
    if (!reads_back_alike(array ? json::items(node)[i] : json::members(node)[i].value)) return false;
  return true;
}

}  // namespace moor
