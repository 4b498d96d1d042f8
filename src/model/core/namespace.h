// A namespace: while it terminates nothing new is made in it, and it goes once it is empty.
#pragma once

#include "model/core/group.h"
#include "model/kind.h"
#include "model/meta/condition.h"
#include "model/meta/object_meta.h"

namespace moor::model::core {

enum class NamespacePhase { none, active, terminating };
MOOR_ENUM_NAMES(NamespacePhase, "", "Active", "Terminating")

struct NamespaceSpec {
  std::vector<std::string> finalizers = {};
  Json extra = {};
};
MOOR_DESCRIBED(NamespaceSpec);

struct NamespaceStatus {
  NamespacePhase phase = NamespacePhase::none;
  std::vector<StandardCondition> conditions = {};
  Json extra = {};
};
MOOR_DESCRIBED(NamespaceStatus);

struct Namespace {
  ObjectMeta metadata = {};
  NamespaceSpec spec = {};
  NamespaceStatus status = {};
};
MOOR_DESCRIBED_KIND(Namespace);

}  // namespace moor::model::core
