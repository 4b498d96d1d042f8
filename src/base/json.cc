#include "base/json.h"

#include <limits>

#include "base/assert.h"
#include "base/json_boost.h"

namespace moor {
namespace bj = boost::json;
namespace {
bj::value& of(Json& json) {
  return JsonAccess::of(json);
}
const bj::value& of(const Json& json) {
  return JsonAccess::of(json);
}
bj::string_view sv(std::string_view text) {
  return {text.data(), text.size()};
}
std::string_view sv(const bj::string& text) {
  return {text.data(), text.size()};
}
}  // namespace

Json::Json() noexcept {
  new (storage_) bj::value(nullptr);
}
Json::Json(std::nullptr_t) noexcept : Json() {}
Json::Json(bool value) noexcept {
  new (storage_) bj::value(value);
}
Json::Json(int value) noexcept {
  new (storage_) bj::value(value);
}
Json::Json(long value) noexcept {
  new (storage_) bj::value(value);
}
Json::Json(long long value) noexcept {
  new (storage_) bj::value(value);
}
Json::Json(unsigned value) noexcept {
  new (storage_) bj::value(value);
}
Json::Json(unsigned long value) noexcept {
  new (storage_) bj::value(value);
}
Json::Json(unsigned long long value) noexcept {
  new (storage_) bj::value(value);
}
Json::Json(double value) noexcept {
  new (storage_) bj::value(value);
}
Json::Json(const char* value) : Json(std::string_view(value)) {}
Json::Json(std::string_view value) {
  new (storage_) bj::value(sv(value));
}
Json::Json(const std::string& value) : Json(std::string_view(value)) {}
Json::Json(const Json& other) {
  new (storage_) bj::value(of(other));
}
Json::Json(Json&& other) noexcept {
  new (storage_) bj::value(std::move(of(other)));
}
Json& Json::operator=(const Json& other) {
  of(*this) = of(other);
  return *this;
}
Json& Json::operator=(Json&& other) noexcept {
  of(*this) = std::move(of(other));
  return *this;
}
Json::~Json() {
  of(*this).~value();
}

Json Json::object(std::initializer_list<Member> members) {
  Json json;
  bj::object& object = of(json).emplace_object();
  object.reserve(members.size());
  for (const Member& member : members) object.insert_or_assign(sv(member.key), of(member.value));
  return json;
}

Json Json::array(std::initializer_list<Json> items) {
  Json json;
  bj::array& array = of(json).emplace_array();
  array.reserve(items.size());
  for (const Json& item : items) array.push_back(of(item));
  return json;
}

Json::Kind Json::kind() const {
  switch (of(*this).kind()) {
    case bj::kind::null: return Kind::null;
    case bj::kind::bool_: return Kind::boolean;
    case bj::kind::int64: return Kind::int64;
    case bj::kind::uint64: return Kind::uint64;
    case bj::kind::double_: return Kind::number;
    case bj::kind::string: return Kind::string;
    case bj::kind::array: return Kind::array;
    case bj::kind::object: return Kind::object;
  }
  return Kind::null;
}

bool Json::as_bool() const {
  MOOR_ASSERT(is_bool());
  return of(*this).get_bool();
}

double Json::as_double() const {
  const bj::value& value = of(*this);
  if (const auto* number = value.if_double()) return *number;
  if (const auto* number = value.if_int64()) return static_cast<double>(*number);
  if (const auto* number = value.if_uint64()) return static_cast<double>(*number);
  MOOR_UNREACHABLE("not a number");
}

std::string_view Json::as_string() const {
  MOOR_ASSERT(is_string());
  return sv(of(*this).get_string());
}

std::optional<std::int64_t> Json::to_int64() const {
  const bj::value& value = of(*this);
  if (const auto* number = value.if_int64()) return *number;
  if (const auto* number = value.if_uint64()) {
    if (*number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return static_cast<std::int64_t>(*number);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Json::to_uint64() const {
  const bj::value& value = of(*this);
  if (const auto* number = value.if_uint64()) return *number;
  if (const auto* number = value.if_int64()) {
    if (*number >= 0) return static_cast<std::uint64_t>(*number);
  }
  return std::nullopt;
}

std::size_t Json::size() const {
  if (const auto* array = of(*this).if_array()) return array->size();
  if (const auto* object = of(*this).if_object()) return object->size();
  return 0;
}

const Json& Json::at(std::size_t index) const {
  return const_cast<Json*>(this)->at(index);
}

Json& Json::at(std::size_t index) {
  auto* array = of(*this).if_array();
  MOOR_ASSERT(array != nullptr && index < array->size(), "item {} of {}", index, size());
  return JsonAccess::view((*array)[index]);
}

Json& Json::push_back(Json value) {
  auto* array = of(*this).if_array();
  MOOR_ASSERT(array != nullptr);
  array->push_back(std::move(of(value)));
  return JsonAccess::view(array->back());
}

void Json::insert(std::size_t index, Json value) {
  auto* array = of(*this).if_array();
  MOOR_ASSERT(array != nullptr && index <= array->size());
  array->insert(array->begin() + static_cast<std::ptrdiff_t>(index), std::move(of(value)));
}

void Json::erase(std::size_t index) {
  auto* array = of(*this).if_array();
  MOOR_ASSERT(array != nullptr && index < array->size());
  array->erase(array->begin() + static_cast<std::ptrdiff_t>(index));
}

const Json* Json::find(std::string_view key) const {
  return const_cast<Json*>(this)->find(key);
}

Json* Json::find(std::string_view key) {
  auto* object = of(*this).if_object();
  if (object == nullptr) return nullptr;
  auto* value = object->if_contains(sv(key));
  return value == nullptr ? nullptr : &JsonAccess::view(*value);
}

Json& Json::set(std::string_view key, Json value) {
  auto* object = of(*this).if_object();
  MOOR_ASSERT(object != nullptr, "set '{}' in something that is no object", key);
  return JsonAccess::view(object->insert_or_assign(sv(key), std::move(of(value))).first->value());
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) of(*this).emplace_object();
  auto* object = of(*this).if_object();
  MOOR_ASSERT(object != nullptr, "member '{}' of something that is no object", key);
  return JsonAccess::view((*object)[sv(key)]);
}

bool Json::erase(std::string_view key) {
  auto* object = of(*this).if_object();
  if (object == nullptr) return false;
  auto found = object->find(sv(key));
  if (found == object->end()) return false;
  object->stable_erase(found);
  return true;
}

std::string_view Json::key_at(std::size_t index) const {
  const auto* object = of(*this).if_object();
  MOOR_ASSERT(object != nullptr && index < object->size());
  const auto key = (object->begin() + static_cast<std::ptrdiff_t>(index))->key();
  return {key.data(), key.size()};
}

const Json& Json::value_at(std::size_t index) const {
  return const_cast<Json*>(this)->value_at(index);
}

Json& Json::value_at(std::size_t index) {
  auto* object = of(*this).if_object();
  MOOR_ASSERT(object != nullptr && index < object->size());
  return JsonAccess::view((object->begin() + static_cast<std::ptrdiff_t>(index))->value());
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

// Members nearly always stand in the same order on both sides: then no key is looked up.
bool is_equal(const boost::json::value& a, const boost::json::value& b) {  // NOLINT(misc-no-recursion)
  if (a.is_object() && b.is_object()) {
    const boost::json::object& left = a.get_object();
    const boost::json::object& right = b.get_object();
    if (left.size() != right.size()) return false;
    auto there = right.begin();
    for (const auto& member : left) {
      if (there->key() == member.key()) {
        if (!is_equal(member.value(), there->value())) return false;
      } else {
        const boost::json::value* found = right.if_contains(member.key());
        if (found == nullptr || !is_equal(member.value(), *found)) return false;
      }
      ++there;
    }
    return true;
  }
  if (a.is_array() && b.is_array()) {
    const boost::json::array& left = a.get_array();
    const boost::json::array& right = b.get_array();
    if (left.size() != right.size()) return false;
    for (std::size_t i = 0; i < left.size(); ++i)
      if (!is_equal(left[i], right[i])) return false;
    return true;
  }
  return a == b;
}

}  // namespace

bool operator==(const Json& a, const Json& b) {
  return is_equal(of(a), of(b));
}

}  // namespace moor
