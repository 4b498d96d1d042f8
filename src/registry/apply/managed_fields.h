// Who owns which field: metadata.managedFields kept true over writes, and server-side apply built on it.
// Behaves as Kubernetes documents it: an apply owns what it names, gives up what it no longer names (and
// removes it when nobody else owns it), conflicts with other owners of values it would change, and shares
// ownership of values it leaves as they are. Pure: the time comes in as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/kind.h"
#include "registry/apply/field_set.h"

namespace moor::registry {

struct Writer {
  std::string manager;
  std::string subresource;  // "" or "status"
  std::string now;          // RFC 3339
};

struct Conflict {
  std::string manager;
  std::string operation;  // Apply or Update
  std::string subresource;
  std::string api_version;
  std::string time;
  FieldPath path;
};

struct Applied {
  Json object;                      // with managedFields; meaningless when there are conflicts
  std::vector<Conflict> conflicts;  // empty: done
};

// `live` null: the object is new. `config` is what the client sent, of this kind, without managedFields.
// Errc::invalid: the configuration cannot be read as one of this kind (a repeated key, managedFields given).
Result<Applied> server_side_apply(const model::KindInfo& kind, const Json* live, const Json& config,
                                  const Writer& writer, bool force);

// Records in `after` what this ordinary write changed against `before` (null: created). `after` carries the
// managed fields of `before`, or an empty list, by which a client resets them.
void track_write(const model::KindInfo& kind, const Json* before, Json& after, const Writer& writer);

}  // namespace moor::registry
