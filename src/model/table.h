// Printer columns: how objects of a kind look in `kubectl get`. A printer is made per request and parses the
// kind's paths once, so that a list of thousands costs only the look-ups.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/jsonpath.h"
#include "model/kind.h"

namespace moor::model {

class TablePrinter {
 public:
  explicit TablePrinter(const KindInfo& kind);

  // columnDefinitions of a meta.k8s.io/v1 Table.
  Json definitions() const;
  // The cells of one row, in the order of definitions(). Null where the object says nothing.
  Json cells(const Json& object, Time now) const;

 private:
  const KindInfo& kind_;
  std::vector<std::optional<JsonPath>> paths_;
};

// What each row carries beside its cells: the includeObject parameter of the request.
enum class IncludeObject { none, metadata, object };
std::optional<IncludeObject> parse_include_object(std::string_view text);

struct TableOptions {
  Time now;
  IncludeObject include = IncludeObject::metadata;
  bool definitions = true;  // watches send them with the first event only
  Json metadata;            // of the list; null: empty
};

// A whole Table. The objects are borrowed for the call.
Json make_table(const KindInfo& kind, std::span<const Json* const> objects, const TableOptions& options);

}  // namespace moor::model
