// Objects seen through their schema: which places they have, where two differ, how one is laid over another.
// The rules are those of Kubernetes' structured merge: maps and structs field by field, lists by their
// declared type (atomic as a whole, set by value, map by key fields), what the schema does not know by its
// JSON shape with lists atomic. Pure functions on Json.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "model/schema.h"
#include "registry/apply/field_set.h"

namespace moor::registry {

struct Differences {
  FieldSet added;
  FieldSet modified;
  FieldSet removed;
};

// Errc::invalid when a keyed list repeats a key or an item lacks one, or a set repeats a value.
Result<void> check_lists(const Json& object, const model::StructSchema& schema);

// The places below a value in the fieldsV1 form, in one walk and without a set in between; {} for a value
// that is a place itself. None when a list names an item twice: then only a set is right.
std::optional<Json> places_of(const Json& value, const model::Schema* schema);
FieldSet field_set_of(const Json& object, const model::StructSchema& schema);
Differences compare(const Json& before, const Json& after, const model::StructSchema& schema);
// `over` wins where both have a place; keyed items and set values are united, new ones behind the old.
Json lay_over(Json under, const Json& over, const model::StructSchema& schema);
// Removes these places; a container that becomes empty by it goes too.
Json without(Json object, const FieldSet& unwanted, const model::StructSchema& schema);

// Whether the two differ only in values that stand on both sides, each owned in the recorded form `own` and
// in none of `others`: the change of a value by who changed it last, which no record of owners need follow.
// Only that part of the objects is looked at, and something in it differs. Allocates next to nothing. False
// says nothing: then compare().
bool changes_own_values(const Json& before, const Json& after, const model::StructSchema& schema,
                        std::string_view part, const Json& own, std::span<const Json* const> others);

}  // namespace moor::registry
