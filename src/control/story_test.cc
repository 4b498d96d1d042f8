// The story of a volume with all controllers and imagined agents: what people see, and how many writes it
// takes.
#include <gmock/gmock.h>

#include "control/testing/stage.h"

namespace moor::control {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(Story, AVolumeIsMadeAttachedAndDetached) {
  Stage stage;
  stage.create_volume("v1");
  EXPECT_EQ(stage.state_of("v1"), "detached - unknown");
  EXPECT_EQ(stage.all<lh::Replica>().size(), 3u);
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.epoch, 0);
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.members.size(), 3u);
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.next_replica, 4);

  stage.add_ticket("v1", "csi-1", "csi-attacher", "node-1");
  EXPECT_EQ(stage.state_of("v1"), "attached node-1 healthy");
  EXPECT_TRUE(stage.is_satisfied("v1", "csi-1")) << stage.blockers_of("v1", "csi-1");
  EXPECT_EQ(stage.get<mr::Grant>("v1")->spec.active->epoch, 1);
  EXPECT_EQ(stage.get<lh::Engine>("v1-e")->status.epoch, 1);

  stage.remove_ticket("v1", "csi-1");
  EXPECT_EQ(stage.state_of("v1"), "detached - unknown");
  const auto grant = stage.get<mr::Grant>("v1");
  EXPECT_FALSE(grant->spec.active);
  ASSERT_EQ(grant->spec.proofs.size(), 1u);
  EXPECT_EQ(grant->spec.proofs[0].type, mr::ProofType::unmounted);
  EXPECT_TRUE(stage.reality.engines.empty());
  EXPECT_TRUE(stage.reality.replicas.empty());
}

}  // namespace
}  // namespace moor::control
