#include "attach/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "model/time.h"

namespace moor::attach {

using model::longhorn::Toggle;

namespace {

constexpr std::int64_t kDay = 24 * 60 * 60;

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "90s", "5m", "1h30m"; plain digits are seconds, as Longhorn's settings write them. Absent when it is none
// or not whole seconds.
std::optional<std::int64_t> parse_seconds(std::string_view text) {
  if (const auto plain = parse_integer(text)) return plain;
  const auto duration = model::parse_go_duration(text);
  if (!duration || *duration % std::chrono::seconds(1) != std::chrono::nanoseconds(0)) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::seconds>(*duration).count();
}

std::optional<std::int64_t> parse_number(const SettingDefinition& setting, std::string_view text) {
  const auto value = setting.type == SettingType::duration ? parse_seconds(text) : parse_integer(text);
  if (!value || *value < setting.minimum || *value > setting.maximum) return std::nullopt;
  return value;
}

bool is_valid(const SettingDefinition& setting, std::string_view value) {
  switch (setting.type) {
    case SettingType::boolean: return value == "true" || value == "false";
    case SettingType::integer:
    case SettingType::duration: return parse_number(setting, value).has_value();
    case SettingType::choice:
      return std::find(setting.choices.begin(), setting.choices.end(), value) != setting.choices.end();
  }
  return false;
}

// How many single letters differ, for "did you mean".
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t i = 0; i <= to.size(); ++i) row[i] = i;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[to.size()];
}

std::string_view nearest_name(std::string_view name) {
  std::string_view best;
  std::size_t best_distance = 6;  // further away is no typing mistake
  if (name.size() > 200) return best;
  for (const SettingDefinition& setting : setting_definitions())
    if (const std::size_t distance = edit_distance(name, setting.name); distance < best_distance) {
      best = setting.name;
      best_distance = distance;
    }
  return best;
}

bool resolve(Toggle own, bool setting) {
  return own == Toggle::enabled || (own != Toggle::disabled && setting);
}

}  // namespace

