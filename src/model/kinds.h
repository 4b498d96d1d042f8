// All kinds, in the order in which discovery lists them: core and storage groups first, so that `kubectl get
// nodes` and `volumeattachments` mean what a Kubernetes user expects.
//
// To add a kind: one file pair that describes it, one line in kinds.cc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "model/kind.h"

namespace moor::model {

struct GroupVersion {
  std::string_view group;
  std::string_view version;
  bool operator==(const GroupVersion&) const = default;
};

std::span<const KindInfo* const> all_kinds();
// In the order of all_kinds(), each once.
std::span<const GroupVersion> all_group_versions();
std::vector<const KindInfo*> kinds_of(const GroupVersion& group_version);

// nullptr when there is none.
const KindInfo* find_kind(std::string_view group, std::string_view version, std::string_view resource);
const KindInfo* find_kind_by_name(std::string_view api_version, std::string_view kind);

}  // namespace moor::model
