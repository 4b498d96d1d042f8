#include "model/jsonpath.h"

#include <fmt/format.h>

#include <charconv>

namespace moor::model {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// A field name up to the next '.' or '['; a backslash takes the next character as it is.
std::string take_name(std::string_view& text) {
  std::string name;
  while (!text.empty() && text.front() != '.' && text.front() != '[') {
    if (text.front() == '\\' && text.size() > 1) text.remove_prefix(1);
    name.push_back(text.front());
    text.remove_prefix(1);
  }
  return name;
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    if (text.front() == '.') text.remove_prefix(1);
    names.push_back(take_name(text));
    if (!text.empty() && text.front() == '[') break;  // filters look at plain members only
  }
  return names;
}

}  // namespace

Result<JsonPath::Step> JsonPath::parse_bracket(std::string_view inside) {
  Step step;
  inside = trim(inside);
  if (inside == "*") {
    step.kind = Step::Kind::every;
    return step;
  }
  if (inside.starts_with("?(") && inside.ends_with(")")) {
    inside = inside.substr(2, inside.size() - 3);
    std::size_t at = inside.find("==");
    if (at == std::string_view::npos) {
      at = inside.find("!=");
      step.equal = false;
    }
    if (at == std::string_view::npos) return make_error(Errc::invalid, "a filter needs == or !=");
    const std::string_view left = trim(inside.substr(0, at));
    std::string_view right = trim(inside.substr(at + 2));
    if (!left.starts_with("@.")) return make_error(Errc::invalid, "a filter starts with @.");
    const bool quoted = right.size() >= 2 && (right.front() == '"' || right.front() == '\'');
    if (quoted && right.back() != right.front())
      return make_error(Errc::invalid, "a quote in a filter is not closed");
    if (quoted) right = right.substr(1, right.size() - 2);
    step.kind = Step::Kind::filter;
    step.operand = split_names(left.substr(1));
    step.wanted = right;
    return step;
  }
  if (inside.size() >= 2 && inside.front() == '\'' && inside.back() == '\'') {
    step.name = inside.substr(1, inside.size() - 2);
    return step;
  }
  step.kind = Step::Kind::index;
  const auto [end, error] = std::from_chars(inside.data(), inside.data() + inside.size(), step.index);
  if (error != std::errc{} || end != inside.data() + inside.size())
    return make_error(Errc::invalid, fmt::format("\"[{}]\" is not understood", inside));
  return step;
}

Result<JsonPath> JsonPath::parse(std::string_view text) {
  const std::string_view whole = text;
  if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
  if (text.starts_with('$')) text.remove_prefix(1);
  JsonPath path;
  while (!text.empty() && text != ".") {
    if (text.front() == '.') {
      text.remove_prefix(1);
      Step step;
      step.name = take_name(text);
      if (step.name == "*") step.kind = Step::Kind::every;
      if (step.name.empty())
        return make_error(Errc::invalid, fmt::format("\"{}\" has an empty field name", whole));
      path.steps_.push_back(std::move(step));
    } else if (text.front() == '[') {
      // A filter's literal may hold a ']' of its own: its end is ")]".
      const bool filter = text.starts_with("[?");
      const std::size_t end = text.find(filter ? ")]" : "]");
      if (end == std::string_view::npos)
        return make_error(Errc::invalid, fmt::format("\"{}\" lacks a ']'", whole));
      const std::size_t length = end + (filter ? 1 : 0);
      TRY(Step step, parse_bracket(text.substr(1, length - 1)));
      path.steps_.push_back(std::move(step));
      text.remove_prefix(length + 1);
    } else {
      return make_error(Errc::invalid, fmt::format("\"{}\" must start with '.' or '['", whole));
    }
  }
  return path;
}

std::vector<const Json*> JsonPath::find(const Json& root) const {
  std::vector<const Json*> at{&root};
  for (const Step& step : steps_) {
    std::vector<const Json*> next;
    for (const Json* value : at) {
      if (step.kind == Step::Kind::field) {
        if (const Json* member = value->find(step.name)) next.push_back(member);
        continue;
      }
      if (step.kind == Step::Kind::every && value->is_object())
        for (std::size_t i = 0; i < value->size(); ++i) next.push_back(&value->value_at(i));
      if (!value->is_array()) continue;
      const long size = static_cast<long>(value->size());
      if (step.kind == Step::Kind::index) {
        const long index = step.index < 0 ? size + step.index : step.index;
        if (index >= 0 && index < size) next.push_back(&value->at(static_cast<std::size_t>(index)));
        continue;
      }
      for (std::size_t i = 0; i < value->size(); ++i) {
        const Json* item = &value->at(i);
        if (step.kind == Step::Kind::filter) {
          const Json* operand = item;
          for (const std::string& name : step.operand)
            operand = operand == nullptr ? nullptr : operand->find(name);
          if (operand == nullptr || (plain_text(*operand) == step.wanted) != step.equal) continue;
        }
        next.push_back(item);
      }
    }
    at = std::move(next);
  }
  return at;
}

std::string plain_text(const Json& value) {
  return value.is_string() ? std::string(value.as_string()) : to_text(value);
}

}  // namespace moor::model
