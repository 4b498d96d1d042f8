// Something that happened to an object, for people. Events are counted instead of repeated and expire after a
// while.
#pragma once

#include "model/core/group.h"
#include "model/kind.h"
#include "model/meta/object_meta.h"

namespace moor::model::core {

struct EventSource {
  std::string component = {};
  std::string host = {};
};
MOOR_DESCRIBED(EventSource);

struct EventSeries {
  std::int32_t count = 0;
  std::optional<MicroTime> last_observed_time = {};
};
MOOR_DESCRIBED(EventSeries);

struct Event {
  ObjectMeta metadata = {};
  ObjectReference involved_object = {};
  std::string reason = {};
  std::string message = {};
  EventSource source = {};
  std::optional<Time> first_timestamp = {};
  std::optional<Time> last_timestamp = {};
  std::int32_t count = 0;
  std::string type = {};  // Normal, Warning
  std::optional<MicroTime> event_time = {};
  std::optional<EventSeries> series = {};
  std::string action = {};
  std::optional<ObjectReference> related = {};
  std::string reporting_component = {};
  std::string reporting_instance = {};
};
MOOR_DESCRIBED_KIND(Event);

Causes validate_event(const Event& event);

}  // namespace moor::model::core
