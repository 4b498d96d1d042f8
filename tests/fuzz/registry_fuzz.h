// Bodies of the registry's fuzz targets: JSON, patches, server-side apply, selectors. Each takes any bytes
// and aborts when a promise is broken; `reached` tells a test that its inputs got past the parsers.
#pragma once

#include <cstdint>
#include <string_view>

namespace moor::registry::fuzz {

struct Reached {
  std::uint64_t parsed = 0;
  std::uint64_t applied = 0;
};

// One JSON text: what is read can be written and read again, and means the same.
void try_json(std::string_view bytes, Reached& reached);
// Two JSON texts, a document and a patch, with a line feed between them.
void try_patch(std::string_view bytes, Reached& reached);
// Two JSON texts, a live Pod and a configuration.
void try_apply(std::string_view bytes, Reached& reached);
void try_selectors(std::string_view bytes, Reached& reached);

}  // namespace moor::registry::fuzz
