#include "base/json.h"

namespace moor {
namespace {

Json parsed(std::string_view text) {
  auto json = parse_json(text);
  EXPECT_TRUE(json.ok()) << text << ": " << (json.ok() ? "" : json.error().message);
  return json.ok() ? *json : Json();
}

TEST(Json, KeepsTheOrderOfMembersAndPrintsCompactly) {
  EXPECT_EQ(to_text(parsed(R"( {"b": 1, "a": [true, null, "x"], "c": {}} )")),
            R"({"b":1,"a":[true,null,"x"],"c":{}})");
}

TEST(Json, PrintsDoublesAsPeopleWriteThem) {
  EXPECT_EQ(to_text(Json(1.5)), "1.5");
  EXPECT_EQ(to_text(Json(100.0)), "100");
  EXPECT_EQ(to_text(parsed("1e300")), "1e+300");
  EXPECT_EQ(parsed(to_text(Json(0.1))).as_double(), 0.1);
}

TEST(Json, KeepsLargeIntegersExact) {
  EXPECT_EQ(to_text(parsed("9223372036854775807")), "9223372036854775807");
  EXPECT_EQ(parsed("18446744073709551615").to_uint64(), 18446744073709551615u);
  EXPECT_EQ(parsed("18446744073709551615").to_int64(), std::nullopt);
  EXPECT_EQ(parsed("-1").to_uint64(), std::nullopt);
  EXPECT_EQ(parsed("1.0").to_int64(), std::nullopt);
}

TEST(Json, EscapesWhatMustBeEscapedAndNothingElse) {
  EXPECT_EQ(to_text(Json("a\"b\\c\n\x01\xc3\xa9/")), "\"a\\\"b\\\\c\\n\\u0001\xc3\xa9/\"");
  EXPECT_EQ(parsed(to_text(Json(std::string_view("a\0b", 3)))).as_string(), std::string_view("a\0b", 3));
}

TEST(Json, ReadsAndChangesNestedMembers) {
  Json json = parsed(R"({"metadata":{"name":"v1"},"spec":{"size":10,"on":true}})");
  EXPECT_EQ(json.find_path({"metadata", "name"})->as_string(), "v1");
  EXPECT_EQ(json.find_path({"metadata", "name", "deeper"}), nullptr);
  EXPECT_EQ(json["spec"].get_int64("size"), 10);
  EXPECT_EQ(json["spec"].get_string("size"), std::nullopt);
  EXPECT_EQ(json["spec"].get_bool("on"), true);
  json["status"]["state"] = "attached";
  EXPECT_TRUE(json["spec"].erase("size"));
  EXPECT_FALSE(json["spec"].erase("size"));
  EXPECT_EQ(to_text(json), R"({"metadata":{"name":"v1"},"spec":{"on":true},"status":{"state":"attached"}})");
  EXPECT_EQ(json.key_at(2), "status");
}

TEST(Json, CopiesAreDeepAndMovesLeaveNothingBehind) {
  Json first = Json::object({{"list", Json::array({1, 2})}});
  Json second = first;
  second["list"].push_back(3);
  EXPECT_EQ(first["list"].size(), 2u);
  EXPECT_EQ(second["list"].at(2).to_int64(), 3);
  Json third = std::move(second);
  EXPECT_EQ(third["list"].size(), 3u);
  third["list"].erase(0);
  third["list"].insert(0, "new");
  EXPECT_EQ(to_text(third), R"({"list":["new",2,3]})");
}

TEST(Json, EqualityIgnoresTheOrderOfMembers) {
  EXPECT_EQ(parsed(R"({"a":1,"b":2})"), parsed(R"({"b":2,"a":1})"));
  EXPECT_FALSE(parsed(R"([1,2])") == parsed(R"([2,1])"));
}

TEST(Json, RefusesWhatIsNoJsonAndSaysWhere) {
  for (const char* bad : {"", "{", "[1,]", "{\"a\":1,}", "nul", "01", "\"\x01\"", "\"\xff\"", "\"\\ud800\"",
                          "1 2", "{a:1}", "1e999", "'x'", "[1", "\xef\xbb\xbf{}", "NaN", "// x\n1"})
    EXPECT_TRUE(parse_json(bad).is(Errc::invalid)) << bad;
  EXPECT_THAT(parse_json("{\n  \"a\": x}").error().message, testing::HasSubstr("line 2 column 8"));
}

TEST(Json, BoundsTheDepth) {
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  EXPECT_TRUE(parse_json(deep).is(Errc::invalid));
  JsonParseOptions generous;
  generous.max_depth = 300;
  EXPECT_TRUE(parse_json(deep, generous).ok());
}

TEST(Json, NumbersDoNotDrift) {
  for (const char* text :
       {"-9.223372036854741e+26", "0.1", "1e+308", "5e-324", "123456789.12345679", "2.2250738585072014e-308"})
    EXPECT_EQ(to_text(*parse_json(text)), text);
  EXPECT_EQ(to_text(*parse_json("-0.0")), "0");
}

TEST(Json, NamesKeysThatStandTwice) {
  std::vector<std::string> duplicates;
  JsonParseOptions options;
  options.duplicates = &duplicates;
  auto json = parse_json(R"({"a":1,"spec":{"x":[0,[],{"k":1,"k":2}],"y":1},"a":3,"spec2":{"x":1}})", options);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->get_int64("a"), 3);
  EXPECT_THAT(duplicates, testing::ElementsAre("spec.x[2].k", "a"));
  options.allow_duplicate_keys = false;
  EXPECT_TRUE(parse_json(R"({"a":1,"a":2})", options).is(Errc::invalid));
}

TEST(Json, PrettyTextIsReadable) {
  EXPECT_EQ(to_pretty_text(parsed(R"({"a":[1,{"b":2}],"c":{},"d":[]})")),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}");
}

}  // namespace
}  // namespace moor
