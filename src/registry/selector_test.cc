#include "registry/selector.h"

namespace moor::registry {
namespace {

bool matches(std::string_view selector, std::string_view labels) {
  const auto parsed = LabelSelector::parse(selector);
  EXPECT_TRUE(parsed.ok()) << selector << ": " << (parsed.ok() ? "" : parsed.error().message);
  const auto json = parse_json(labels);
  return parsed.ok() && parsed->matches(&*json);
}

TEST(LabelSelector, EveryFormMatchesWhatItSays) {
  const char* labels = R"({"app":"db","tier":"a","n":"5","empty":""})";
  for (const char* yes :
       {"", "app", "app=db", "app == db", "app!=web", "missing!=x", "tier in (a,b)", "tier in ( b , a )",
        "tier notin (c)", "missing notin (a)", "!missing", "app=db,tier=a,!missing", "n>4", "n<6",
        "empty=", "empty in (,x)", "example.com/x!=1"})
    EXPECT_TRUE(matches(yes, labels)) << yes;
  for (const char* no : {"missing", "app=web", "app!=db", "tier in (b)", "tier notin (a,b)", "!app",
                         "app=db,tier=b", "n>5", "n<5", "app>1", "missing=x", "missing=", "missing in (a)"})
    EXPECT_FALSE(matches(no, labels)) << no;
}

TEST(LabelSelector, NoLabelsAtAllIsNoCrash) {
  EXPECT_TRUE(LabelSelector::parse("!a")->matches(nullptr));
  EXPECT_FALSE(LabelSelector::parse("a")->matches(nullptr));
}

TEST(LabelSelector, RefusesWhatItCannotRead) {
  for (const char* bad : {"=", "a=b,", ",a", "a b", "a in", "a in b", "a in (b", "a in (b c)", "a=b=c", "!",
                          "!a=b", "a===b", "a=(b)", "/x", "a/", "a=b c", "a=\"x\"", "a\n=b", "\xff"})
    EXPECT_TRUE(LabelSelector::parse(bad).is(Errc::invalid)) << bad;
  EXPECT_TRUE(LabelSelector::parse(std::string(64, 'a')).is(Errc::invalid));
}

TEST(FieldSelector, ReadsPairsAndEscapes) {
  const auto selector = FieldSelector::parse(R"(metadata.name=v1,status.phase!=Running,a==x\,y\=z,b=)");
  ASSERT_TRUE(selector.ok());
  ASSERT_EQ(selector->requirements().size(), 4u);
  EXPECT_EQ(selector->requirements()[0].field, "metadata.name");
  EXPECT_TRUE(selector->requirements()[0].equal);
  EXPECT_EQ(selector->requirements()[1].value, "Running");
  EXPECT_FALSE(selector->requirements()[1].equal);
  EXPECT_EQ(selector->requirements()[2].value, "x,y=z");
  EXPECT_EQ(selector->requirements()[3].value, "");
  EXPECT_TRUE(FieldSelector::parse("")->empty());
}

TEST(FieldSelector, RefusesWhatItCannotRead) {
  for (const char* bad : {"a", "=x", "a!x", "a=b=c", ",", "a=b,", "a=b,,c=d", R"(a=\x)", R"(a=b\)"})
    EXPECT_TRUE(FieldSelector::parse(bad).is(Errc::invalid)) << bad;
}

TEST(Selectors, PrintAsTheyAreRead) {
  for (const char* text :
       {"", "app", "!app", "app=db", "app!=db", "app in (a,b)", "app notin (a)", "n>4,n<6", "a="})
    EXPECT_EQ(LabelSelector::parse(text)->to_text(), text);
  for (const char* text : {"", "metadata.name=v1", R"(a=x\,y\=z\\,b!=c)", "a="})
    EXPECT_EQ(FieldSelector::parse(text)->to_text(), text);
}

}  // namespace
}  // namespace moor::registry
