// The libFuzzer program of one target; MOOR_FUZZ_ENTRY names it.
#include "entries.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moor::block::fuzz::MOOR_FUZZ_ENTRY({data, size});
  return 0;
}
