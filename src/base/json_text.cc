#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "base/assert.h"
#include "base/json_inside.h"

namespace moor {
namespace bj = boost::json;
namespace {

// Values that are read and not yet part of another: the members of an object lie here as key, value, key,
// value until its end is seen, and then move into it at once.
class Stack {
 public:
  void reset() { values_.clear(); }
  void push_chars(bj::string_view part) { text_.append(part.data(), part.size()); }
  void push_string(bj::string_view part) {
    if (text_.empty()) {
      values_.emplace_back(std::string_view(part.data(), part.size()));
      return;
    }
    push_chars(part);
    values_.emplace_back(text_);
    text_.clear();
  }
  template <class T>
  void push(T value) {
    values_.emplace_back(value);
  }
  void push_array(std::size_t count) {
    json::Node* node = json::make_array(count);
    take(json::items(node), count);
    node->size = static_cast<std::uint32_t>(count);
    JsonAccess::set_node(values_.emplace_back(), node, json::Tag::array);
  }
  void push_object(std::size_t count) {
    if (count == 0) return JsonAccess::set_node(values_.emplace_back(), &json::no_members, json::Tag::object);
    json::Node* node = json::make_object(count);
    take(reinterpret_cast<Json*>(json::members(node)), count * 2);
    node->size = static_cast<std::uint32_t>(count);
    json::finish_object(node);
    JsonAccess::set_node(values_.emplace_back(), node, json::Tag::object);
  }
  Json release() { return std::move(values_.back()); }

 private:
  void take(Json* to, std::size_t count) {
    if (count == 0) return;
    Json* first = values_.data() + (values_.size() - count);
    JsonAccess::relocate(to, first, count);
    for (std::size_t i = 0; i < count; ++i) JsonAccess::set_tag(first[i], json::Tag::null);
    values_.resize(values_.size() - count);
  }

  std::vector<Json> values_;
  std::string text_;  // what has come of a string with escapes
};

// Builds the value from what the parser sees and notices keys that stand twice in one object.
struct Handler {
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  using error_code = boost::system::error_code;
  using view = bj::string_view;

  Stack stack;
  // Duplicates are looked for by hashes first: one number per key of the objects that are open. Only a text
  // in which two of them are equal is read again with the keys themselves.
  bool watch = false;
  bool suspicious = false;
  std::vector<std::size_t> hashes;
  bool track = false;
  struct Level {
    bool is_object;
    std::set<std::string> keys;
    std::string current;
    std::size_t items = 0;  // of an array, begun so far
  };
  std::vector<Level> levels;
  std::string key;
  std::vector<std::string> duplicates;

  bool on_document_begin(error_code&) {
    stack.reset();
    return true;
  }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code&) {
    begin_value();
    if (track) levels.push_back({false, {}, {}, 0});
    return true;
  }
  bool on_array_end(std::size_t n, error_code&) {
    stack.push_array(n);
    if (track) levels.pop_back();
    return true;
  }
  bool on_object_begin(error_code&) {
    begin_value();
    if (track) levels.push_back({true, {}, {}, 0});
    return true;
  }
  bool on_object_end(std::size_t n, error_code&) {
    stack.push_object(n);
    if (watch) compare_hashes(n);
    if (track) levels.pop_back();
    return true;
  }
  bool on_key_part(view part, std::size_t, error_code&) {
    stack.push_chars(part);
    if (watch || track) key.append(part.data(), part.size());
    return true;
  }
  bool on_key(view part, std::size_t, error_code&) {
    stack.push_string(part);
    if (watch) note_hash({part.data(), part.size()});
    if (track) note_key(part);
    return true;
  }
  bool on_string_part(view part, std::size_t, error_code&) {
    stack.push_chars(part);
    return true;
  }
  bool on_string(view part, std::size_t, error_code&) {
    begin_value();
    stack.push_string(part);
    return true;
  }
  bool on_number_part(view, error_code&) { return true; }
  bool on_int64(std::int64_t number, view, error_code&) {
    begin_value();
    stack.push(number);
    return true;
  }
  bool on_uint64(std::uint64_t number, view, error_code&) {
    begin_value();
    stack.push(number);
    return true;
  }
  bool on_double(double number, view text, error_code& error) {
    if (!std::isfinite(number)) {
      error = bj::error::not_number;  // 1e999: larger than any double
      return false;
    }
    begin_value();
    // Boost.JSON 1.81 is off by a digit at the far end; what is written again and again must not drift. The
    // text comes in one piece, as it was given.
    std::from_chars(text.data(), text.data() + text.size(), number);
    stack.push(number);
    return true;
  }
  bool on_bool(bool value, error_code&) {
    begin_value();
    stack.push(value);
    return true;
  }
  bool on_null(error_code&) {
    begin_value();
    stack.push(nullptr);
    return true;
  }
  bool on_comment_part(view, error_code&) { return true; }
  bool on_comment(view, error_code&) { return true; }