const std::vector<SettingDefinition>& setting_definitions() {
  static const std::vector<SettingDefinition> settings = {
      {"allow-volume-creation-with-degraded-availability", SettingType::boolean, "true",
       "A new volume may be used when fewer replicas than wanted found a place."},
      {"api-ticket-expiry", SettingType::duration, "0",
       "How long a ticket of the plain API holds a volume when it names no end itself; 0: until it is taken "
       "back.",
       0, 3650 * kDay},
      {"attachment-tie-break",
       SettingType::choice,
       "name",
       "Which of several tickets of equal priority is first: by id (the shorter, then the smaller), or by "
       "arrival.",
       0,
       0,
       {"name", "arrival"}},
      {"default-replica-count", SettingType::integer, "3", "Replicas of a volume that does not say how many.",
       1, 20},
      {"detach-manually-attached-volumes-when-cordoned", SettingType::boolean, "false",
       "Tickets of the plain API are taken back when their node is cordoned."},
      {"disable-scheduling-on-cordoned-node", SettingType::boolean, "true",
       "No new replicas on nodes that are cordoned."},
      {"engine-restart-limit", SettingType::integer, "10",
       "Restarts of an engine in a row before the system stops and asks for a person.", 1, 1000},
      {"expired-ticket-retention", SettingType::duration, "3600",
       "How long a ticket that lapsed stays visible, without effect, before it is removed.", 0, 365 * kDay},
      {"node-attach-limit", SettingType::integer, "0",
       "Volumes that may be attached to one node at a time; 0: no limit.", 0, 100'000},
      {"node-lease-duration", SettingType::duration, "10",
       "How long after its last sign of life a node counts as unreachable.", 1, kDay},
      {"replica-disk-soft-anti-affinity", SettingType::boolean, "true",
       "Replicas of one volume may share a disk when there is no other."},
      {"replica-replenishment-wait-interval", SettingType::duration, "600",
       "How long a failed replica is waited for before a new one takes its place.", 0, 365 * kDay},
      {"replica-soft-anti-affinity", SettingType::boolean, "false",
       "Replicas of one volume may share a node when there is no other."},
      {"replica-start-wait", SettingType::duration, "30",
       "How long an engine's start waits for in-sync replicas on ready nodes.", 0, kDay},
      {"replica-zone-soft-anti-affinity", SettingType::boolean, "true",
       "Replicas of one volume may share a zone when there is no other."},
      {"storage-minimal-available-percentage", SettingType::integer, "25",
       "A disk with less free space than this share takes no new replicas.", 0, 100},
      {"storage-over-provisioning-percentage", SettingType::integer, "100",
       "How much of a disk's space may be promised to replicas.", 0, 1'000'000},
      {"storage-reserved-percentage-for-default-disk", SettingType::integer, "30",
       "Share of the disk made at a node's first start that is kept for others.", 0, 100},
  };
  return settings;
}

const SettingDefinition* find_setting(std::string_view name) {
  for (const SettingDefinition& setting : setting_definitions())
    if (setting.name == name) return &setting;
  return nullptr;
}

model::Causes check_setting(std::string_view name, std::string_view value) {
  const SettingDefinition* setting = find_setting(name);
  if (setting == nullptr) {
    const std::string_view nearest = nearest_name(name);
    const std::string hint = nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
    return {model::invalid("metadata.name", name, "there is no setting of this name" + hint)};
  }
  if (is_valid(*setting, value)) return {};
  switch (setting->type) {
    case SettingType::boolean: return {model::not_supported("value", value, {"true", "false"})};
    case SettingType::choice: return {model::not_supported("value", value, setting->choices)};
    case SettingType::integer:
      return {model::invalid(
          "value", value,
          fmt::format("must be a whole number from {} to {}", setting->minimum, setting->maximum))};
    case SettingType::duration:
      return {model::invalid("value", value,
                             fmt::format("must be whole seconds from {} to {}, as a number or like \"1h30m\"",
                                         setting->minimum, setting->maximum))};
  }
  return {};
}

Settings Settings::from_values(std::map<std::string, std::string> values) {
  Settings settings;
  settings.values_ = std::move(values);
  return settings;
}

Settings Settings::from_objects(const std::vector<model::longhorn::Setting>& objects) {
  std::map<std::string, std::string> values;
  for (const model::longhorn::Setting& object : objects) values[object.metadata.name] = object.value;
  return from_values(std::move(values));
}

std::string Settings::text(std::string_view name) const {
  const SettingDefinition* setting = find_setting(name);
  if (setting == nullptr) return {};
  const auto found = values_.find(std::string(name));
  if (found != values_.end() && is_valid(*setting, found->second)) return found->second;
  return std::string(setting->fallback);
}

bool Settings::boolean(std::string_view name) const {
  return text(name) == "true";
}

std::int64_t Settings::integer(std::string_view name) const {
  const SettingDefinition* setting = find_setting(name);
  return setting == nullptr ? 0 : parse_number(*setting, text(name)).value_or(0);
}

std::chrono::seconds Settings::duration(std::string_view name) const {
  return std::chrono::seconds(integer(name));
}

TieBreak Settings::tie_break() const {
  return model::enum_from<TieBreak>(text("attachment-tie-break")).value_or(TieBreak::name);
}
std::int64_t Settings::node_attach_limit() const {
  return integer("node-attach-limit");
}
std::chrono::seconds Settings::api_ticket_expiry() const {
  return duration("api-ticket-expiry");
}
std::chrono::seconds Settings::expired_ticket_retention() const {
  return duration("expired-ticket-retention");
}
bool Settings::detach_manual_tickets_when_cordoned() const {
  return boolean("detach-manually-attached-volumes-when-cordoned");
}
bool Settings::node_soft_anti_affinity(const model::longhorn::VolumeSpec& volume) const {
  return resolve(volume.replica_soft_anti_affinity, boolean("replica-soft-anti-affinity"));
}
bool Settings::zone_soft_anti_affinity(const model::longhorn::VolumeSpec& volume) const {
  return resolve(volume.replica_zone_soft_anti_affinity, boolean("replica-zone-soft-anti-affinity"));
}
bool Settings::disk_soft_anti_affinity(const model::longhorn::VolumeSpec& volume) const {
  return resolve(volume.replica_disk_soft_anti_affinity, boolean("replica-disk-soft-anti-affinity"));
}
std::int64_t Settings::over_provisioning_percentage() const {
  return integer("storage-over-provisioning-percentage");
}
std::int64_t Settings::minimal_available_percentage() const {
  return integer("storage-minimal-available-percentage");
}
bool Settings::disable_scheduling_on_cordoned_node() const {
  return boolean("disable-scheduling-on-cordoned-node");
}
bool Settings::allow_degraded_creation() const {
  return boolean("allow-volume-creation-with-degraded-availability");
}
std::int32_t Settings::default_replica_count() const {
  return static_cast<std::int32_t>(integer("default-replica-count"));
}
std::chrono::seconds Settings::replica_start_wait() const {
  return duration("replica-start-wait");
}
std::int64_t Settings::engine_restart_limit() const {
  return integer("engine-restart-limit");
}
std::chrono::seconds Settings::node_lease_duration() const {
  return duration("node-lease-duration");
}

}  // namespace moor::attach
