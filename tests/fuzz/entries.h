// One function per fuzz target: any bytes in, no crash, no hang, no memory beyond the bounds. The libFuzzer
// programs and the regression test call the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moor::block::fuzz {

using Input = std::span<const std::uint8_t>;

void nbd_server(Input input);
void nbd_client(Input input);
void peer_wire(Input input);
void control(Input input);
void metadata(Input input);  // the files of a replica: volume.meta, maps, sums, dirty log

}  // namespace moor::block::fuzz
