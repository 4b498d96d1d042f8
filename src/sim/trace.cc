#include "sim/trace.h"

#include <array>

namespace moor::sim {
namespace {

constexpr std::size_t kMostText = 900;
constexpr std::size_t kMostLeaf = 90;

// Times and counts of versions say nothing that the line's own time does not.
bool is_noise(std::string_view key) {
  return key.ends_with("At") || key.ends_with("Time") || key == "snapshots" || key == "proofs" ||
         key == "snapshotsReportedAt" || key == "replicaTransitionTimeMap";
}

std::string leaf(const Json* json) {
  if (json == nullptr) return "-";
  std::string text = json->is_string() ? std::string(json->as_string()) : to_text(*json);
  if (text.empty()) text = "\"\"";
  if (text.size() > kMostLeaf) text = text.substr(0, kMostLeaf) + "…";
  return text;
}

void compare(const Json* before, const Json* after, const std::string& path, std::string& text) {
  if (text.size() > kMostText) return;
  const bool inner = (before == nullptr || before->is_object()) && (after == nullptr || after->is_object());
  if (!inner) {
    if (before != nullptr && after != nullptr && *before == *after) return;
    text += (text.empty() ? " " : ", ") + path + ": " + leaf(before) + " → " + leaf(after);
    return;
  }
  for (const Json* side : {before, after}) {
    for (std::size_t i = 0; side != nullptr && i < side->size(); ++i) {
      const std::string_view key = side->key_at(i);
      const Json* old = before == nullptr ? nullptr : before->find(key);
      if (is_noise(key) || (side == after && old != nullptr)) continue;
      compare(old, after == nullptr ? nullptr : after->find(key), path + "." + std::string(key), text);
    }
  }
}

}  // namespace

std::string describe_change(const Change& change) {
  if (change.after == nullptr) return " is gone";
  std::string text;
  for (const char* part : {"spec", "status"})
    compare(change.before == nullptr ? nullptr : change.before->find(part), change.after->find(part), part,
            text);
  const Json* deleted = change.after->find_path({"metadata", "deletionTimestamp"});
  if (deleted != nullptr &&
      (change.before == nullptr || change.before->find_path({"metadata", "deletionTimestamp"}) == nullptr))
    text += " is to be deleted";
  return text;
}

}  // namespace moor::sim
