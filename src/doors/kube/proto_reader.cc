#include "doors/kube/proto_reader.h"

#include "http/url.h"
#include "registry/refusal.h"

namespace moor::doors::kube {

registry::Refusal refuse_damaged_proto() {
  return registry::refuse_bad_request("the protobuf body cannot be read");
}

std::optional<ProtoReader::Field> ProtoReader::next() {
  const auto tag = varint();
  if (!tag) return std::nullopt;
  Field field;
  field.number = *tag >> 3;
  switch (*tag & 7) {
    case 0: {
      const auto value = varint();
      if (!value) return std::nullopt;
      field.value = *value;
      return field;
    }
    case 1: return take(8) ? std::optional(field) : std::nullopt;
    case 2: {
      const auto size = varint();
      if (!size || *size > bytes_.size()) return std::nullopt;
      field.is_bytes = true;
      field.bytes = bytes_.substr(0, *size);
      bytes_.remove_prefix(*size);
      return field;
    }
    case 5: return take(4) ? std::optional(field) : std::nullopt;
    default: return std::nullopt;
  }
}

bool ProtoReader::take(std::size_t count) {
  if (bytes_.size() < count) return false;
  bytes_.remove_prefix(count);
  return true;
}

std::optional<std::uint64_t> ProtoReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80u) == 0) return value;
  }
  return std::nullopt;
}

registry::Answer<ProtoEnvelope> open_proto(std::string_view bytes) {
  constexpr std::string_view kMagic("k8s\0", 4);
  if (!bytes.starts_with(kMagic)) return refuse_damaged_proto();
  ProtoEnvelope envelope;
  for (ProtoReader reader(bytes.substr(kMagic.size())); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return refuse_damaged_proto();
    if (field->number == 2) envelope.message = field->bytes;
    if (field->number != 1) continue;
    for (ProtoReader type(field->bytes); !type.at_end();) {
      const auto part = type.next();
      if (!part || !http::is_utf8(part->bytes)) return refuse_damaged_proto();
      if (part->number == 1) envelope.api_version = part->bytes;
      if (part->number == 2) envelope.kind = part->bytes;
    }
  }
  return envelope;
}

}  // namespace moor::doors::kube
