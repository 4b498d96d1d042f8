#include "doors/kube/object_proto.h"

#include <fmt/format.h>

#include <span>

#include "base/timestamp.h"
#include "doors/kube/proto_reader.h"
#include "http/url.h"
#include "registry/refusal.h"

namespace moor::doors::kube {
namespace {

using registry::Answer;

enum class Type { text, texts, number, boolean, time, micro_time, message, messages, text_map, bytes_map };

struct Field {
  std::uint64_t number;
  std::string_view name;
  Type type;
  std::span<const Field> message = {};  // of messages
};

constexpr Field kOwner[] = {
    {1, "kind", Type::text},       {3, "name", Type::text},          {4, "uid", Type::text},
    {5, "apiVersion", Type::text}, {6, "controller", Type::boolean}, {7, "blockOwnerDeletion", Type::boolean},
};
// managedFields, selfLink and what else only a server writes are left out.
constexpr Field kMetadata[] = {
    {1, "name", Type::text},
    {2, "generateName", Type::text},
    {3, "namespace", Type::text},
    {5, "uid", Type::text},
    {6, "resourceVersion", Type::text},
    {7, "generation", Type::number},
    {8, "creationTimestamp", Type::time},
    {9, "deletionTimestamp", Type::time},
    {10, "deletionGracePeriodSeconds", Type::number},
    {11, "labels", Type::text_map},
    {12, "annotations", Type::text_map},
    {13, "ownerReferences", Type::messages, kOwner},
    {14, "finalizers", Type::texts},
};
constexpr Field kNamespaceSpec[] = {{1, "finalizers", Type::texts}};
constexpr Field kNamespaceStatus[] = {{1, "phase", Type::text}};
constexpr Field kNamespace[] = {
    {1, "metadata", Type::message, kMetadata},
    {2, "spec", Type::message, kNamespaceSpec},
    {3, "status", Type::message, kNamespaceStatus},
};
constexpr Field kSecret[] = {
    {1, "metadata", Type::message, kMetadata}, {2, "data", Type::bytes_map},    {3, "type", Type::text},
    {4, "stringData", Type::text_map},         {5, "immutable", Type::boolean},
};
constexpr Field kLeaseSpec[] = {
    {1, "holderIdentity", Type::text},     {2, "leaseDurationSeconds", Type::number},
    {3, "acquireTime", Type::micro_time},  {4, "renewTime", Type::micro_time},
    {5, "leaseTransitions", Type::number},
};
constexpr Field kLease[] = {
    {1, "metadata", Type::message, kMetadata},
    {2, "spec", Type::message, kLeaseSpec},
};

struct Object {
  std::string_view api_version;
  std::string_view kind;
  std::span<const Field> message;
};
constexpr Object kObjects[] = {
    {"v1", "Namespace", kNamespace},
    {"v1", "Secret", kSecret},
    {"coordination.k8s.io/v1", "Lease", kLease},
};

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      text.push_back(k <= count ? kDigits[group >> (18 - 6 * k) & 63u] : '=');
  }
  return text;
}

// Null: no time was given (Go writes the zero time as an empty message).
Answer<Json> read_time(std::string_view bytes, bool micro) {
  constexpr std::uint64_t kYear10000 = 253'402'300'800;
  std::uint64_t seconds = 0;
  std::uint64_t nanos = 0;
  for (ProtoReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return refuse_damaged_proto();
    if (field->number == 1) seconds = field->value;
    if (field->number == 2) nanos = field->value;
  }
  if (seconds == 0 && nanos == 0) return Json();
  if (seconds >= kYear10000 || nanos >= 1'000'000'000) return refuse_damaged_proto();
  WallTime time;
  time.since_epoch = std::chrono::seconds(seconds) + std::chrono::microseconds(nanos / 1000);
  return Json(micro ? format_timestamp_micro(time) : format_timestamp(time));
}

Answer<void> add_entry(Json& map, std::string_view bytes, bool is_text) {
  std::string_view key;
  std::string_view value;
  for (ProtoReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return refuse_damaged_proto();
    if (field->number == 1) key = field->bytes;
    if (field->number == 2) value = field->bytes;
  }
  if (!http::is_utf8(key) || (is_text && !http::is_utf8(value))) return refuse_damaged_proto();
  map.set(key, is_text ? std::string(value) : to_base64(value));
  return {};
}

Json& list_at(Json& object, std::string_view name) {
  Json* found = object.find(name);
  return found != nullptr ? *found : object.set(name, Json::array());
}

Json& map_at(Json& object, std::string_view name) {
  Json* found = object.find(name);
  return found != nullptr ? *found : object.set(name, Json::object());
}

Answer<Json> read_message(std::string_view bytes, std::span<const Field> fields);

Answer<void> read_field(Json& object, const Field& known, const ProtoReader::Field& field) {
  const bool is_varint = known.type == Type::number || known.type == Type::boolean;
  if (field.is_bytes == is_varint) return refuse_damaged_proto();
  switch (known.type) {
    case Type::text:
    case Type::texts:
      if (!http::is_utf8(field.bytes)) return refuse_damaged_proto();
      if (known.type == Type::texts)
        list_at(object, known.name).push_back(field.bytes);
      else if (!field.bytes.empty())  // Go writes strings that nobody has set as empty ones
        object.set(known.name, field.bytes);
      return {};
    case Type::number:
      if (field.value != 0) object.set(known.name, static_cast<std::int64_t>(field.value));
      return {};
    case Type::boolean: object.set(known.name, field.value != 0); return {};
    case Type::time:
    case Type::micro_time: {
      TRY(Json time, read_time(field.bytes, known.type == Type::micro_time));
      if (!time.is_null()) object.set(known.name, std::move(time));
      return {};
    }
    case Type::message:
    case Type::messages: {
      TRY(Json inner, read_message(field.bytes, known.message));
      if (known.type == Type::messages)
        list_at(object, known.name).push_back(std::move(inner));
      else
        object.set(known.name, std::move(inner));
      return {};
    }
    case Type::text_map:
    case Type::bytes_map:
      return add_entry(map_at(object, known.name), field.bytes, known.type == Type::text_map);
  }
  return refuse_damaged_proto();
}

// As deep as the tables are: bytes cannot make it deeper.
Answer<Json> read_message(std::string_view bytes, std::span<const Field> fields) {
  Json object = Json::object();
  for (ProtoReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return refuse_damaged_proto();
    for (const Field& known : fields)
      if (known.number == field->number) TRY_VOID(read_field(object, known, *field));
  }
  return object;
}

}  // namespace

Answer<Json> decode_object(std::string_view bytes) {
  TRY(const ProtoEnvelope envelope, open_proto(bytes));
  for (const Object& known : kObjects) {
    if (known.api_version != envelope.api_version || known.kind != envelope.kind) continue;
    TRY(Json object, read_message(envelope.message, known.message));
    object.set("apiVersion", envelope.api_version);
    object.set("kind", envelope.kind);
    return object;
  }
  return registry::refuse_media_type(
      fmt::format("{} \"{}\" is not taken as protobuf here - accepted media types include: application/json",
                  envelope.api_version, envelope.kind));
}

}  // namespace moor::doors::kube
