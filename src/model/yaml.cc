#include "model/yaml.h"

#include <algorithm>

namespace moor::model {
namespace {

// Words that YAML would read as something else than a string.
bool is_special_word(std::string_view text) {
  static constexpr std::string_view kWords[] = {
      "null", "Null", "NULL", "~",  "true", "True", "TRUE", "false", "False", "FALSE", "yes",
      "Yes",  "no",   "No",   "on", "On",   "off",  "Off",  "y",     "n",     "Y",     "N"};
  return std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords);
}

// Plain only when no reader could take it for anything but this string.
bool is_plain(std::string_view text) {
  if (text.empty() || is_special_word(text)) return false;
  const auto letter = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '/';
  };
  if (!letter(static_cast<unsigned char>(text.front())) || text.back() == ' ' || text.back() == ':')
    return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool safe = letter(static_cast<unsigned char>(c)) || (c >= '0' && c <= '9') || c == '-' ||
                      c == ' ' || c == ',' || c == ';' || c == '(' || c == ')' || c == '@' || c == '$' ||
                      (c == ':' && i + 1 < text.size() && text[i + 1] != ' ');
    if (!safe) return false;
  }
  return text.front() != '.' || (text.size() > 1 && !(text[1] >= '0' && text[1] <= '9'));
}

void append_scalar(std::string& out, const Json& value) {
  if (!value.is_string()) {
    append_text(out, value);
  } else if (is_plain(value.as_string())) {
    out += value.as_string();
  } else {
    append_json_string(out, value.as_string());  // a JSON string is a YAML string
  }
}

bool is_block(const Json& value) {
  return (value.is_object() || value.is_array()) && !value.empty();
}

// `inside` is true right after "- ", where the first member stands on the same line. The depth is that of the
// value, which the parser bounds.
void append_block(std::string& out, const Json& value, std::size_t indent, bool inside) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!(inside && i == 0)) out.append(indent, ' ');
    const Json& item = value.is_object() ? value.value_at(i) : value.at(i);
    if (value.is_object()) {
      append_scalar(out, Json(value.key_at(i)));
      out += ':';
    } else {
      out += '-';
    }
    if (!is_block(item)) {
      out += ' ';
      append_scalar(out, item);
      out += '\n';
    } else if (value.is_array()) {
      out += ' ';
      append_block(out, item, indent + 2, true);
    } else {
      out += '\n';
      append_block(out, item, item.is_array() ? indent : indent + 2, false);
    }
  }
}

}  // namespace

std::string to_yaml(const Json& value) {
  std::string out;
  if (is_block(value)) {
    append_block(out, value, 0, false);
  } else {
    append_scalar(out, value);
    out += '\n';
  }
  return out;
}

}  // namespace moor::model
