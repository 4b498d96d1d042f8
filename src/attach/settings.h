// The settings of the system: names, defaults, what their values may be, and typed readings. A Setting object
// overrides its default; an absent object means the default. Names and defaults that Longhorn knows are
// Longhorn's.
//
// A stored value that does not parse counts as absent: admission refuses such values, so it can only come
// from a newer or older version, and a system that stops because of it would be worse.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cause.h"
#include "model/enum.h"
#include "model/longhorn/setting.h"
#include "model/longhorn/volume.h"

namespace moor::attach {

enum class SettingType { boolean, integer, duration, choice };

struct SettingDefinition {
  std::string_view name;
  SettingType type = SettingType::boolean;
  std::string_view fallback;  // the default, as text
  std::string_view description;
  std::int64_t minimum = 0;  // integers; durations in seconds
  std::int64_t maximum = 0;
  std::vector<std::string_view> choices = {};
};

// All settings, in order of name.
const std::vector<SettingDefinition>& setting_definitions();
const SettingDefinition* find_setting(std::string_view name);  // nullptr: there is none

// Empty when the value may be stored. An unknown name is refused, with the nearest known one.
model::Causes check_setting(std::string_view name, std::string_view value);

// Equal priorities: by id (shorter, then smaller), or by arrival.
enum class TieBreak { name, arrival };
MOOR_ENUM_NAMES(TieBreak, "name", "arrival")

// The values that hold. Cheap to copy; built from the Setting objects of the system namespace.
class Settings {
 public:
  Settings() = default;                                                    // every setting at its default
  static Settings from_values(std::map<std::string, std::string> values);  // by name
  static Settings from_objects(const std::vector<model::longhorn::Setting>& objects);

  // Any setting of the table as text: the stored value when it is valid, else the default; "" for a name that
  // is not in the table.
  std::string text(std::string_view name) const;
  bool boolean(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::chrono::seconds duration(std::string_view name) const;

  // Attachment.
  TieBreak tie_break() const;
  std::int64_t node_attach_limit() const;          // per node; 0: none
  std::chrono::seconds api_ticket_expiry() const;  // 0: never
  std::chrono::seconds expired_ticket_retention() const;
  bool detach_manual_tickets_when_cordoned() const;
  // Placement of replicas. The volume's own wish comes first.
  bool node_soft_anti_affinity(const model::longhorn::VolumeSpec& volume) const;
  bool zone_soft_anti_affinity(const model::longhorn::VolumeSpec& volume) const;
  bool disk_soft_anti_affinity(const model::longhorn::VolumeSpec& volume) const;
  std::int64_t over_provisioning_percentage() const;
  std::int64_t minimal_available_percentage() const;
  bool disable_scheduling_on_cordoned_node() const;
  bool allow_degraded_creation() const;
  std::int32_t default_replica_count() const;
  // Life of engines, replicas and nodes.
  std::chrono::seconds replica_start_wait() const;
  std::int64_t engine_restart_limit() const;
  std::chrono::seconds node_lease_duration() const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace moor::attach
