// The refusals that Kubernetes' clients know, in the words that they know. One place, so that a door only
// copies them into Status objects.
#pragma once

#include <string>
#include <string_view>

#include "registry/registry.h"

namespace moor::registry {

Refusal refuse_bad_request(std::string message);                                                     // 400
Refusal refuse_forbidden(const model::KindInfo& kind, std::string_view name, std::string_view why);  // 403
Refusal refuse_not_found(const model::KindInfo& kind, std::string_view name);                        // 404
Refusal refuse_already_exists(const model::KindInfo& kind, std::string_view name);                   // 409
Refusal refuse_conflict(const model::KindInfo& kind, std::string_view name, std::string_view why);   // 409
// The object has changed since the caller read it.
Refusal refuse_modified(const model::KindInfo& kind, std::string_view name);
Refusal refuse_expired(std::string message);                                                       // 410
Refusal refuse_media_type(std::string message);                                                    // 415
Refusal refuse_invalid(const model::KindInfo& kind, std::string_view name, model::Causes causes);  // 422
// The resourceVersion asked for has not happened yet.
Refusal refuse_future(std::string_view asked, std::string_view newest);  // 504, try again

}  // namespace moor::registry
