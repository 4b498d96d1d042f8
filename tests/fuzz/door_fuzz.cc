#include "door_fuzz.h"

#include "base/assert.h"
#include "doors/kube/object_proto.h"
#include "doors/kube/review.h"
#include "doors/kube/route.h"

namespace moor::doors::kube::fuzz {
namespace {

void check(const registry::Answer<Json>& decoded, std::uint64_t& read) {
  if (!decoded) {
    MOOR_ASSERT(!decoded.error().error.message.empty());
    return;
  }
  ++read;
  MOOR_ASSERT(decoded->is_object());
  const auto again = parse_json(to_text(*decoded));
  MOOR_ASSERT(again.ok() && *again == *decoded, "what was decoded is JSON");
}

}  // namespace

void try_protobuf(std::string_view bytes, std::uint64_t& read) {
  check(decode_object(bytes), read);
  check(decode_review(bytes), read);
}

void try_route(std::string_view bytes, std::uint64_t& read) {
  const auto target = http::Target::parse(bytes);
  if (!target) return;
  const Route route = find_route(*target);
  for (const auto method : {http::Method::get, http::Method::post, http::Method::put, http::Method::patch,
                            http::Method::delete_, http::Method::options})
    (void)verb_of(method, *target, route);
  if (route.to != Route::To::objects) return;
  ++read;
  MOOR_ASSERT(route.name.kind != nullptr, "objects are of a kind");
  MOOR_ASSERT(route.name.kind->namespaced || route.name.space.empty(), "a namespace where there is none");
  MOOR_ASSERT(route.name.name.find('/') == std::string::npos &&
              route.name.space.find('/') == std::string::npos);
}

}  // namespace moor::doors::kube::fuzz
