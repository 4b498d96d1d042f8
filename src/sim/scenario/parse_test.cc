#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/scenario/scenario.h"

namespace moor::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::string& body) {
  const auto scenario = parse_scenario("# scenario: x\nvolume v1\n" + body + "\n", "x.scn");
  return scenario ? "no error" : scenario.error().message;
}

TEST(ScenarioText, ReadsStatementsConditionsAndOptions) {
  const auto scenario = parse_scenario(
      "# scenario: node dies while attached\n"
      "cluster nodes 4 seed 9   # four of them\n"
      "\n"
      "volume v1 replicas 2\n"
      "want   v1 on n4 as a type longhorn-api frontend no\n"
      "until  not attached v1 n1 within 15s\n"
      "crash engine v1\n",
      "x.scn");
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->title, "node dies while attached");
  EXPECT_EQ(scenario->nodes, 4U);
  EXPECT_EQ(scenario->seed, 9U);
  ASSERT_EQ(scenario->statements.size(), 4U);
  EXPECT_THAT(scenario->statements[1].words, ElementsAre("v1", "on", "n4"));
  EXPECT_EQ(scenario->statements[1].options.at("frontend"), "no");
  EXPECT_THAT(scenario->statements[2].words, ElementsAre("attached", "v1", "n1"));
  EXPECT_EQ(scenario->statements[2].options.at("within"), "15s");
  EXPECT_TRUE(scenario->statements[2].options.contains("not"));
  EXPECT_EQ(scenario->statements[3].line, 7);
}

TEST(ScenarioText, SaysWhereAndWhatIsWrong) {
  EXPECT_THAT(error_of("atach v1 n1"), HasSubstr("x.scn:3: \"atach\" is not known"));
  EXPECT_THAT(error_of("want v1 at n1"), HasSubstr("want VOLUME on NODE"));
  EXPECT_THAT(error_of("want v1 on n9"), HasSubstr("there is no n9: the cluster has 3 nodes"));
  EXPECT_THAT(error_of("want v2 on n1"), HasSubstr("v2 is not declared"));
  EXPECT_THAT(error_of("crash server s2"), HasSubstr("there is no s2"));
  EXPECT_THAT(error_of("until attached"), HasSubstr("attached VOLUME"));
  EXPECT_THAT(error_of("until"), HasSubstr("needs a condition"));
  EXPECT_THAT(error_of("check attached v1 within 3s"), HasSubstr("\"within\" is not known here"));
  EXPECT_THAT(error_of("cut n1 for 5"), HasSubstr("\"for\" needs a value"));
  EXPECT_THAT(error_of("cut n1 for 5s for 6s"), HasSubstr("said twice"));
  EXPECT_THAT(error_of("volume v3"), HasSubstr("the next volume is v2"));
  EXPECT_THAT(error_of("cluster nodes 3"), HasSubstr("comes first"));
}

TEST(ScenarioText, NeedsATitleAndSomethingToDo) {
  EXPECT_FALSE(parse_scenario("volume v1\n", "x.scn"));
  EXPECT_FALSE(parse_scenario("# scenario: nothing\n", "x.scn"));
}

TEST(ScenarioText, StepsOfAClockMayGoBack) {
  EXPECT_EQ(*parse_signed_duration("-600s"), std::chrono::seconds(-600));
  EXPECT_EQ(error_of("step-clock n1 -600s"), "no error");
}

}  // namespace
}  // namespace moor::sim
