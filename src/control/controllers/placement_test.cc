// Where replicas go.
#include "control/controllers/placement.h"

#include <gmock/gmock.h>

namespace moor::control {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kGiB = 1ll << 30;

DiskFacts disk(std::string node, std::int64_t gigabytes, std::string zone = "") {
  DiskFacts facts;
  facts.node = node;
  facts.name = "default";
  facts.uuid = "disk-of-" + node;
  facts.path = "/disks/" + node;
  facts.zone = std::move(zone);
  facts.maximum = facts.available = gigabytes * kGiB;
  return facts;
}

PlacementWish wish(std::int64_t gigabytes = 1) {
  PlacementWish wanted;
  wanted.size = gigabytes * kGiB;
  return wanted;
}

std::string chosen(const PlacementWish& wanted, const std::vector<DiskFacts>& disks,
                   const std::vector<Taken>& taken = {}, const attach::Settings& settings = {}) {
  const Placement placement = place(wanted, disks, taken, settings);
  return placement.disk == nullptr ? placement.detail : placement.disk->node;
}

attach::Settings over_provisioning(const std::string& percent) {
  std::map<std::string, std::string> values;
  values["storage-over-provisioning-percentage"] = percent;
  return attach::Settings::from_values(values);
}

TEST(Placement, TakesTheRoomiestDiskAndAmongEqualsTheFirstByName) {
  EXPECT_EQ(chosen(wish(), {disk("a", 10), disk("b", 20), disk("c", 20)}), "b");
  EXPECT_EQ(chosen(wish(), {disk("c", 20), disk("b", 20)}), "b");
}

TEST(Placement, NeverSharesANodeUnlessThatIsAllowed) {
  const std::vector<Taken> taken = {{"a", "disk-of-a", ""}};
  EXPECT_EQ(chosen(wish(), {disk("a", 50), disk("b", 20)}, taken), "b");
  EXPECT_THAT(chosen(wish(), {disk("a", 50)}, taken), HasSubstr("1 node holds another replica"));
  PlacementWish soft = wish();
  soft.share_node = true;
  EXPECT_EQ(chosen(soft, {disk("a", 50), disk("b", 20)}, taken), "b");
  EXPECT_EQ(chosen(soft, {disk("a", 50)}, taken), "a");
  soft.share_disk = false;
  EXPECT_THAT(chosen(soft, {disk("a", 50)}, taken), HasSubstr("1 holds another replica"));
}

TEST(Placement, PrefersAnotherZoneAndInsistsWhenItMust) {
  const std::vector<Taken> taken = {{"a", "disk-of-a", "east"}};
  const std::vector<DiskFacts> disks = {disk("b", 50, "east"), disk("c", 10, "west")};
  EXPECT_EQ(chosen(wish(), disks, taken), "c");
  EXPECT_EQ(chosen(wish(), {disk("b", 50, "east")}, taken), "b");
  PlacementWish hard = wish();
  hard.share_zone = false;
  EXPECT_THAT(chosen(hard, {disk("b", 50, "east")}, taken), HasSubstr("zone holds another replica"));
}

TEST(Placement, DisksAndNodesMustHaveTheVolumesTags) {
  DiskFacts fast = disk("a", 10);
  fast.disk_tags = {"ssd"};
  fast.node_tags = {"rack-1"};
  PlacementWish wanted = wish();
  wanted.disk_selector = {"ssd"};
  wanted.node_selector = {"rack-1"};
  EXPECT_EQ(chosen(wanted, {disk("b", 90), fast}), "a");
  EXPECT_THAT(chosen(wanted, {disk("b", 90)}), HasSubstr("node lacks tag rack-1"));
}

TEST(Placement, PromisesNoMoreThanTheSettingAllowsAndKeepsTheReserve) {
  DiskFacts one = disk("a", 10);
  one.reserved = 4 * kGiB;
  one.promised = 5 * kGiB;
  EXPECT_EQ(chosen(wish(1), {one}), "a");
  const Placement refused = place(wish(2), {one}, {}, {});
  EXPECT_EQ(refused.disk, nullptr);
  EXPECT_TRUE(refused.insufficient_capacity);
  EXPECT_FALSE(refused.no_schedulable_disk);
  EXPECT_EQ(refused.largest_free, 1 * kGiB);
  const attach::Settings twice = over_provisioning("200");
  EXPECT_EQ(chosen(wish(2), {one}, {}, twice), "a");
}

TEST(Placement, ARefusalSaysHowManyDisksFailedForWhat) {
  DiskFacts broken = disk("a", 10);
  broken.objection = "not ready";
  DiskFacts other = disk("b", 10);
  other.objection = "not ready";
  const Placement refused = place(wish(), {broken, other}, {}, {});
  EXPECT_TRUE(refused.no_schedulable_disk);
  EXPECT_EQ(refused.detail, "2 disks: 2 not ready");
  EXPECT_EQ(place(wish(), {}, {}, {}).detail, "there are no disks");
}

TEST(Placement, HugeDisksDoNotOverflowTheArithmetic) {
  DiskFacts one = disk("a", 1);
  one.maximum = one.available = std::int64_t{8} << 50;
  const attach::Settings most = over_provisioning("800");
  EXPECT_GT(room_on(one, most), one.maximum);
}

}  // namespace
}  // namespace moor::control
