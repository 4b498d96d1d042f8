#include "attach/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moor::attach {
namespace {

using model::longhorn::Toggle;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Settings, EveryDefaultIsAValidValueAndTheTableIsInOrder) {
  std::string_view last;
  for (const SettingDefinition& setting : setting_definitions()) {
    EXPECT_THAT(check_setting(setting.name, setting.fallback), IsEmpty()) << setting.name;
    EXPECT_LT(last, setting.name);
    EXPECT_FALSE(setting.description.empty()) << setting.name;
    EXPECT_EQ(Settings{}.text(setting.name), setting.fallback);
    last = setting.name;
  }
}

TEST(Settings, DefaultsAreThoseThatUsersKnow) {
  const Settings settings;
  const model::longhorn::VolumeSpec volume;
  EXPECT_EQ(settings.tie_break(), TieBreak::name);
  EXPECT_EQ(settings.node_attach_limit(), 0);
  EXPECT_EQ(settings.api_ticket_expiry().count(), 0);
  EXPECT_FALSE(settings.node_soft_anti_affinity(volume));
  EXPECT_TRUE(settings.zone_soft_anti_affinity(volume));
  EXPECT_TRUE(settings.disk_soft_anti_affinity(volume));
  EXPECT_EQ(settings.over_provisioning_percentage(), 100);
  EXPECT_EQ(settings.minimal_available_percentage(), 25);
  EXPECT_EQ(settings.default_replica_count(), 3);
  EXPECT_EQ(settings.replica_start_wait().count(), 30);
  EXPECT_EQ(settings.engine_restart_limit(), 10);
}

TEST(Settings, AVolumesOwnWishComesBeforeTheSetting) {
  const Settings settings = Settings::from_values({{"replica-soft-anti-affinity", "true"}});
  model::longhorn::VolumeSpec volume;
  EXPECT_TRUE(settings.node_soft_anti_affinity(volume));
  volume.replica_soft_anti_affinity = Toggle::ignored;
  EXPECT_TRUE(settings.node_soft_anti_affinity(volume));
  volume.replica_soft_anti_affinity = Toggle::disabled;
  EXPECT_FALSE(settings.node_soft_anti_affinity(volume));
  volume.replica_soft_anti_affinity = Toggle::enabled;
  EXPECT_TRUE(Settings{}.node_soft_anti_affinity(volume));
}

TEST(Settings, AValueThatMeansNothingIsRefusedWithWhatWouldDo) {
  const auto message = [](std::string_view name, std::string_view value) {
    return model::to_text(check_setting(name, value));
  };
  EXPECT_THAT(message("attachment-tie-break", "chance"), HasSubstr("arrival"));
  EXPECT_THAT(message("replica-soft-anti-affinity", "yes"), HasSubstr("true"));
  EXPECT_THAT(message("node-attach-limit", "-1"), HasSubstr("from 0 to 100000"));
  EXPECT_THAT(message("node-attach-limit", "12x"), HasSubstr("whole number"));
  EXPECT_THAT(message("node-attach-limit", ""), HasSubstr("whole number"));
  EXPECT_THAT(message("api-ticket-expiry", "1500ms"), HasSubstr("whole seconds"));
  EXPECT_THAT(message("api-ticket-expiry", "99999999999999999999"), Not(IsEmpty()));
  EXPECT_THAT(message("attachment-tie-braek", "arrival"), HasSubstr("did you mean attachment-tie-break?"));
  EXPECT_THAT(message("entirely-different", "1"), Not(HasSubstr("did you mean")));
}

TEST(Settings, DurationsAreSecondsOrText) {
  EXPECT_EQ(Settings::from_values({{"api-ticket-expiry", "90"}}).api_ticket_expiry().count(), 90);
  EXPECT_EQ(Settings::from_values({{"api-ticket-expiry", "1h30m"}}).api_ticket_expiry().count(), 5400);
}

TEST(Settings, AStoredValueThatDoesNotParseCountsAsAbsent) {
  EXPECT_EQ(Settings::from_values({{"node-attach-limit", "many"}}).node_attach_limit(), 0);
  EXPECT_EQ(Settings::from_values({{"attachment-tie-break", "chance"}}).tie_break(), TieBreak::name);
  EXPECT_EQ(Settings::from_values({{"no-such-setting", "1"}}).text("no-such-setting"), "");
}

TEST(Settings, ComeFromObjects) {
  model::longhorn::Setting object;
  object.metadata.name = "attachment-tie-break";
  object.value = "arrival";
  EXPECT_EQ(Settings::from_objects({object}).tie_break(), TieBreak::arrival);
}

}  // namespace
}  // namespace moor::attach
