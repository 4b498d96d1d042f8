// What a write does to an object before it is stored: the parts that look at nothing but the object, what was
// there before and the clock. Pure functions, in the order in which the registry calls them.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "registry/registry.h"

namespace moor::registry {

// The object is of this kind, at this place: apiVersion, kind, name and namespace are filled in or agree.
Answer<void> check_form(const ResourceName& where, Json& object);

// Drops fields that the kind does not know. Strict: BadRequest when there are any, or keys that stood twice;
// Warn: answers the warnings.
Answer<std::vector<std::string>> check_fields(const model::KindInfo& kind, Json& object,
                                              const WriteOptions& options);

// metadata of an object that comes into being; its name is set already. Managed fields are kept only when
// they are our own (apply).
Answer<void> start_life(const model::KindInfo& kind, Json& object, const std::string& now, Random& random,
                        bool keep_managed_fields);
// A name of its own for an object that has only generateName. Invalid when it has neither.
Answer<void> choose_name(const model::KindInfo& kind, Json& object, Random& random);

// What the caller may not decide stays as it was: server-set metadata, status on the main resource,
// everything but status on the status subresource. Conflict when the uid or resourceVersion that the caller
// named is another.
Answer<void> continue_life(const ResourceName& what, const Json& before, Json& after);
// Counts generation up when anything outside metadata and status has changed.
void count_generation(const model::KindInfo& kind, const Json& before, Json& after);

// Nothing holds it any more: deletion was asked for and all finalizers are gone.
bool may_go(const model::KindInfo& kind, const Json& object);
bool is_namespace(const model::KindInfo& kind);
std::string metadata_text(const Json& object, std::string_view field);  // "" when absent

}  // namespace moor::registry
