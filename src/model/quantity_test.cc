#include "model/quantity.h"

#include <gtest/gtest.h>

namespace moor::model {
namespace {

TEST(Quantity, ValuesRoundUpToWholeNumbers) {
  const struct {
    const char* text;
    std::int64_t value;
  } cases[] = {{"0", 0},
               {"10", 10},
               {"1Ki", 1024},
               {"10Gi", 10737418240},
               {"1.5Gi", 1610612736},
               {"1k", 1000},
               {"1E", 1000000000000000000},
               {"1e3", 1000},
               {"1E3", 1000},
               {"1e+3", 1000},
               {"500m", 1},
               {"1500m", 2},
               {"-1Ki", -1024},
               {"+5", 5},
               {".5Ki", 512},
               {"100n", 1}};
  for (const auto& one : cases) EXPECT_EQ(Quantity{one.text}.value(), one.value) << one.text;
}

TEST(Quantity, RefusesWhatIsNone) {
  for (const char* text : {"", "Gi", "1GiB", "1 Gi", "one", "1e", "1.2.3", "--1", "1e999"})
    EXPECT_FALSE(is_quantity(text)) << text;
  EXPECT_FALSE(Quantity{"9999Ei"}.value());
}

TEST(Quantity, BytesAreWrittenInTheLargestUnitThatFits) {
  EXPECT_EQ(quantity_of_bytes(1073741824).text, "1Gi");
  EXPECT_EQ(quantity_of_bytes(1073741825).text, "1073741825");
  EXPECT_EQ(quantity_of_bytes(1536).text, "1536");
  EXPECT_EQ(quantity_of_bytes(0).text, "0");
}

}  // namespace
}  // namespace moor::model