  void begin_value() {
    if (track && !levels.empty() && !levels.back().is_object) ++levels.back().items;
  }
  void note_hash(std::string_view part) {
    if (key.empty()) {
      hashes.push_back(std::hash<std::string_view>()(part));
    } else {  // it came in parts, for its escapes
      key.append(part);
      hashes.push_back(std::hash<std::string_view>()(key));
      key.clear();
    }
  }
  void compare_hashes(std::size_t n) {  // of the object that ends here: the last n
    const auto first = hashes.end() - static_cast<std::ptrdiff_t>(n);
    std::sort(first, hashes.end());
    suspicious = suspicious || std::adjacent_find(first, hashes.end()) != hashes.end();
    hashes.erase(first, hashes.end());
  }
  void note_key(view part) {
    key.append(part.data(), part.size());
    Level& level = levels.back();
    level.current = key;
    if (!level.keys.insert(std::move(key)).second && duplicates.size() < 32) duplicates.push_back(path());
    key.clear();
  }
  std::string path() const {
    std::string text;
    for (const Level& level : levels) {
      if (!level.is_object) {
        text += fmt::format("[{}]", level.items - 1);
        continue;
      }
      if (!text.empty()) text.push_back('.');
      text += level.current;
    }
    return text;
  }
};

std::string where(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  const auto start = text.rfind('\n', offset == 0 ? 0 : offset - 1);
  const std::size_t column = start == std::string_view::npos || start >= offset ? offset + 1 : offset - start;
  return fmt::format("line {} column {}", line, column);
}

}  // namespace

namespace {
enum class Duplicates { ignore, suspect, name };

Result<Json> parse(std::string_view text, const JsonParseOptions& options, Duplicates duplicate_keys) {
  bj::parse_options boost_options;
  boost_options.max_depth = options.max_depth;
  bj::basic_parser<Handler> parser(boost_options);
  parser.handler().watch = duplicate_keys == Duplicates::suspect;
  parser.handler().track = duplicate_keys == Duplicates::name;
  boost::system::error_code error;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), error);
  if (!error && !parser.done()) error = bj::error::incomplete;
  if (!error && used < text.size()) error = bj::error::extra_data;
  if (error)
    return make_error(Errc::invalid,
                      fmt::format("not valid JSON at {}: {}", where(text, used), error.message()));
  if (parser.handler().suspicious) return parse(text, options, Duplicates::name);
  auto& duplicates = parser.handler().duplicates;
  if (!options.allow_duplicate_keys && !duplicates.empty())
    return make_error(Errc::invalid,
                      fmt::format("not valid JSON: key \"{}\" stands twice", duplicates.front()));
  if (options.duplicates != nullptr) *options.duplicates = std::move(duplicates);
  return parser.handler().stack.release();
}
}  // namespace

Result<Json> parse_json(std::string_view text, const JsonParseOptions& options) {
  const bool wanted = options.duplicates != nullptr || !options.allow_duplicate_keys;
  return parse(text, options, wanted ? Duplicates::suspect : Duplicates::ignore);
}

}  // namespace moor
