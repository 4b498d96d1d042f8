#include "cli/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <string>

namespace moor::cli {
namespace {

constexpr std::size_t kMaxDepth = 64;
// Aliases of aliases grow without bound (ten lines can become a billion values).
constexpr std::size_t kMaxValues = 100'000;

struct Reader {
  std::size_t values = 0;

  static Error wrong(const YAML::Node& node, std::string_view what) {
    const YAML::Mark mark = node.Mark();
    return make_error(Errc::invalid, fmt::format("line {}: {}", mark.line + 1, what));
  }

  static Json plain(const std::string& text) {
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
    if (text == "true" || text == "True" || text == "TRUE") return true;
    if (text == "false" || text == "False" || text == "FALSE") return false;
    // JSON's numbers are the ones that every reader of YAML agrees on; 0x1F or 1_000 stay text.
    const bool like_number = text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
    if (like_number)
      if (auto number = parse_json(text); number && number->is_number()) return *number;
    return text;
  }

  Result<Json> scalar(const YAML::Node& node) const {
    const std::string& tag = node.Tag();
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return Json(node.Scalar());  // quoted
    if (!tag.empty() && tag != "?") return wrong(node, fmt::format("the tag {} is not supported", tag));
    return plain(node.Scalar());
  }

  Result<Json> map(const YAML::Node& node, std::size_t depth) {
    Json object = Json::object();
    for (const auto& member : node) {
      if (!member.first.IsScalar()) return wrong(member.first, "a key must be plain text");
      const std::string& key = member.first.Scalar();
      if (object.contains(key)) return wrong(member.first, fmt::format("the key '{}' stands twice", key));
      TRY(Json value, read(member.second, depth + 1));
      object.set(key, std::move(value));
    }
    return object;
  }

  Result<Json> read(const YAML::Node& node, std::size_t depth) {
    if (depth > kMaxDepth) return wrong(node, "nested too deep");
    if (++values > kMaxValues) return wrong(node, "too many values");
    switch (node.Type()) {
      case YAML::NodeType::Scalar: return scalar(node);
      case YAML::NodeType::Map: return map(node, depth);
      case YAML::NodeType::Sequence: {
        Json array = Json::array();
        for (const auto& item : node) {
          TRY(Json value, read(item, depth + 1));
          array.push_back(std::move(value));
        }
        return array;
      }
      default: return Json();
    }
  }
};

}  // namespace

Result<Json> parse_yaml(std::string_view text) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) return make_error(Errc::invalid, "more than one YAML document");
    if (documents.empty()) return Json();
    Reader reader;
    return reader.read(documents.front(), 0);
  } catch (const YAML::Exception& error) {
    return make_error(Errc::invalid, fmt::format("line {}: {}", error.mark.line + 1, error.msg));
  }
}

}  // namespace moor::cli
