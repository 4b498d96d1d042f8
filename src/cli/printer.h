// Where a command's words go. Results go to stdout in the form that was asked for and nothing else does;
// progress, warnings and errors go to stderr. Colours only where the stream is a terminal and NO_COLOR is not
// set: whoever makes a Printer decides.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/outcome.h"
#include "cli/table.h"
#include "model/kind.h"

namespace moor::cli {

enum class Format { table, wide, json, yaml, name };
Result<Format> parse_format(std::string_view text);

struct Streams {
  std::function<void(std::string_view)> out;
  std::function<void(std::string_view)> err;
  bool colours_out = false;
  bool colours_err = false;
};

class Printer {
 public:
  Printer(Streams streams, Format format) : streams_(std::move(streams)), format_(format) {}

  Format format() const { return format_; }
  bool for_people() const { return format_ == Format::table || format_ == Format::wide; }

  // stdout
  void line(std::string_view text) const;
  void table(const Table& table) const;
  void data(const Json& value) const;  // as JSON or YAML: only when the format is one of them
  // Objects as json, yaml or names; a List when there are several to be shown. Answers false when the format
  // is for people: then the caller draws its own table.
  bool objects(const model::KindInfo& kind, const std::vector<Json>& items, bool as_list) const;
  // "volume v1 created" for people, the object else.
  void done(const model::KindInfo& kind, const Json& object, std::string_view sentence) const;

  // stderr
  void note(std::string_view text) const;  // progress, dim
  void warn(std::string_view text) const;
  void fail(const Failure& failure) const;

  std::string paint(std::string_view text, Colour colour) const {
    return cli::paint(text, colour, streams_.colours_out);
  }

 private:
  Streams streams_;
  Format format_;
};

}  // namespace moor::cli
