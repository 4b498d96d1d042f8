// The door's fuzz targets under any compiler: honest inputs, mutated by a seed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "door_fuzz.h"

namespace moor::doors::kube::fuzz {
namespace {

std::string mutate(std::string text, Random& random) {
  for (std::uint64_t i = 1 + random.below(4); i > 0; --i) {
    const std::size_t at = random.below(text.size() + 1);
    switch (random.below(3)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      case 1: text.erase(at, random.below(4)); break;
      default: text.insert(at, 1 + random.below(3), static_cast<char>(random.below(256)));
    }
  }
  return text;
}

void run(const std::vector<std::string>& corpus, void (*target)(std::string_view, std::uint64_t&)) {
  const std::uint64_t seed = 20261116;
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  std::uint64_t honest = 0;
  for (const std::string& text : corpus) target(text, honest);
  EXPECT_GE(honest, corpus.size());
  std::uint64_t read = 0;
  for (int i = 0; i < 50'000; ++i) target(mutate(corpus[random.below(corpus.size())], random), read);
  EXPECT_GT(read, 1000u);
}

TEST(DoorFuzz, ProtobufKeepsItsPromises) {
  using namespace std::string_literals;
  run({"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x1e\x0a\x18\x0a\x04team\x12\x00\x42\x00\x5a\x06\x0a\x01"
       "a\x12\x01"
       "b\x72\x04"
       "x/yz\x12\x00\x1a\x00\x1a\x00\x22\x00"s,
       "k8s\0\x0a\x0c\x0a\x02v1\x12\x06Secret\x12\x13\x0a\x03\x0a\x01s\x12\x08\x0a\x01k\x12\x03\x00\xff\x01\x28\x01"s},
      try_protobuf);
}

TEST(DoorFuzz, PathsLeadWhereTheySay) {
  run({"/api/v1/nodes/n1/status?watch=1", "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/volumes/v1",
       "/api/v1/namespaces/default/secrets?labelSelector=a%3Db&limit=5"},
      try_route);
}

}  // namespace
}  // namespace moor::doors::kube::fuzz
