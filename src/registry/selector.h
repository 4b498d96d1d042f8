// Label and field selectors, as kubectl writes them and Kubernetes reads them. Plain values, pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace moor::registry {

// "app=db,tier in (a,b),!legacy"
class LabelSelector {
 public:
  enum class Operator { equal, not_equal, in, not_in, exists, absent, greater, less };
  struct Requirement {
    std::string key;
    Operator op = Operator::exists;
    std::vector<std::string> values;  // sorted; one for equal and not_equal
  };

  // Errc::invalid with the place that is wrong. "" selects everything.
  static Result<LabelSelector> parse(std::string_view text);
  bool matches(const Json* labels) const;  // null, or not an object: no labels
  // The same for labels that lie elsewhere: absent means no such label.
  using ValueOf = std::function<std::optional<std::string_view>(std::string_view key)>;
  bool matches(const ValueOf& value_of) const;
  std::string to_text() const;  // parse() reads it back
  bool empty() const { return requirements_.empty(); }
  const std::vector<Requirement>& requirements() const { return requirements_; }

 private:
  std::vector<Requirement> requirements_;
};

// "metadata.name=v1,status.phase!=Running"; which fields exist is the kind's business.
class FieldSelector {
 public:
  struct Requirement {
    std::string field;
    std::string value;
    bool equal = true;
  };

  static Result<FieldSelector> parse(std::string_view text);
  std::string to_text() const;  // parse() reads it back
  bool empty() const { return requirements_.empty(); }
  const std::vector<Requirement>& requirements() const { return requirements_; }

 private:
  std::vector<Requirement> requirements_;
};

}  // namespace moor::registry
