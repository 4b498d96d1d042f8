// What the fuzzers throw bytes at, and the properties that must hold whatever the bytes are. They abort on a
// violation; used by the libFuzzer targets and, over a corpus with mutations, by http_fuzz_regression_test.
#pragma once

#include <cstdint>
#include <string_view>

namespace moor::http::fuzz {

// How often the interesting branches were taken, so that a regression run can show that it reached them.
struct Reached {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;
  std::uint64_t bodies = 0;
};

void try_request(std::string_view data, Reached& reached);
void try_response(std::string_view data, Reached& reached);
void try_url(std::string_view data, Reached& reached);

}  // namespace moor::http::fuzz
