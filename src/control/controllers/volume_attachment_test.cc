// The attachment controller as a table: the Book that it gathers and the writes that the rules' word becomes.
#include <algorithm>

#include <gmock/gmock.h>

#include "control/controllers/controllers.h"
#include "control/testing/table.h"

namespace moor::control {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

class AttachmentTable : public Table {
 protected:
  void SetUp() override {
    for (const char* name : {"n1", "n2"})
      given(fmt::format(R"({{"apiVersion":"longhorn.io/v1beta2","kind":"Node","metadata":{{"name":"{}"}},
        "status":{{"incarnation":1,"conditions":[{{"type":"Ready","status":"True"}}]}}}})",
                        name));
    volume("", R"({"state":"detached","robustness":"unknown"})");
  }
  void volume(const std::string& node, const std::string& status) {
    given(
        R"({"apiVersion":"longhorn.io/v1beta2","kind":"Volume","metadata":{"name":"v"},"spec":{"size":"1000",
      "accessMode":"rwo","nodeID":")" +
        node + R"("},"status":)" + status + "}");
  }
  void tickets(const std::string& text) {
    given(R"({"apiVersion":"longhorn.io/v1beta2","kind":"VolumeAttachment","metadata":{"name":"v",
      "finalizers":["longhorn.io"]},"spec":{"volume":"v","attachmentTickets":{)" +
          text + "}}}");
  }
  static std::string ticket(const std::string& id, const std::string& node, const std::string& more = "") {
    return fmt::format(R"("{}":{{"id":"{}","type":"csi-attacher","nodeID":"{}"{}}})", id, id, node, more);
  }
  Plan plan() { return plan_of(*controller_, "v"); }
  std::unique_ptr<Controller> controller_ = make_volume_attachment_controller();
};

TEST_F(AttachmentTable, ATicketSetsTheNodeAndItsOwnStatusInOneTransaction) {
  tickets(ticket("a", "n1"));
  const Plan given_to = plan();
  EXPECT_THAT(writes(given_to), UnorderedElementsAre("update Volume v", "update VolumeAttachment v/status"));
  EXPECT_EQ(text_at(written(given_to, "Volume", "v"), {"spec", "nodeID"}), "n1");
  EXPECT_EQ(given_to.guards.size(), 3u) << "the volume, its tickets, and that no limit is set";
  apply(given_to);
  EXPECT_THAT(writes(plan()), IsEmpty());
}

TEST_F(AttachmentTable, WithoutALimitNoLedgerIsWritten) {
  tickets(ticket("a", "n1"));
  const Plan given_to = plan();
  EXPECT_THAT(writes(given_to), Not(Contains(HasSubstr("Ledger"))));
  const auto names_limit = [](const registry::Guard& guard) {
    return guard.what.name == "node-attach-limit";
  };
  EXPECT_EQ(std::count_if(given_to.guards.begin(), given_to.guards.end(), names_limit), 1)
      << "one that is set meanwhile makes the decision anew";
}

TEST_F(AttachmentTable, WithALimitThePlaceIsWrittenAndLeftoversAreSweptOut) {
  given(R"({"apiVersion":"longhorn.io/v1beta2","kind":"Setting","metadata":{"name":"node-attach-limit"},
    "value":"1"})");
  given(R"({"apiVersion":"mooring.io/v1alpha1","kind":"Ledger","metadata":{"name":"n1"},
    "spec":{"attachments":{"longhorn-system/gone":{}}}})");
  tickets(ticket("a", "n1"));
  const Plan taken = plan();
  EXPECT_THAT(text_at(written(taken, "Ledger", "n1"), {"spec", "attachments"}),
              testing::AllOf(HasSubstr("longhorn-system/v"), Not(HasSubstr("gone"))));
  // Another volume has the place.
  given(R"({"apiVersion":"longhorn.io/v1beta2","kind":"Volume","metadata":{"name":"other"},
    "spec":{"size":"1","nodeID":"n1"}})");
  const Plan refused = plan();
  EXPECT_THAT(writes(refused), ElementsAre("update VolumeAttachment v/status"));
  EXPECT_THAT(text_at(written(refused, "VolumeAttachment", "v"), {"status"}), HasSubstr("NodeAttachLimit"));
  std::vector<std::string> keys;
  for (const Reads::Read& read : reads_.reads)
    if (read.digest == nullptr) keys.push_back(read.key);
  EXPECT_THAT(keys, Contains(testing::EndsWith("ledgers/-/n1"))) << "a place that comes free wakes it";
}

TEST_F(AttachmentTable, TheLastTicketsLeavingTakesTheNodeBack) {
  volume("n1", R"({"state":"attached","currentNodeID":"n1","robustness":"healthy"})");
  tickets("");
  EXPECT_EQ(text_at(written(plan(), "Volume", "v"), {"spec", "nodeID"}), "");
}

TEST_F(AttachmentTable, ATicketWhoseOwnerIsGoneIsRetiredAndOneWithALivingOwnerStays) {
  given(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","uid":"u1"}})");
  const auto owner = [](const char* name, const char* uid) {
    return fmt::format(
        R"(,"owner":{{"apiVersion":"v1","kind":"Pod","namespace":"default","name":"{}","uid":"{}"}})", name,
        uid);
  };
  tickets(ticket("a", "n1", owner("web", "u1")) + "," + ticket("b", "n1", owner("gone", "u2")) + "," +
          ticket("c", "n1", owner("web", "older")));
  const Plan retired = plan();
  EXPECT_THAT(writes(retired), Contains("update VolumeAttachment v"));
  const std::string left = text_at(written(retired, "VolumeAttachment", "v"), {"spec", "attachmentTickets"});
  EXPECT_THAT(left, testing::AllOf(HasSubstr("\"a\""), Not(HasSubstr("\"b\"")), Not(HasSubstr("\"c\""))));
}

TEST_F(AttachmentTable, TheFinalizerOfADeletedBookGoesAtOnce) {
  tickets(ticket("a", "n1"));
  change("volumeattachments.longhorn.io", "v",
         R"({"metadata":{"deletionTimestamp":"2023-11-14T22:00:00Z"}})");
  const Plan freed = plan();
  EXPECT_THAT(writes(freed), ElementsAre("update VolumeAttachment v"));
  EXPECT_THAT(text_at(written(freed, "VolumeAttachment", "v"), {"metadata", "finalizers"}),
              testing::AnyOf("-", "[]"));
}

TEST_F(AttachmentTable, AMissingBookMeansNobodyAsksUnlessTheVolumeIsFromBeforeTickets) {
  volume("n1", R"({"state":"attached","currentNodeID":"n1","epoch":3})");
  EXPECT_EQ(text_at(written(plan(), "Volume", "v"), {"spec", "nodeID"}), "");
  volume("n1", R"({"state":"attached","currentNodeID":"n1"})");
  EXPECT_THAT(writes(plan()), IsEmpty());
}

TEST_F(AttachmentTable, ATicketThatLapsesIsLookedAtWhenItDoes) {
  volume("n1", R"({"state":"attached","currentNodeID":"n1","robustness":"healthy"})");
  tickets(ticket("a", "n1", R"(,"expiresAt":"2023-11-14T22:14:20Z")"));  // one minute ahead
  EXPECT_EQ(plan().again_after, Duration(std::chrono::minutes(1)));
}

}  // namespace
}  // namespace moor::control
