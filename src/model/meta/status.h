// The answer that says how a request went, and the options of a deletion: API types that are not stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/cause.h"
#include "model/kind.h"
#include "model/meta/object_meta.h"

namespace moor::model {

struct StatusCause {
  std::string reason = {};
  std::string message = {};
  std::string field = {};
};
MOOR_DESCRIBED(StatusCause);

struct StatusDetails {
  std::string name = {};
  std::string group = {};
  std::string kind = {};
  std::string uid = {};
  std::vector<StatusCause> causes = {};
  std::int32_t retry_after_seconds = 0;
};
MOOR_DESCRIBED(StatusDetails);

struct Status {
  ListMeta metadata = {};
  std::string status = {};  // Success or Failure
  std::string message = {};
  std::string reason = {};  // NotFound, AlreadyExists, Conflict, Invalid, …
  std::optional<StatusDetails> details = {};
  std::int32_t code = 0;
};
MOOR_DESCRIBED(Status);

struct Preconditions {
  std::optional<std::string> uid = {};
  std::optional<std::string> resource_version = {};
};
MOOR_DESCRIBED(Preconditions);

struct DeleteOptions {
  std::string api_version = {};
  std::string kind = {};
  std::optional<std::int64_t> grace_period_seconds = {};
  std::optional<Preconditions> preconditions = {};
  std::optional<bool> orphan_dependents = {};
  std::optional<std::string> propagation_policy = {};  // Orphan, Background, Foreground
  std::vector<std::string> dry_run = {};
};
MOOR_DESCRIBED(DeleteOptions);

// The 422 answer to an object that its kind refuses.
Status invalid_status(const KindInfo& kind, std::string_view name, const Causes& causes);

}  // namespace moor::model
