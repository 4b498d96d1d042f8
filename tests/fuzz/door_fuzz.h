// Bodies of the kube door's fuzz targets. Each takes any bytes and aborts when a promise is broken; `read`
// counts what got past the decoders.
#pragma once

#include <cstdint>
#include <string_view>

namespace moor::doors::kube::fuzz {

// A request's body in Kubernetes' protobuf: an object, or a review.
void try_protobuf(std::string_view bytes, std::uint64_t& read);
// The target of a request: where it leads.
void try_route(std::string_view bytes, std::uint64_t& read);

}  // namespace moor::doors::kube::fuzz
