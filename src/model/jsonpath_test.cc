#include "model/jsonpath.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moor::model {
namespace {

std::vector<std::string> values(std::string_view path, const Json& json) {
  const auto parsed = JsonPath::parse(path);
  EXPECT_TRUE(parsed.ok()) << path << ": " << (parsed.ok() ? "" : parsed.error().message);
  std::vector<std::string> texts;
  if (!parsed.ok()) return texts;
  for (const Json* value : parsed->find(json)) texts.push_back(plain_text(*value));
  return texts;
}

TEST(JsonPath, LeadsToWhatColumnsShow) {
  const Json json = *parse_json(R"({
    "metadata": {"labels": {"foo": "bar", "example.com/name": "x"}},
    "spec": {"x": [10, 20, 30], "list": [{"name": "a"}, {"name": "b"}], "map": {"k": 1, "l": 2}, "on": true},
    "status": {"state": "attached", "conditions": [
      {"type": "Ready", "status": "True"}, {"type": "Sched]uled", "status": "False"}]}})");
  using testing::ElementsAre;
  EXPECT_THAT(values(".status.state", json), ElementsAre("attached"));
  EXPECT_THAT(values("{.status.state}", json), ElementsAre("attached"));
  EXPECT_THAT(values("$.status.state", json), ElementsAre("attached"));
  EXPECT_THAT(values(".metadata.labels.foo", json), ElementsAre("bar"));
  EXPECT_THAT(values(R"(.metadata.labels.example\.com/name)", json), ElementsAre("x"));
  EXPECT_THAT(values(".metadata.labels['example.com/name']", json), ElementsAre("x"));
  EXPECT_THAT(values(".spec.x[0]", json), ElementsAre("10"));
  EXPECT_THAT(values(".spec.x[-1]", json), ElementsAre("30"));
  EXPECT_THAT(values(".spec.x[*]", json), ElementsAre("10", "20", "30"));
  EXPECT_THAT(values(".spec.list[*].name", json), ElementsAre("a", "b"));
  EXPECT_THAT(values(".spec.map.*", json), ElementsAre("1", "2"));
  EXPECT_THAT(values(".spec.on", json), ElementsAre("true"));
  EXPECT_THAT(values(".spec.x", json), ElementsAre("[10,20,30]"));
  EXPECT_THAT(values(R"(.status.conditions[?(@.type=="Ready")].status)", json), ElementsAre("True"));
  EXPECT_THAT(values(".status.conditions[?(@.type=='Sched]uled')].status", json), ElementsAre("False"));
  EXPECT_THAT(values(R"(.status.conditions[?(@.type!="Ready")].status)", json), ElementsAre("False"));
  EXPECT_THAT(values(".spec.nothing.here", json), ElementsAre());
  EXPECT_THAT(values(".spec.x[9]", json), ElementsAre());
  EXPECT_THAT(values(".status.state.deeper", json), ElementsAre());
  EXPECT_THAT(values(R"(.status.state[?(@.a=="b")])", json), ElementsAre());
}

TEST(JsonPath, RefusesWhatItDoesNotUnderstand) {
  for (const char* path : {"status", "..a", ".a[", ".a[x]", ".a[?(@.b)]", ".a[?(b=='c')]", ".a[?(@.b=='c)]"})
    EXPECT_FALSE(JsonPath::parse(path).ok()) << path;
}

}  // namespace
}  // namespace moor::model
