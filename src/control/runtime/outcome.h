// The objects as a plan leaves them, over those that are stored: what the next controller sees that plans for
// the same transaction. Only for plans that update specs and statuses; what comes into being or goes, and
// changes of metadata, are the registry's to make.
#pragma once

#include <vector>

#include "control/runtime/plan.h"
#include "control/runtime/source.h"

namespace moor::control {

class Outcome final : public Source {
 public:
  struct Change {
    const model::KindInfo* kind = nullptr;
    std::string space;
    std::string name;
    JsonPtr before;
    JsonPtr after;  // with the version of `before`, and its generation counted as a write would
  };

  // `stored` outlives this. Absent: the plan does something else than update specs and statuses.
  static std::optional<Outcome> of(const Plan& plan, const Source& stored);
  const std::vector<Change>& changes() const { return changes_; }

  JsonPtr find(const model::KindInfo& kind, std::string_view space, std::string_view name) const override;
  void for_each(const model::KindInfo& kind, std::string_view space, const Visit& visit) const override;
  void of_volume(const model::KindInfo& kind, std::string_view space, std::string_view volume,
                 const Visit& visit) const override;
  // By what is stored: a value that the plan changes finds its object where it was.
  void by_field(const model::KindInfo& kind, std::string_view field, std::string_view value,
                const Visit& visit) const override;

 private:
  explicit Outcome(const Source& stored) : stored_(stored) {}
  const JsonPtr& newest(const model::KindInfo& kind, const JsonPtr& object) const;

  const Source& stored_;
  std::vector<Change> changes_;  // a handful
};

}  // namespace moor::control
