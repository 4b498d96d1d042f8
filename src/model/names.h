// The rules for names, labels, annotations and the rest of metadata, as Kubernetes has them.
#pragma once

#include <string_view>

#include "model/cause.h"
#include "model/kind.h"

namespace moor::model {

bool is_dns1123_label(std::string_view text);      // up to 63 characters: a-z, 0-9, '-'
bool is_dns1123_subdomain(std::string_view text);  // labels joined by '.', up to 253 characters
bool is_qualified_name(std::string_view text);     // [prefix/]name, the form of label and annotation keys
bool is_label_value(std::string_view text);        // empty or up to 63 characters

inline constexpr std::size_t kMaxAnnotationBytes = 256 * 1024;  // keys and values together
// generateName plus five random characters must fit a name.
inline constexpr std::size_t kMaxNameLength = 253;

// Finds everything wrong with `metadata` of a complete object.
void check_metadata(const KindInfo& kind, const Json& metadata, Causes& causes);
// What may not change in metadata while an object lives.
void check_metadata_update(const Json& before, const Json& after, Causes& causes);

}  // namespace moor::model
