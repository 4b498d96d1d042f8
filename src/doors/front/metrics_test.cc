#include "doors/front/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moor::doors {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(Metrics, RequestsAreCountedByVerbResourceAndCode) {
  Metrics metrics;
  metrics.count({"get", "volumes.longhorn.io", 200, milliseconds(2)});
  metrics.count({"get", "volumes.longhorn.io", 200, milliseconds(40)});
  metrics.count({"get", "volumes.longhorn.io", 404, milliseconds(1)});
  const std::string text = metrics.render();
  EXPECT_THAT(text,
              HasSubstr("moor_requests_total{verb=\"get\",resource=\"volumes.longhorn.io\",code=\"200\"} 2"));
  EXPECT_THAT(text, HasSubstr("code=\"404\"} 1"));
  EXPECT_THAT(text, HasSubstr("moor_request_duration_seconds_bucket{verb=\"get\",le=\"0.0025\"} 2"));
  EXPECT_THAT(text, HasSubstr("moor_request_duration_seconds_bucket{verb=\"get\",le=\"+Inf\"} 3"));
}

TEST(Metrics, FiguresOfOneNameShareTheirHeader) {
  Metrics metrics;
  for (const char* lane : {"lane=\"read\"", "lane=\"watch\""})
    metrics.add({"moor_in_flight", "Requests under way.", Metrics::Kind::gauge, lane, [] { return 3.0; }});
  const std::string text = metrics.render();
  EXPECT_EQ(text.find("# TYPE moor_in_flight"), text.rfind("# TYPE moor_in_flight"));
  EXPECT_THAT(text, HasSubstr("moor_in_flight{lane=\"watch\"} 3"));
}

TEST(Metrics, SeriesAreBounded) {
  Metrics metrics;
  for (int code = 0; code < 6000; ++code) metrics.count({"get", "x", code, milliseconds(1)});
  EXPECT_THAT(metrics.render(), HasSubstr("verb=\"other\""));
}

}  // namespace
}  // namespace moor::doors
