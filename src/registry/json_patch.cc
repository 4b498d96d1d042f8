#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <vector>

#include "registry/patch.h"

namespace moor::registry {
namespace {

constexpr std::size_t kMaxOperations = 10'000;
// Repeated copies of a growing value double it each time; Kubernetes bounds the sum as well.
constexpr std::size_t kMaxCopiedBytes = 3u << 20;

Error refused(std::string_view text) {
  return make_error(Errc::invalid, fmt::format("the JSON patch cannot be applied: {}", text));
}

Result<std::vector<std::string>> parse_pointer(std::string_view text) {
  std::vector<std::string> tokens;
  if (text.empty()) return tokens;
  if (text.front() != '/')
    return refused(fmt::format("path \"{}\" must start with '/'", text.substr(0, 256)));
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/') {
      tokens.emplace_back();
    } else if (text[i] == '~') {
      if (++i == text.size() || (text[i] != '0' && text[i] != '1'))
        return refused(fmt::format("path \"{}\" has a bad escape", text.substr(0, 256)));
      tokens.back().push_back(text[i] == '0' ? '~' : '/');
    } else {
      tokens.back().push_back(text[i]);
    }
  }
  return tokens;
}

std::optional<std::size_t> parse_index(std::string_view text) {
  std::size_t index = 0;
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), index);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return index;
}

using Tokens = std::vector<std::string>;

std::string shown(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += "/" + token;
  return text;
}

// Where the last token points into: its container.
Result<Json*> container_of(Json& document, const Tokens& tokens) {
  Json* here = &document;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    Json* next = nullptr;
    if (here->is_object()) {
      next = here->find(tokens[i]);
    } else if (here->is_array()) {
      const auto index = parse_index(tokens[i]);
      if (index && *index < here->size()) next = &here->at(*index);
    }
    if (next == nullptr) return refused(fmt::format("path {} does not exist", shown(tokens)));
    here = next;
  }
  return here;
}

Result<Json*> value_at(Json& document, const Tokens& tokens) {
  if (tokens.empty()) return &document;
  TRY(Json * container, container_of(document, tokens));
  if (container->is_object()) {
    if (Json* value = container->find(tokens.back())) return value;
  } else if (container->is_array()) {
    const auto index = parse_index(tokens.back());
    if (index && *index < container->size()) return &container->at(*index);
  }
  return refused(fmt::format("path {} does not exist", shown(tokens)));
}

Result<void> add(Json& document, const Tokens& tokens, Json value) {
  if (tokens.empty()) {
    document = std::move(value);
    return {};
  }
  TRY(Json * container, container_of(document, tokens));
  if (container->is_object()) {
    container->set(tokens.back(), std::move(value));
    return {};
  }
  if (!container->is_array()) return refused(fmt::format("path {} leads into a plain value", shown(tokens)));
  const auto index = tokens.back() == "-" ? std::optional(container->size()) : parse_index(tokens.back());
  if (!index || *index > container->size())
    return refused(fmt::format("path {} is outside its list", shown(tokens)));
  container->insert(*index, std::move(value));
  return {};
}

Result<Json> take(Json& document, const Tokens& tokens) {
  if (tokens.empty()) return refused("the whole document cannot be removed");
  TRY(Json * value, value_at(document, tokens));
  Json taken = std::move(*value);
  TRY(Json * container, container_of(document, tokens));
  if (container->is_object()) {
    container->erase(tokens.back());
  } else {
    container->erase(*parse_index(tokens.back()));
  }
  return taken;
}

struct Operation {
  std::string_view op;
  Tokens path;
  Tokens from;
  const Json* value = nullptr;
};

Result<Operation> read_operation(const Json& json) {
  Operation operation;
  const auto op = json.get_string("op");
  const auto path = json.get_string("path");
  if (!op || !path) return refused("each operation needs \"op\" and \"path\"");
  operation.op = *op;
  TRY(operation.path, parse_pointer(*path));
  operation.value = json.find("value");
  const bool needs_value = *op == "add" || *op == "replace" || *op == "test";
  const bool needs_from = *op == "move" || *op == "copy";
  if (!needs_value && !needs_from && *op != "remove")
    return refused(fmt::format("unknown operation \"{}\"", op->substr(0, 64)));
  if (needs_value && operation.value == nullptr) return refused(fmt::format("\"{}\" needs a \"value\"", *op));
  if (needs_from) {
    const auto from = json.get_string("from");
    if (!from) return refused(fmt::format("\"{}\" needs \"from\"", *op));
    TRY(operation.from, parse_pointer(*from));
  }
  return operation;
}

bool is_inside(const Tokens& inner, const Tokens& outer) {
  return inner.size() > outer.size() && std::equal(outer.begin(), outer.end(), inner.begin());
}

Result<void> run(Json& document, const Operation& operation, std::size_t& copied_bytes) {
  if (operation.op == "add") return add(document, operation.path, *operation.value);
  if (operation.op == "remove") {
    TRY_VOID(take(document, operation.path));
    return {};
  }
  if (operation.op == "move") {
    if (is_inside(operation.path, operation.from)) return refused("a value cannot be moved into itself");
    TRY(Json moved, take(document, operation.from));
    return add(document, operation.path, std::move(moved));
  }
  if (operation.op == "copy") {
    TRY(const Json* source, value_at(document, operation.from));
    copied_bytes += to_text(*source).size();
    if (copied_bytes > kMaxCopiedBytes) return refused("it copies too much");
    Json copy = *source;
    return add(document, operation.path, std::move(copy));
  }
  TRY(Json * target, value_at(document, operation.path));
  if (operation.op == "replace") {
    *target = *operation.value;
  } else if (!(*target == *operation.value)) {
    return refused(fmt::format("test of {} failed", shown(operation.path)));
  }
  return {};
}

}  // namespace

Result<Json> json_patch(Json document, const Json& patch) {
  if (!patch.is_array()) return refused("it must be a list of operations");
  if (patch.size() > kMaxOperations)
    return refused(fmt::format("it has {} operations, the limit is {}", patch.size(), kMaxOperations));
  std::size_t copied_bytes = 0;
  for (std::size_t i = 0; i < patch.size(); ++i) {
    TRY(const Operation operation, read_operation(patch.at(i)));
    TRY_VOID(run(document, operation, copied_bytes));
  }
  return document;
}

Json merge_patch(Json document,
                 const Json& patch) {  // NOLINT(misc-no-recursion): bounded by the parser's depth
  if (!patch.is_object()) return patch;
  if (!document.is_object()) document = Json::object();
  for (std::size_t i = 0; i < patch.size(); ++i) {
    const std::string_view key = patch.key_at(i);
    const Json& value = patch.value_at(i);
    if (value.is_null()) {
      document.erase(key);
    } else {
      Json* old = document.find(key);
      document.set(key, merge_patch(old == nullptr ? Json() : std::move(*old), value));
    }
  }
  return document;
}

}  // namespace moor::registry
