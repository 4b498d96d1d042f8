// Questions about oneself: may I (SelfSubjectAccessReview), what may I (SelfSubjectRulesReview), who am I
// (SelfSubjectReview). Answered, never stored.
#pragma once

#include <string_view>
#include <vector>

#include "doors/auth/authorizer.h"
#include "doors/kube/body.h"
#include "model/discovery.h"
#include "registry/registry.h"

namespace moor::doors::kube {

bool is_review(std::string_view group, std::string_view version, std::string_view resource);
std::vector<model::VirtualResource> review_resources();

// The review as JSON; kubectl may send these in Kubernetes' protobuf.
registry::Answer<Json> read_review(const http::Request& request);
// `resource` is one that is_review() knows. What a node may write depends on the object, so it is looked up.
Task<registry::Answer<Json>> answer_review(registry::Registry& registry, std::string resource, Json review,
                                           Caller caller);

// review_proto.cc: the envelope "k8s\0" with a runtime.Unknown around the message.
registry::Answer<Json> decode_review(std::string_view bytes);

}  // namespace moor::doors::kube
