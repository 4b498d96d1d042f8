#include <cstddef>

#include "door_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::uint64_t read = 0;
  moor::doors::kube::fuzz::try_protobuf({reinterpret_cast<const char*>(data), size}, read);
  return 0;
}
