#include "cli/printer.h"

#include <fmt/format.h>

#include "model/yaml.h"

namespace moor::cli {
namespace {

// What people look at has no use for who owns which field; kubectl leaves it out too.
Json without_managed_fields(Json object) {
  if (Json* metadata = object.find("metadata")) metadata->erase("managedFields");
  return object;
}

std::string name_of(const Json& object) {
  const Json* name = object.find_path({"metadata", "name"});
  return name != nullptr && name->is_string() ? std::string(name->as_string()) : std::string();
}

}  // namespace

Result<Format> parse_format(std::string_view text) {
  constexpr std::string_view kNames[] = {"table", "wide", "json", "yaml", "name"};
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == text) return static_cast<Format>(i);
  return make_error(Errc::invalid,
                    fmt::format("'{}' is no output format: use table, wide, json, yaml or name", text));
}

void Printer::line(std::string_view text) const {
  streams_.out(std::string(text) + "\n");
}

void Printer::table(const Table& table) const {
  streams_.out(to_text(table, {format_ == Format::wide, streams_.colours_out, true}));
}

void Printer::data(const Json& value) const {
  if (format_ == Format::yaml) {
    streams_.out(model::to_yaml(value));
  } else {
    line(to_pretty_text(value));
  }
}

bool Printer::objects(const model::KindInfo& kind, const std::vector<Json>& items, bool as_list) const {
  if (for_people()) return false;
  if (format_ == Format::name) {
    for (const Json& item : items) line(fmt::format("{}/{}", kind.singular, name_of(item)));
    return true;
  }
  if (!as_list) {
    for (const Json& item : items) data(without_managed_fields(item));
    return true;
  }
  Json list = Json::object({{"apiVersion", "v1"}, {"kind", "List"}, {"items", Json::array()}});
  for (const Json& item : items) list["items"].push_back(without_managed_fields(item));
  data(list);
  return true;
}

void Printer::done(const model::KindInfo& kind, const Json& object, std::string_view sentence) const {
  if (!objects(kind, {object}, false)) line(sentence);
}

void Printer::note(std::string_view text) const {
  streams_.err(cli::paint(text, Colour::dim, streams_.colours_err) + "\n");
}

void Printer::warn(std::string_view text) const {
  streams_.err(fmt::format("{} {}\n", cli::paint("warning:", Colour::yellow, streams_.colours_err), text));
}

void Printer::fail(const Failure& failure) const {
  streams_.err(
      fmt::format("{} {}\n", cli::paint("moor:", Colour::red, streams_.colours_err), failure.message));
  if (!failure.hint.empty()) streams_.err(failure.hint + "\n");
}

}  // namespace moor::cli
