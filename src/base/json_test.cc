#include "base/json.h"

#include <fmt/format.h>

#include "base/json_share.h"
#include "base/random.h"

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

// Short texts are compared by words that are put together from overlapping pieces: every length, and a
// difference at every place of it.
TEST(Json, KeysOfEveryLengthAreFoundAndTheirNeighboursAreNot) {
  const auto key_of = [](std::size_t size) {
    std::string key;
    for (std::size_t i = 0; i < size; ++i) key.push_back(static_cast<char>(0x80 + 11 * i + size));
    return key;
  };
  constexpr std::size_t kLongest = 30;
  for (const std::size_t others : {std::size_t{0}, std::size_t{40}}) {  // scanned, and by hash
    Json object = Json::object();
    for (std::size_t i = 0; i < others; ++i) object.set(fmt::format("other-{}", i), 0);
    for (std::size_t size = 0; size <= kLongest; ++size) {
      Json one = Json::object({{"first", 1}});
      object.set(key_of(size), static_cast<int>(size));
      one.set(key_of(size), static_cast<int>(size));
      EXPECT_EQ(Json(key_of(size)).as_string(), key_of(size));
      EXPECT_EQ(Json(key_of(size)), Json(key_of(size)));
      for (std::size_t at = 0; at < size; ++at) {
        std::string neighbour = key_of(size);
        neighbour[at] = static_cast<char>(neighbour[at] ^ 1);
        EXPECT_FALSE(one.contains(neighbour)) << size << " at " << at;
        EXPECT_FALSE(Json(neighbour) == Json(key_of(size))) << size << " at " << at;
      }
      EXPECT_FALSE(one.contains(key_of(size) + std::string(1, '\0')));
      EXPECT_TRUE(size == 0 || !one.contains(key_of(size).substr(1)));
      EXPECT_EQ(one.get_int64(key_of(size)), static_cast<std::int64_t>(size));
    }
    for (std::size_t size = 0; size <= kLongest; ++size)
      EXPECT_EQ(object.get_int64(key_of(size)), static_cast<std::int64_t>(size));
  }
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

TEST(Json, ACopyKeepsWhatItHasWhenOldReferencesAreWrittenThrough) {
  Json first = parsed(R"({"a":{"b":[1,2]},"c":"a text that does not fit into a value"})");
  Json& inner = first["a"];
  const Json copy = first;
  inner["b"].push_back(3);
  inner.set("d", true);
  EXPECT_EQ(to_text(copy), R"({"a":{"b":[1,2]},"c":"a text that does not fit into a value"})");
  EXPECT_EQ(to_text(first), R"({"a":{"b":[1,2,3],"d":true},"c":"a text that does not fit into a value"})");
  first = *std::as_const(first).find("a");  // a part of what it replaces
  EXPECT_EQ(to_text(first), R"({"b":[1,2,3],"d":true})");
}

// One random change somewhere in the value.
void change(Json& json, Random& random, int depth) {
  const std::string key = fmt::format("k{}", random.below(4));
  if (!json.is_object() && !json.is_array()) json = random.below(2) == 0 ? Json::object() : Json::array();
  const auto place = static_cast<std::size_t>(random.below(json.size() + 1));
  if (depth > 0 && place < json.size())
    return change(json.is_array() ? json.at(place) : json.value_at(place), random, depth - 1);
  const std::string text(static_cast<std::size_t>(random.below(40)), 'x');
  switch (random.below(3)) {
    case 0: json.is_array() ? (void)json.push_back(text) : (void)json.set(key, text); break;
    case 1:
      if (json.is_array() && place < json.size()) json.erase(place);
      if (json.is_object()) json.erase(key);
      break;
    default: json.is_array() ? json.insert(place, Json::object()) : (void)(json[key] = Json::array());
  }
}

TEST(Json, ValuesThatShareTheirPartsNeverSeeEachOthersChanges) {
  SeededRandom random(20261116);
  std::vector<Json> values(6, Json::object());
  std::vector<std::string> texts(6, "{}");
  for (int i = 0; i < 20'000; ++i) {
    const auto from = static_cast<std::size_t>(random.below(6));
    const auto to = static_cast<std::size_t>(random.below(6));
    Json* kept = values[from].is_object() && !values[from].empty() ? &values[from].value_at(0) : nullptr;
    if (random.below(3) == 0) settle(values[from]), kept = nullptr;
    if (random.below(2) == 0) {
      values[to] = values[from];
      texts[to] = texts[from];
    } else if (random.below(4) == 0) {
      values[to] = Json::object({{"part", values[from]}});
      texts[to] = fmt::format(R"({{"part":{}}})", texts[from]);
    }
    if (texts[to].size() > 4000) values[to] = Json::object(), texts[to] = "{}";
    if (kept != nullptr && to != from && random.below(2) == 0) {
      change(*kept, random, 3);  // a reference from before the copy
    } else {
      change(values[from], random, 3);
    }
    texts[from] = to_text(values[from]);
    for (std::size_t k = 0; k < values.size(); ++k) ASSERT_EQ(to_text(values[k]), texts[k]) << i;
    ASSERT_EQ(values[to] == values[from], texts[to] == texts[from]) << i;
    ASSERT_EQ(values[from], *parse_json(texts[from], {.max_depth = 4000})) << i;
  }
}

TEST(Json, LargeObjectsFindTheirMembers) {
  Json large = Json::object();
  std::string text = "{\"k7\":-1";
  for (int i = 0; i < 500; ++i) large.set(fmt::format("k{}", i), i);
  for (int i = 0; i < 500; ++i) text += fmt::format(",\"k{}\":{}", i, i);
  EXPECT_EQ(parsed(text + "}"), large);  // k7 stood twice: the last one counts
  EXPECT_EQ(parsed(text + "}").size(), 500u);
  const Json copy = large;
  for (int i = 0; i < 500; i += 2) EXPECT_TRUE(large.erase(fmt::format("k{}", i)));
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(large.get_int64(fmt::format("k{}", i)),
              i % 2 == 0 ? std::nullopt : std::optional<std::int64_t>(i));
    EXPECT_EQ(copy.get_int64(fmt::format("k{}", i)), i);
  }
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

TEST(Json, EmptyObjectsAreOneUntilOneOfThemIsWrittenTo) {
  const Json read = *parse_json(R"({"a":{},"b":{}})");
  Json made = Json::object();
  EXPECT_TRUE(is_shared(*read.find("a"), *read.find("b")));
  EXPECT_TRUE(is_shared(*read.find("a"), made));
  made.set("x", 1);
  Json copy = read;
  copy["a"].set("y", 2);
  EXPECT_EQ(to_text(made), R"({"x":1})");
  EXPECT_EQ(to_text(copy), R"({"a":{"y":2},"b":{}})");
  EXPECT_EQ(to_text(read), R"({"a":{},"b":{}})");
  EXPECT_EQ(to_text(Json::object()), "{}");
  copy["a"].erase("y");
  EXPECT_EQ(copy, read);
}

}  // namespace
}  // namespace moor
