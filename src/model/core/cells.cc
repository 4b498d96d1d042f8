#include "model/core/cells.h"

namespace moor::model::core {

std::string short_access_modes(const Json* modes) {
  static constexpr std::pair<std::string_view, std::string_view> kShort[] = {{"ReadWriteOnce", "RWO"},
                                                                             {"ReadOnlyMany", "ROX"},
                                                                             {"ReadWriteMany", "RWX"},
                                                                             {"ReadWriteOncePod", "RWOP"}};
  std::string text;
  // In this order and each once, whatever the order in the object.
  for (const auto& [name, brief] : kShort)
    for (std::size_t i = 0; modes != nullptr && modes->is_array() && i < modes->size(); ++i)
      if (modes->at(i) == Json(name)) {
        text += (text.empty() ? "" : ",") + std::string(brief);
        break;
      }
  return text;
}

std::string age_of(const Json& object, std::initializer_list<std::string_view> members, Time now) {
  for (const std::string_view member : members) {
    const auto text = object.get_string(member);
    const auto time = text ? parse_rfc3339(*text) : std::nullopt;
    if (time) return human_duration(now - *time);
  }
  return "<unknown>";
}

}  // namespace moor::model::core
