#include "registry_fuzz.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "model/kinds.h"
#include "registry/apply/managed_fields.h"
#include "registry/patch.h"
#include "registry/prepare.h"
#include "registry/selector.h"

namespace moor::registry::fuzz {
namespace {

const model::KindInfo& pods() {
  static const model::KindInfo& kind = *model::find_kind("", "v1", "pods");
  return kind;
}

std::optional<std::pair<Json, Json>> two_texts(std::string_view bytes) {
  const std::size_t split = bytes.find('\n');
  if (split == std::string_view::npos) return std::nullopt;
  auto first = parse_json(bytes.substr(0, split));
  auto second = parse_json(bytes.substr(split + 1));
  if (!first || !second) return std::nullopt;
  return std::pair(std::move(*first), std::move(*second));
}

// As the registry prepares what clients send.
bool prepare(Json& object) {
  const ResourceName where{&pods(), "default", "p", ""};
  WriteOptions options;
  if (!check_form(where, object) || !check_fields(pods(), object, options)) return false;
  return true;
}

}  // namespace

void try_json(std::string_view bytes, Reached& reached) {
  std::vector<std::string> duplicates;
  JsonParseOptions tracking;
  tracking.duplicates = &duplicates;
  const auto plain = parse_json(bytes);
  const auto tracked = parse_json(bytes, tracking);
  MOOR_ASSERT(plain.ok() == tracked.ok(), "looking for duplicates changes nothing");
  JsonParseOptions strict;
  strict.allow_duplicate_keys = false;
  MOOR_ASSERT(parse_json(bytes, strict).ok() == (plain.ok() && duplicates.empty()),
              "strict means without duplicates");
  if (!plain) return;
  ++reached.parsed;
  // 1.0 is written as 1 and is an integer from then on: texts are compared, not values.
  const std::string text = to_text(*plain);
  const auto again = parse_json(text);
  MOOR_ASSERT(again.ok() && to_text(*again) == text, "what is written means what was read: {}", text);
  const auto pretty = parse_json(to_pretty_text(*plain));
  MOOR_ASSERT(pretty.ok() && *pretty == *again, "pretty text means the same: {}", text);
  if (plain->is_object()) ++reached.applied;
}

void try_patch(std::string_view bytes, Reached& reached) {
  const auto texts = two_texts(bytes);
  if (!texts) return;
  ++reached.parsed;
  const auto& [document, patch] = *texts;
  const Json merged = merge_patch(document, patch);
  MOOR_ASSERT(merge_patch(merged, patch) == merged, "a merge patch applied twice is applied once");
  if (const auto patched = json_patch(document, patch)) {
    ++reached.applied;
    MOOR_ASSERT(!to_text(*patched).empty());
  }
  if (const auto patched = strategic_merge_patch(document, patch, *pods().schema)) {
    ++reached.applied;
    Json object = *patched;
    if (prepare(object)) (void)pods().validate(object);
  }
}

void try_apply(std::string_view bytes, Reached& reached) {
  auto texts = two_texts(bytes);
  if (!texts || !prepare(texts->first) || !prepare(texts->second)) return;
  ++reached.parsed;
  auto& [live, config] = *texts;
  track_write(pods(), nullptr, live, {"first", "", "2026-01-01T00:00:00Z"});
  const Writer writer{"second", "", "2026-01-01T00:00:01Z"};
  (void)server_side_apply(pods(), &live, config, writer, false);
  const auto applied = server_side_apply(pods(), &live, config, writer, true);
  if (!applied) return;
  ++reached.applied;
  MOOR_ASSERT(applied->conflicts.empty(), "force has no conflicts");
  const auto again = server_side_apply(pods(), &applied->object, config, writer, false);
  MOOR_ASSERT(again.ok() && again->conflicts.empty(), "the owner applies the same again");
  MOOR_ASSERT(again->object == applied->object, "the same configuration again changes nothing");
  const auto read = parse_json(to_text(applied->object));
  MOOR_ASSERT(read.ok() && *read == applied->object, "what is stored can be read");
}

void try_selectors(std::string_view bytes, Reached& reached) {
  if (const auto labels = LabelSelector::parse(bytes)) {
    ++reached.parsed;
    const auto again = LabelSelector::parse(labels->to_text());
    MOOR_ASSERT(again.ok() && again->to_text() == labels->to_text());
    const Json some = Json::object({{"a", "1"}, {"app", "db"}, {"tier", "x"}});
    MOOR_ASSERT(labels->matches(&some) == again->matches(&some));
    if (labels->matches(&some)) ++reached.applied;
    (void)labels->matches(nullptr);
  }
  if (const auto fields = FieldSelector::parse(bytes)) {
    ++reached.parsed;
    const auto again = FieldSelector::parse(fields->to_text());
    MOOR_ASSERT(again.ok() && again->requirements().size() == fields->requirements().size());
    MOOR_ASSERT(again->to_text() == fields->to_text());
  }
}

}  // namespace moor::registry::fuzz
