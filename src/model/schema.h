// The description of a type: what the API server, kubectl and server-side apply need to know about it. Every
// kind is described once, in its own .cc file (see describe.h); this tree is what comes out. All of it is
// built at first use, never changes afterwards and lives until the process ends, so any thread may read it
// and hold pointers into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"

namespace moor::model {

struct Codec;
struct StructSchema;

enum class SchemaType { any, boolean, integer, number, string, list, map, object };

enum class Format {
  none,
  int32,
  int64,
  int64_string,  // an int64 that travels as a JSON string; a number is taken too and becomes the string
  floating,
  date_time,   // RFC 3339, null when unset
  micro_time,  // RFC 3339 with microseconds
  duration,    // as Go prints it: 5m0s
  quantity,    // 10Gi; a number is taken too
  byte,        // base64
};

// What server-side apply owns in a list: the whole, each distinct scalar, or each item by its key fields.
enum class ListType { atomic, set, map };

struct Schema {
  SchemaType type = SchemaType::any;
  Format format = Format::none;
  const StructSchema* object = nullptr;  // SchemaType::object
  std::shared_ptr<const Schema> items;   // list items and map values
  std::vector<std::string_view> one_of;  // strings only; empty: any
  bool nullable = false;
  bool atomic = false;  // a map or object that apply owns as a whole
  ListType list_type = ListType::atomic;
  std::vector<std::string_view> list_keys;  // ListType::map
  // Strategic merge patch, which differs from apply for historical reasons: lists that merge, by which key
  // (empty: as a set of scalars).
  bool patch_merge = false;
  std::string_view patch_key;
  std::optional<std::int64_t> minimum;
  std::optional<std::int64_t> maximum;
  std::optional<std::size_t> max_items;
  std::optional<std::size_t> min_length;
};

struct FieldSchema {
  std::string_view name;
  std::string_view description;
  Schema schema;
  bool required = false;
  bool omit_empty = false;  // left out of the JSON when it holds its zero value
  bool immutable = false;   // once the object exists
  std::optional<Json> default_value;

  // The C++ side: where the member lies in its struct and how it meets JSON.
  const Codec* codec = nullptr;
  std::ptrdiff_t offset = 0;
};

struct StructSchema {
  std::string_view name;     // VolumeSpec
  std::string_view package;  // io.longhorn.v1beta2: the prefix of the OpenAPI component
  std::string_view description;
  std::vector<FieldSchema> fields;
  std::unordered_map<std::string_view, std::size_t> index;
  // Kubernetes knows more fields here than we model: they are kept, and not reported as unknown.
  bool preserve_unknown = false;
  std::ptrdiff_t extra_offset = -1;  // the `Json extra` member that carries them, when preserve_unknown
  // Kinds carry apiVersion and kind; the codec writes them and checks them when they stand there.
  std::string_view api_version;
  std::string_view kind;

  const FieldSchema* find(std::string_view field) const;
  std::string component() const;  // io.longhorn.v1beta2.VolumeSpec
};

// The field at a path such as {"spec", "nodeID"}, through objects only; nullptr when there is none.
const FieldSchema* find_field(const StructSchema& schema, std::initializer_list<std::string_view> path);

}  // namespace moor::model
