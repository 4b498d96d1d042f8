// Json as text.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/assert.h"
#include "base/json_inside.h"

namespace moor {
namespace {

// Whether one of eight bytes is a control character, '"' or '\\'; all eight at once.
bool needs_escape(const char* text) {
  constexpr std::uint64_t kOnes = 0x0101010101010101u;
  constexpr std::uint64_t kHigh = 0x8080808080808080u;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, text, sizeof bytes);
  const auto below = [](std::uint64_t value, std::uint64_t limit) {  // any byte below it; limit <= 0x80
    return (value - kOnes * limit) & ~value & kHigh;
  };
  return (below(bytes, 0x20) | below(bytes ^ (kOnes * '"'), 1) | below(bytes ^ (kOnes * '\\'), 1)) != 0;
}

bool needs_escape(unsigned char c) {
  return c < 0x20 || c == '"' || c == '\\';
}

bool is_plain(std::string_view text) {
  const char* at = text.data();
  if (text.size() < 8) {
    for (const char c : text)
      if (needs_escape(static_cast<unsigned char>(c))) return false;
    return true;
  }
  const char* last = at + text.size() - 8;
  for (; at < last; at += 8)
    if (needs_escape(at)) return false;
  return !needs_escape(last);
}

char* put_escaped(char* to, unsigned char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  *to++ = '\\';
  switch (c) {
    case '"': *to++ = '"'; break;
    case '\\': *to++ = '\\'; break;
    case '\n': *to++ = 'n'; break;
    case '\r': *to++ = 'r'; break;
    case '\t': *to++ = 't'; break;
    default:
      for (const char part : {'u', '0', '0', kHex[c >> 4], kHex[c & 15]}) *to++ = part;
  }
  return to;
}

// Text under way. Its memory outlives it, so that a text is allocated once, in its own size: what a store and
// its caches keep has no room to spare.
class Paper {
 public:
  Paper() : at_(begin()) {}
  Paper(const Paper&) = delete;
  Paper& operator=(const Paper&) = delete;
  ~Paper() {
    if (sheet().size > kKept) sheet() = {};
  }
  std::string_view text() const { return {begin(), static_cast<std::size_t>(at_ - begin())}; }

  void put(char c) {
    need(1);
    *at_++ = c;
  }
  void put(std::string_view part) {
    need(part.size());
    std::memcpy(at_, part.data(), part.size());
    at_ += part.size();
  }
  void put(std::size_t count, char c) {
    need(count);
    std::memset(at_, c, count);
    at_ += count;
  }
  // With its quotes and what stands after it.
  void put_string(std::string_view part, std::string_view after = {}) {
    need(part.size() * 6 + 2 + after.size());
    *at_++ = '"';
    if (is_plain(part)) {
      if (!part.empty()) std::memcpy(at_, part.data(), part.size());
      at_ += part.size();
    } else {
      for (const char c : part) {
        if (needs_escape(static_cast<unsigned char>(c)))
          at_ = put_escaped(at_, static_cast<unsigned char>(c));
        else
          *at_++ = c;
      }
    }
    *at_++ = '"';
    for (const char c : after) *at_++ = c;
  }
  template <class Number>
  void put_number(Number number) {
    constexpr std::size_t kLongest = 32;
    need(kLongest);
    at_ = std::to_chars(at_, at_ + kLongest, number).ptr;
  }

 private:
  static constexpr std::size_t kKept = 1u << 20;
  struct Sheet {
    std::unique_ptr<char[]> data;
    std::size_t size = 0;
  };
  static Sheet& sheet() {
    thread_local Sheet one;
    return one;
  }
  char* begin() const { return sheet_.data.get(); }
  void need(std::size_t bytes) {
    if (static_cast<std::size_t>(begin() + sheet_.size - at_) < bytes) grow(bytes);
  }
  void grow(std::size_t bytes) {
    const std::size_t used = static_cast<std::size_t>(at_ - begin());
    const std::size_t size = std::max<std::size_t>(16 * 1024, (used + bytes) * 2);
    std::unique_ptr<char[]> larger(new char[size]);
    if (used > 0) std::memcpy(larger.get(), begin(), used);
    sheet_.data = std::move(larger);
    sheet_.size = size;
    at_ = begin() + used;
  }

  Sheet& sheet_ = sheet();
  char* at_;
};

// Indent < 0: compact.
struct Printer {
  Paper& out;
  int indent;

  void new_line(int depth) {
    if (indent < 0) return;
    out.put('\n');
    out.put(static_cast<std::size_t>(depth * indent), ' ');
  }

  void print_array(const Json& array, int depth) {
    json::Node* node = JsonAccess::node(array);
    out.put('[');
    for (std::uint32_t i = 0; i < node->size; ++i) {
      if (i != 0) out.put(',');
      new_line(depth + 1);
      print(json::items(node)[i], depth + 1);
    }
    if (node->size != 0) new_line(depth);
    out.put(']');
  }

  void print_object(const Json& object, int depth) {
    json::Node* node = JsonAccess::node(object);
    out.put('{');
    for (std::uint32_t i = 0; i < node->size; ++i) {
      const json::Slot& member = json::members(node)[i];
      if (i != 0) out.put(',');
      new_line(depth + 1);
      out.put_string(json::key_of(member), indent < 0 ? ":" : ": ");
      print(member.value, depth + 1);
    }
    if (node->size != 0) new_line(depth);
    out.put('}');
  }

  void print_double(double number) {
    if (number == 0) number = 0;  // "-0" would be read as the integer 0 and written as "0" the next time
    // JSON has no word for these; no code of ours makes them, and a parser cannot.
    MOOR_ASSERT(std::isfinite(number), "JSON cannot hold {}", number);
    out.put_number(number);
  }

  void print(const Json& value, int depth) {  // NOLINT(misc-no-recursion): as deep as the value
    using Tag = json::Tag;
    switch (JsonAccess::tag(value)) {
      case Tag::null: out.put("null"); break;
      case Tag::boolean: out.put(JsonAccess::load<bool>(value) ? "true" : "false"); break;
      case Tag::int64: out.put_number(JsonAccess::load<std::int64_t>(value)); break;
      case Tag::uint64: out.put_number(JsonAccess::load<std::uint64_t>(value)); break;
      case Tag::number: print_double(JsonAccess::load<double>(value)); break;
      case Tag::short_string:
      case Tag::long_string: out.put_string(JsonAccess::text(value)); break;
      case Tag::array: print_array(value, depth); break;
      case Tag::object: print_object(value, depth); break;
    }
  }
};

}  // namespace

std::string to_text(const Json& value) {
  Paper paper;
  Printer{paper, -1}.print(value, 0);
  return std::string(paper.text());
}

void append_text(std::string& out, const Json& value) {
  Paper paper;
  Printer{paper, -1}.print(value, 0);
  out += paper.text();
}

std::string to_pretty_text(const Json& value, int indent) {
  Paper paper;
  Printer{paper, indent}.print(value, 0);
  return std::string(paper.text());
}

void append_json_string(std::string& out, std::string_view text) {
  Paper paper;
  paper.put_string(text);
  out += paper.text();
}

}  // namespace moor
