#include "registry/selector.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "model/names.h"

namespace moor::registry {
namespace {

constexpr std::size_t kMaxRequirements = 256;

// Words, operators and commas of a label selector.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::string_view peek() {
    const std::size_t at = at_;
    const std::string_view token = next();
    at_ = at;
    return token;
  }
  // Empty at the end.
  std::string_view next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    const std::size_t start = at_;
    if (start == text_.size()) return {};
    for (const std::string_view op : {"==", "!=", "=", "!", "(", ")", ",", ">", "<"}) {
      if (text_.substr(start, op.size()) == op) {
        at_ += op.size();
        return text_.substr(start, op.size());
      }
    }
    while (at_ < text_.size() && std::string_view("=!(),<> \t").find(text_[at_]) == std::string_view::npos)
      ++at_;
    return text_.substr(start, at_ - start);
  }
  Error error(std::string_view what) const {
    return make_error(Errc::invalid, fmt::format("unable to parse requirement: {} at position {} of \"{}\"",
                                                 what, at_, text_.substr(0, 256)));
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_word(std::string_view token) {
  return !token.empty() && std::string_view("=!(),<>").find(token.front()) == std::string_view::npos;
}

Result<std::string> read_value(Lexer& lexer) {
  if (!is_word(lexer.peek())) return std::string();  // "key=" asks for the empty value
  const std::string_view value = lexer.next();
  if (!model::is_label_value(value)) return lexer.error(fmt::format("'{}' is no label value", value));
  return std::string(value);
}

// "(a, b)"
Result<std::vector<std::string>> read_values(Lexer& lexer) {
  if (lexer.next() != "(") return lexer.error("found no '(' after in or notin");
  std::vector<std::string> values;
  while (true) {
    TRY(std::string value, read_value(lexer));
    values.push_back(std::move(value));
    const std::string_view token = lexer.next();
    if (token == ")") break;
    if (token != ",") return lexer.error("found no ',' or ')' in a list of values");
  }
  std::sort(values.begin(), values.end());
  return values;
}

using Requirement = LabelSelector::Requirement;
using Operator = LabelSelector::Operator;

Result<Requirement> read_requirement(Lexer& lexer) {
  Requirement requirement;
  if (lexer.peek() == "!") {
    lexer.next();
    requirement.op = Operator::absent;
  }
  const std::string_view key = lexer.next();
  if (!is_word(key) || !model::is_qualified_name(key))
    return lexer.error(fmt::format("'{}' is no label key", key));
  requirement.key = key;
  if (requirement.op == Operator::absent) return requirement;
  const std::string_view token = lexer.peek();
  if (token.empty() || token == ",") return requirement;  // the key exists
  lexer.next();
  if (token == "in" || token == "notin") {
    requirement.op = token == "in" ? Operator::in : Operator::not_in;
    TRY(requirement.values, read_values(lexer));
    return requirement;
  }
  if (token == "=" || token == "==") {
    requirement.op = Operator::equal;
  } else if (token == "!=") {
    requirement.op = Operator::not_equal;
  } else if (token == ">" || token == "<") {
    requirement.op = token == ">" ? Operator::greater : Operator::less;
  } else {
    return lexer.error(fmt::format("found '{}', expected one of: in notin = == != > <", token));
  }
  TRY(std::string value, read_value(lexer));
  requirement.values.push_back(std::move(value));
  return requirement;
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

bool holds(const Requirement& requirement, std::optional<std::string_view> value) {
  const auto listed = [&] {
    return value && std::binary_search(requirement.values.begin(), requirement.values.end(), *value);
  };
  switch (requirement.op) {
    case Operator::exists: return value.has_value();
    case Operator::absent: return !value.has_value();
    case Operator::equal:
    case Operator::in: return listed();
    case Operator::not_equal:
    case Operator::not_in: return !listed();  // also true where the key is missing
    case Operator::greater:
    case Operator::less: {
      if (!value) return false;
      const auto have = integer(*value);
      const auto want = integer(requirement.values.front());
      if (!have || !want) return false;
      return requirement.op == Operator::greater ? *have > *want : *have < *want;
    }
  }
  return false;
}

}  // namespace

Result<LabelSelector> LabelSelector::parse(std::string_view text) {
  LabelSelector selector;
  Lexer lexer(text);
  if (lexer.peek().empty()) return selector;
  while (true) {
    TRY(Requirement requirement, read_requirement(lexer));
    selector.requirements_.push_back(std::move(requirement));
    if (selector.requirements_.size() > kMaxRequirements) return lexer.error("too many requirements");
    const std::string_view token = lexer.next();
    if (token.empty()) return selector;
    if (token != ",") return lexer.error(fmt::format("found '{}', expected ',' or the end", token));
  }
}

bool LabelSelector::matches(const Json* labels) const {
  return matches(
      [labels](std::string_view key) { return labels == nullptr ? std::nullopt : labels->get_string(key); });
}

bool LabelSelector::matches(const ValueOf& value_of) const {
  return std::all_of(requirements_.begin(), requirements_.end(), [&](const Requirement& requirement) {
    return holds(requirement, value_of(requirement.key));
  });
}

namespace {
// Up to the next separator that no backslash hides; unescaped into `out`.
Result<char> read_field_part(std::string_view text, std::size_t& at, std::string_view stops,
                             std::string& out) {
  while (at < text.size()) {
    const char c = text[at++];
    if (c == '\\') {
      if (at == text.size() || std::string_view("\\,=").find(text[at]) == std::string_view::npos)
        return make_error(Errc::invalid,
                          fmt::format("invalid field selector: bad escape in \"{}\"", text.substr(0, 256)));
      out.push_back(text[at++]);
    } else if (stops.find(c) != std::string_view::npos) {
      return c;
    } else {
      out.push_back(c);
    }
  }
  return '\0';
}
}  // namespace

Result<FieldSelector> FieldSelector::parse(std::string_view text) {
  FieldSelector selector;
  std::size_t at = 0;
  while (at < text.size()) {
    Requirement requirement;
    const Error refused = make_error(
        Errc::invalid,
        fmt::format("invalid field selector \"{}\": write it like metadata.name=v1 or status.phase!=Running",
                    text.substr(0, 256)));
    TRY(const char stop, read_field_part(text, at, "=!,", requirement.field));
    if (stop != '=' && stop != '!') return refused;
    if (stop == '!') {
      requirement.equal = false;
      if (at == text.size() || text[at++] != '=') return refused;
    } else if (at < text.size() && text[at] == '=') {
      ++at;
    }
    TRY(const char end, read_field_part(text, at, ",=", requirement.value));
    if (end == '=' || requirement.field.empty()) return refused;
    if (end == ',' && at == text.size()) return refused;
    selector.requirements_.push_back(std::move(requirement));
    if (selector.requirements_.size() > kMaxRequirements) return refused;
  }
  return selector;
}

std::string LabelSelector::to_text() const {
  std::string text;
  for (const Requirement& requirement : requirements_) {
    if (!text.empty()) text += ",";
    const auto first = [&]() -> const std::string& { return requirement.values.front(); };
    switch (requirement.op) {
      case Operator::exists: text += requirement.key; break;
      case Operator::absent: text += fmt::format("!{}", requirement.key); break;
      case Operator::equal: text += fmt::format("{}={}", requirement.key, first()); break;
      case Operator::not_equal: text += fmt::format("{}!={}", requirement.key, first()); break;
      case Operator::greater: text += fmt::format("{}>{}", requirement.key, first()); break;
      case Operator::less: text += fmt::format("{}<{}", requirement.key, first()); break;
      case Operator::in:
      case Operator::not_in:
        text += fmt::format("{} {} ({})", requirement.key, requirement.op == Operator::in ? "in" : "notin",
                            fmt::join(requirement.values, ","));
        break;
    }
  }
  return text;
}

std::string FieldSelector::to_text() const {
  std::string text;
  const auto add_escaped = [&text](const std::string& part) {
    for (const char c : part) {
      if (c == '\\' || c == ',' || c == '=') text.push_back('\\');
      text.push_back(c);
    }
  };
  for (const Requirement& requirement : requirements_) {
    if (!text.empty()) text += ",";
    add_escaped(requirement.field);
    text += requirement.equal ? "=" : "!=";
    add_escaped(requirement.value);
  }
  return text;
}

}  // namespace moor::registry
