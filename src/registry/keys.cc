#include "registry/keys.h"

#include <unordered_map>

#include "model/kinds.h"

namespace moor::registry {
namespace {

constexpr std::string_view kNoSpace = "-";

const std::unordered_map<std::string_view, const model::KindInfo*>& kinds_by_prefix() {
  // Keys are views into texts that live for ever, as the kinds do.
  static const auto* texts = [] {
    auto* all = new std::vector<std::string>;
    for (const model::KindInfo* kind : model::all_kinds()) all->push_back(prefix_of(*kind, ""));
    return all;
  }();
  static const auto* map = [] {
    auto* all = new std::unordered_map<std::string_view, const model::KindInfo*>;
    for (std::size_t i = 0; i < texts->size(); ++i) all->emplace((*texts)[i], model::all_kinds()[i]);
    return all;
  }();
  return *map;
}

}  // namespace

std::string prefix_of(const model::KindInfo& kind, std::string_view space) {
  return key_of(kind, space, "");
}

// Several times per read and write: by hand, in one piece.
std::string_view put_key(std::string& buffer, const model::KindInfo& kind, std::string_view space,
                         std::string_view name) {
  const std::string_view group = kind.group.empty() ? std::string_view("core") : kind.group;
  const std::string_view part = kind.namespaced ? space : kNoSpace;
  buffer.clear();
  buffer.reserve(group.size() + kind.plural.size() + part.size() + name.size() + 3);
  buffer.append(group).append(1, '/').append(kind.plural).append(1, '/');
  if (!part.empty()) buffer.append(part).append(1, '/');
  return buffer.append(name);
}

std::string key_of(const model::KindInfo& kind, std::string_view space, std::string_view name) {
  std::string key;
  put_key(key, kind, space, name);
  return key;
}

KeyParts split_key(std::string_view key) {
  const std::size_t first = key.find('/');
  const std::size_t second = first == std::string_view::npos ? first : key.find('/', first + 1);
  const std::size_t third = second == std::string_view::npos ? second : key.find('/', second + 1);
  if (third == std::string_view::npos) return {};
  const auto& kinds = kinds_by_prefix();
  auto found = kinds.find(key.substr(0, second + 1));
  if (found == kinds.end()) found = kinds.find(key.substr(0, third + 1));  // cluster-scoped: with its "-/"
  if (found == kinds.end()) return {};
  const std::string_view space = key.substr(second + 1, third - second - 1);
  return {found->second, found->second->namespaced ? space : std::string_view(), key.substr(third + 1)};
}

}  // namespace moor::registry
