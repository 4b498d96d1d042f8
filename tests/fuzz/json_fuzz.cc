#include <cstddef>

#include "registry_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static moor::registry::fuzz::Reached reached;
  moor::registry::fuzz::try_json({reinterpret_cast<const char*>(data), size}, reached);
  return 0;
}
