#include <cstddef>

#include "http_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static moor::http::fuzz::Reached reached;
  moor::http::fuzz::try_request({reinterpret_cast<const char*>(data), size}, reached);
  return 0;
}
