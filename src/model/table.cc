#include "model/table.h"

#include <fmt/format.h>

#include "base/assert.h"

namespace moor::model {
namespace {

Json date_cell(const Json& value, Time now) {
  if (!value.is_string() || value.as_string().empty()) return "<unknown>";
  const auto time = parse_rfc3339(value.as_string());
  return time ? Json(human_duration(now - *time)) : Json("<invalid>");
}

// The value in the column's type, or nothing: a cell of another type would break the client that reads it.
Json typed_cell(std::string_view type, const std::vector<const Json*>& found, Time now) {
  if (found.empty() || found.front()->is_null()) return type == "date" ? Json("<unknown>") : Json();
  const Json& first = *found.front();
  if (type == "date") return date_cell(first, now);
  if (type == "boolean") return first.is_bool() ? first : Json();
  if (type == "integer") return first.is_integer() ? first : Json();
  if (type == "number") return first.is_number() ? first : Json();
  std::string text;
  for (const Json* one : found) text += (text.empty() ? "" : " ") + plain_text(*one);
  return text;
}

Json name_of(const Json& object) {
  const Json* name = object.find_path({"metadata", "name"});
  return name == nullptr ? Json("") : *name;
}

Json row_object(const Json& object, IncludeObject include) {
  if (include == IncludeObject::object) return object;
  const Json* metadata = object.find("metadata");
  return Json::object({{"kind", "PartialObjectMetadata"},
                       {"apiVersion", "meta.k8s.io/v1"},
                       {"metadata", metadata == nullptr ? Json::object() : *metadata}});
}

}  // namespace

TablePrinter::TablePrinter(const KindInfo& kind) : kind_(kind) {
  for (const Column& column : kind.columns) {
    if (column.cell != nullptr) {
      paths_.emplace_back();
      continue;
    }
    auto path = JsonPath::parse(column.path);
    MOOR_ASSERT(path.ok(), "column {} of {}: {}", column.name, kind.kind, path.error().message);
    paths_.emplace_back(std::move(*path));
  }
}

Json TablePrinter::definitions() const {
  Json list = Json::array();
  if (kind_.name_column)
    list.push_back(
        Json::object({{"name", "Name"},
                      {"type", "string"},
                      {"format", "name"},
                      {"description", "Name, unique among the objects of its kind in a namespace."},
                      {"priority", 0}}));
  for (const Column& column : kind_.columns)
    list.push_back(Json::object({{"name", column.name},
                                 {"type", column.type},
                                 {"format", column.name == "Name" ? "name" : ""},
                                 {"description", column.description},
                                 {"priority", column.priority}}));
  return list;
}

Json TablePrinter::cells(const Json& object, Time now) const {
  Json cells = Json::array();
  if (kind_.name_column) cells.push_back(kind_.name_cell ? kind_.name_cell(object, now) : name_of(object));
  for (std::size_t i = 0; i < kind_.columns.size(); ++i) {
    const Column& column = kind_.columns[i];
    cells.push_back(column.cell ? column.cell(object, now)
                                : typed_cell(column.type, paths_[i]->find(object), now));
  }
  return cells;
}

std::optional<IncludeObject> parse_include_object(std::string_view text) {
  if (text.empty() || text == "Metadata") return IncludeObject::metadata;
  if (text == "None") return IncludeObject::none;
  if (text == "Object") return IncludeObject::object;
  return std::nullopt;
}

Json make_table(const KindInfo& kind, std::span<const Json* const> objects, const TableOptions& options) {
  const TablePrinter printer(kind);
  Json rows = Json::array();
  for (const Json* object : objects) {
    Json row = Json::object({{"cells", printer.cells(*object, options.now)}});
    if (options.include != IncludeObject::none) row.set("object", row_object(*object, options.include));
    rows.push_back(std::move(row));
  }
  return Json::object({{"kind", "Table"},
                       {"apiVersion", "meta.k8s.io/v1"},
                       {"metadata", options.metadata.is_null() ? Json::object() : options.metadata},
                       {"columnDefinitions", options.definitions ? printer.definitions() : Json()},
                       {"rows", std::move(rows)}});
}

}  // namespace moor::model
