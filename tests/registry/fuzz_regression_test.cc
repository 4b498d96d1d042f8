// The fuzz targets under any compiler: honest and crooked inputs, mutated by a seed. Mutations replace whole
// tokens as well as bytes, so that most of them still parse.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "registry_fuzz.h"

namespace moor::registry::fuzz {
namespace {

using Corpus = std::vector<std::string>;

const Corpus kTexts = {
    R"({"a":[1,-2,3.5,1e10,0.1],"b":{"c":null,"d":[true,false]},"e":"\u00e9\ud83d\ude00\n"})",
    R"({"a":1,"a":2,"l":[{"k":1,"k":{}}]})",
    R"([18446744073709551615,-9223372036854775808,1e308,-0,0.0])",
};
const Corpus kPatches = {
    "{\"metadata\":{\"name\":\"p\",\"labels\":{\"a\":\"1\"}}}\n{\"metadata\":{\"labels\":{\"a\":null,\"b\":"
    "\"2\"}}}",
    "{\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"}]}}\n{\"spec\":{\"containers\":[{\"name\":"
    "\"a\",\"$patch\":\"delete\"}]}}",
    "{\"a\":[1,2,3]}\n[{\"op\":\"move\",\"from\":\"/a/0\",\"path\":\"/a/2\"},{\"op\":\"add\",\"path\":\"/a/"
    "-\",\"value\":{}}]",
    "{\"a\":{\"b\":1}}\n[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/a/b\"},{\"op\":\"test\",\"path\":\"/a/"
    "b\",\"value\":1}]",
    "{\"spec\":{\"volumes\":[{\"name\":\"v\"}]}}\n{\"spec\":{\"$setElementOrder/"
    "volumes\":[{\"name\":\"w\"}],\"volumes\":[{\"name\":\"w\",\"$retainKeys\":[\"name\"]}]}}",
    "{\"metadata\":{\"finalizers\":[\"x\"]}}\n{\"metadata\":{\"$deleteFromPrimitiveList/"
    "finalizers\":[\"x\"],\"finalizers\":[\"y\"]}}",
};
const Corpus kApplies = {
    "{\"spec\":{\"nodeName\":\"n\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}\n{\"spec\":{"
    "\"containers\":[{\"name\":\"c\",\"command\":[\"x\"]},{\"name\":\"d\"}]}}",
    "{\"metadata\":{\"labels\":{\"a\":\"1\"},\"finalizers\":[\"f/"
    "1\"]}}\n{\"metadata\":{\"labels\":{\"a\":\"2\"},\"finalizers\":[\"f/2\",\"f/1\"]}}",
    "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}\n{\"spec\":{\"future\":{"
    "\"deep\":[1,{\"x\":2}]}}}",
    "{\"spec\":{\"volumes\":[{\"name\":\"v\"}]}}\n{\"spec\":{\"volumes\":\"no list\",\"nodeSelector\":{}}}",
};
const Corpus kSelectors = {"app=db,tier in (a,b),!legacy,a>1", "metadata.name=v1,status.phase!=Running",
                           "a\\,b=c\\=d,e==f", "x notin (),y"};
const std::vector<std::string> kTokens = {
    "{}", "[]", "null", "\"a\"", "1",        "-1e9",   "\"name\"",     "\"$patch\"",       "\"replace\"", ",",
    ":",  "{",  "}",    "[",     "]",        "\n",     "\"metadata\"", "\"spec\"",         "(",           ")",
    "!",  "in", "\\",   "=",     "\"/a/b\"", "\"op\"", "\xff",         "{\"name\":\"c\"}", "\"k:{}\""};

std::string mutate(std::string text, Random& random, const Corpus& corpus) {
  const std::uint64_t steps = 1 + random.below(4);
  for (std::uint64_t i = 0; i < steps; ++i) {
    const std::size_t at = random.below(text.size() + 1);
    const std::size_t length = std::min<std::size_t>(random.below(8), text.size() - at);
    switch (random.below(4)) {
      case 0: text.replace(at, length, kTokens[random.below(kTokens.size())]); break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      case 2: text.erase(at, length); break;
      default: {
        const std::string& other = corpus[random.below(corpus.size())];
        const std::size_t from = random.below(other.size());
        text.insert(at, other.substr(from, random.below(24)));
      }
    }
  }
  return text;
}

void run(const Corpus& corpus, void (*target)(std::string_view, Reached&), int rounds) {
  const std::uint64_t seed = 20261116;
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  Reached reached;
  for (const std::string& text : corpus) target(text, reached);
  EXPECT_GT(reached.parsed, 0u);
  for (int i = 0; i < rounds; ++i)
    target(mutate(corpus[random.below(corpus.size())], random, corpus), reached);
  EXPECT_GT(reached.parsed, static_cast<std::uint64_t>(rounds) / 50);
  EXPECT_GT(reached.applied, static_cast<std::uint64_t>(rounds) / 500);
}

TEST(Fuzz, JsonKeepsItsPromises) {
  run(kTexts, try_json, 20'000);
}
TEST(Fuzz, PatchesKeepTheirPromises) {
  run(kPatches, try_patch, 20'000);
}
TEST(Fuzz, ApplyKeepsItsPromises) {
  run(kApplies, try_apply, 10'000);
}
TEST(Fuzz, SelectorsKeepTheirPromises) {
  run(kSelectors, try_selectors, 20'000);
}

}  // namespace
}  // namespace moor::registry::fuzz
