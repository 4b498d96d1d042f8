// A reader of protobuf's wire format, and of the envelope that Kubernetes puts around its messages ("k8s\0"
// and a runtime.Unknown). Views into the bytes that it is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "registry/registry.h"

namespace moor::doors::kube {

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : bytes_(bytes) {}

  struct Field {
    std::uint64_t number = 0;
    std::uint64_t value = 0;  // of varints
    std::string_view bytes;   // of length-delimited fields
    bool is_bytes = false;
  };
  bool at_end() const { return bytes_.empty(); }
  // Absent: the bytes are no message.
  std::optional<Field> next();

 private:
  bool take(std::size_t count);
  std::optional<std::uint64_t> varint();

  std::string_view bytes_;
};

struct ProtoEnvelope {
  std::string api_version;
  std::string kind;
  std::string_view message;
};
registry::Answer<ProtoEnvelope> open_proto(std::string_view bytes);
registry::Refusal refuse_damaged_proto();

}  // namespace moor::doors::kube
