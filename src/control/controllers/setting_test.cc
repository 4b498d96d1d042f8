// Whether a setting's value is in force.
#include <gmock/gmock.h>

#include "control/controllers/controllers.h"
#include "control/testing/table.h"

namespace moor::control {
namespace {

using SettingTable = Table;

TEST_F(SettingTable, AValidValueIsAppliedOnceAndAnInvalidOneNever) {
  const auto controller = make_setting_controller();
  given(R"({"apiVersion":"longhorn.io/v1beta2","kind":"Setting","metadata":{"name":"node-attach-limit"},
    "value":"5"})");
  const Plan plan = plan_of(*controller, "node-attach-limit");
  EXPECT_EQ(text_at(written(plan, "Setting", "node-attach-limit"), {"status", "applied"}), "true");
  for (const registry::Mutation& write : plan.writes) shelf_.put(*write.what.kind, write.object);
  EXPECT_TRUE(plan_of(*controller, "node-attach-limit").writes.empty());
  given(R"({"apiVersion":"longhorn.io/v1beta2","kind":"Setting","metadata":{"name":"node-attach-limit"},
    "value":"many","status":{"applied":true}})");
  EXPECT_EQ(text_at(written(plan_of(*controller, "node-attach-limit"), "Setting", "node-attach-limit"),
                    {"status", "applied"}),
            "false");
}

}  // namespace
}  // namespace moor::control
