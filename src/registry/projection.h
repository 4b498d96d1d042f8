// What the cache keeps of a stored object: its text, and the terms by which selectors, the garbage collector
// and watches find it. The Json is decoded when somebody asks, and shared while somebody holds it. Pure but
// for that.
#pragma once

#include <memory>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "model/kind.h"
#include "registry/item.h"
#include "store/cache/object.h"

namespace moor::registry {

inline constexpr std::uint32_t kLabelTerm = 1;  // key=value
inline constexpr std::uint32_t kOwnerTerm = 2;  // the owner's uid
inline constexpr std::uint32_t kFieldTerm = 3;  // field=value, never with an empty value

// Both have the same uid, owners and finalizers, and both are being deleted or neither is.
bool lives_alike(const store::CachedObject& a, const store::CachedObject& b);

// Answers what it decoded on the way: who keeps it for a moment spares the next reader the work. `written` is
// the object that the text was made from, by encode_stored(), when its writer is at hand: then nothing is
// decoded, nor copied if the writer has let go of it. Null: the text is read.
JsonPtr project(store::CachedObject& object, Json written = {});
// Null: the stored bytes are damaged, or no kind of ours lies at that key. Decodes, unless somebody holds
// what was decoded before.
JsonPtr object_of(const store::CachedObject& object);
// The stored text with a resourceVersion put in, without decoding it. Only where the object has a mark.
void append_stored_text(std::string& out, const store::CachedObject& object, store::Revision revision);
// By the terms.
bool has_owner(const store::CachedObject& object);
std::optional<std::string_view> label_of(const store::CachedObject& object, std::string_view key);

store::Term label_term(std::string_view key, std::string_view value);
store::Term owner_term(std::string_view uid);
store::Term field_term(std::string_view field, std::string_view value);
// Not every selectable field is worth an index: events have a dozen.
bool is_indexed(const model::KindInfo& kind, std::string_view field);

// From and to what the store keeps: the object's text without its resourceVersion, which is the revision.
Result<Json> decode_stored(std::string_view bytes, store::Revision revision);
std::string encode_stored(Json& object);  // takes the resourceVersion out

}  // namespace moor::registry
