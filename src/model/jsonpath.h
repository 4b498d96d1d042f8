// The part of JSONPath that printer columns use:
//
//   .status.state   .metadata.labels.foo   .metadata.labels.example\.com/name   .spec.x[0] .spec.list[*].name
//   .status.conditions[?(@.type=="Ready")].status   (also != and single quotes)
//
// A path is parsed once and evaluated against many objects; evaluation copies nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace moor::model {

class JsonPath {
 public:
  // Takes the path with or without surrounding braces and with or without a leading "$".
  static Result<JsonPath> parse(std::string_view text);

  // All values the path leads to, in document order; empty when it leads nowhere.
  std::vector<const Json*> find(const Json& root) const;

 private:
  struct Step {
    enum class Kind { field, index, every, filter } kind = Kind::field;
    std::string name;                  // field
    long index = 0;                    // index; negative counts from the end
    std::vector<std::string> operand;  // filter: path below @
    bool equal = true;                 // filter: == or !=
    std::string wanted;                // filter: the literal's plain text
  };
  std::vector<Step> steps_;

  static Result<Step> parse_bracket(std::string_view inside);
};

// A value as a table shows it: strings bare, everything else as JSON.
std::string plain_text(const Json& value);

}  // namespace moor::model
