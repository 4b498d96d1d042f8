#include "model/core/event.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>

#include "model/core/cells.h"
#include "model/make_kind.h"

namespace moor::model::core {

MOOR_DESCRIBE(EventSource, "Who reported the event.") {
  f.omit_empty();
  f.add("component", &EventSource::component, "Program that reported it.");
  f.add("host", &EventSource::host, "Node it was reported from.");
}

MOOR_DESCRIBE(EventSeries, "How often the event has come again.") {
  f.omit_empty();
  f.add("count", &EventSeries::count, "How often.");
  f.add("lastObservedTime", &EventSeries::last_observed_time, "When it was seen last.");
}

MOOR_DESCRIBE(Event, "Something that happened to an object.") {
  f.omit_empty();
  f.type_meta(kApiVersion, "Event");
  f.add("metadata", &Event::metadata, "Name, labels and the rest of the metadata.").omit_empty(false);
  f.add("involvedObject", &Event::involved_object, "Object that it happened to.")
      .required()
      .omit_empty(false);
  f.add("reason", &Event::reason, "What happened, in one CamelCase word.");
  f.add("message", &Event::message, "What happened, in a sentence.");
  f.add("source", &Event::source, "Who reported it.");
  f.add("firstTimestamp", &Event::first_timestamp, "When it was seen first.");
  f.add("lastTimestamp", &Event::last_timestamp, "When it was seen last.");
  f.add("count", &Event::count, "How often it was seen.");
  f.add("type", &Event::type, "Normal or Warning.");
  f.add("eventTime", &Event::event_time, "When it happened.");
  f.add("series", &Event::series, "How often it has come again.");
  f.add("action", &Event::action, "What was done about it.");
  f.add("related", &Event::related, "Another object that had a part in it.");
  f.add("reportingComponent", &Event::reporting_component, "Program that reported it.").omit_empty(false);
  f.add("reportingInstance", &Event::reporting_instance, "Instance of that program.").omit_empty(false);
}

namespace {

Json last_seen_cell(const Json& object, Time now) {
  if (const Json* series = object.find("series"); series != nullptr && series->get_string("lastObservedTime"))
    return age_of(*series, {"lastObservedTime"}, now);
  return age_of(object, {"lastTimestamp", "eventTime", "firstTimestamp"}, now);
}

Json first_seen_cell(const Json& object, Time now) {
  return age_of(object, {"firstTimestamp", "eventTime"}, now);
}

// volume/v1
Json object_cell(const Json& object, Time) {
  const Json* involved = object.find("involvedObject");
  if (involved == nullptr) return "";
  std::string kind(involved->get_string("kind").value_or(""));
  std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::tolower(c); });
  return fmt::format("{}/{}", kind, involved->get_string("name").value_or(""));
}

Json source_cell(const Json& object, Time) {
  const Json* source = object.find("source");
  std::string text(source == nullptr ? "" : source->get_string("component").value_or(""));
  if (text.empty()) text = object.get_string("reportingComponent").value_or("");
  const auto host = source == nullptr ? std::nullopt : source->get_string("host");
  return host && !host->empty() ? fmt::format("{}, {}", text, *host) : text;
}

Json count_cell(const Json& object, Time) {
  if (const Json* series = object.find("series"); series != nullptr && series->get_int64("count"))
    return *series->get_int64("count");
  return std::max<std::int64_t>(1, object.get_int64("count").value_or(0));
}

}  // namespace

MOOR_KIND(
    Event, .version = kVersion, .kind = "Event", .plural = "events", .singular = "event",
    .short_names = {"ev"}, .has_status = false,
    .columns =
        {{.name = "Last Seen", .description = "When it was seen last.", .cell = last_seen_cell},
         {.name = "Type", .path = ".type", .description = "Normal or Warning."},
         {.name = "Reason", .path = ".reason", .description = "What happened, in one word."},
         {.name = "Object", .description = "Object that it happened to.", .cell = object_cell},
         {.name = "Subobject",
          .path = ".involvedObject.fieldPath",
          .description = "Part of that object.",
          .priority = 1},
         {.name = "Source", .description = "Who reported it.", .priority = 1, .cell = source_cell},
         {.name = "Message", .path = ".message", .description = "What happened."},
         {.name = "First Seen",
          .description = "When it was seen first.",
          .priority = 1,
          .cell = first_seen_cell},
         {.name = "Count",
          .type = "integer",
          .description = "How often it was seen.",
          .priority = 1,
          .cell = count_cell},
         {.name = "Name", .path = ".metadata.name", .description = "Name of the event.", .priority = 1}},
    .name_column = false,
    .selectable_fields = {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
                          "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
                          "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"},
    .strategic_patch = true, .check = typed_check<Event, validate_event>)

Causes validate_event(const Event& event) {
  Causes causes;
  // An event lives where its object lives, so that both are read and deleted with the same rights.
  const std::string& space = event.involved_object.space;
  if (!space.empty() && !event.metadata.space.empty() && space != event.metadata.space)
    causes.push_back(invalid("involvedObject.namespace", space, "must be the namespace of the event"));
  return causes;
}

}  // namespace moor::model::core
