// What attach and detach calls amount to: the rules of the seed "Volume live migration" as tables.
#include "attach/requests.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attach/book_for_test.h"

namespace moor::attach {
namespace {

using model::longhorn::AccessMode;
using testing::HasSubstr;

struct Kind {
  AccessMode mode = AccessMode::rwo;
  bool migratable = false;
};
constexpr Kind kRwo{};
constexpr Kind kShared{AccessMode::rwx, false};
constexpr Kind kMigratable{AccessMode::rwx, true};

Book book_of(Kind kind) {
  Book book = make_book();
  book.volume.spec.access_mode = kind.mode;
  book.volume.spec.migratable = kind.migratable;
  return book;
}

void set_moving(Book& book, const std::string& destination) {
  book.volume.spec.migration_node_id = destination;
  book.volume.status.current_migration_node_id = destination;
  book.volume.status.move = model::longhorn::MoveStatus{.phase = model::longhorn::MovePhase::ready,
                                                        .source_node_id = book.volume.spec.node_id,
                                                        .destination_node_id = destination};
}

// Tickets t1 on n1, t2 on n2, …, all of one type.
void add_tickets(Book& book, int count, std::string_view type = attacher::kCsi) {
  for (int i = 1; i <= count; ++i)
    add_ticket(book, {.id = fmt::format("t{}", i), .type = type, .node = fmt::format("n{}", i)});
}

Result<TicketChange> attach(const Book& book, const AttachRequest& request) {
  const auto node = book.nodes.find(request.node);
  return plan_attach(book.volume, book.attachment,
                     node == book.nodes.end() ? std::nullopt : std::optional(node->second), request);
}

struct AttachRow {
  std::string what;
  Kind kind;
  std::string attached_to;  // empty: detached
  std::string moving_to;
  int tickets;  // t1 on n1, t2 on n2, …
  AttachRequest request;
  RequestEffect effect;
  Errc refused = Errc::internal;  // internal: it is not
  std::string says = {};
};

TEST(AttachRequests, FollowTheRulesOfEachAccessMode) {
  const std::string csi(attacher::kCsi);
  const std::vector<AttachRow> rows = {
      {"a free rwo volume", kRwo, "", "", 0, {.node = "n1"}, RequestEffect::attach},
      {"rwo, again on its node by another", kRwo, "n1", "", 1, {.node = "n1"}, RequestEffect::attach},
      {"rwo, attached elsewhere",
       kRwo,
       "n1",
       "",
       1,
       {.node = "n2"},
       {},
       Errc::conflict,
       "node n1 by t1 (csi-attacher)"},
      {"rwo, no such node", kRwo, "", "", 0, {.node = "n9"}, {}, Errc::not_found, "n9"},
      {"rwo, no node", kRwo, "", "", 0, {}, {}, Errc::invalid, "hostId"},
      {"shared, a client", kShared, "", "", 0, {.node = "n1", .type = csi}, RequestEffect::attach},
      {"shared, a client beside another node's",
       kShared,
       "n1",
       "",
       1,
       {.node = "n2", .type = csi},
       RequestEffect::attach},
      {"shared, a person", kShared, "", "", 0, {.node = "n1"}, {}, Errc::conflict, "share manager"},
      {"shared, in maintenance",
       kShared,
       "",
       "",
       0,
       {.node = "n1", .disable_frontend = true},
       RequestEffect::attach},
      {"shared, maintenance elsewhere",
       kShared,
       "n1",
       "",
       1,
       {.node = "n2", .disable_frontend = true},
       {},
       Errc::conflict,
       "t1"},
      {"migratable, the first", kMigratable, "", "", 0, {.node = "n1", .type = csi}, RequestEffect::attach},
      {"migratable, the second",
       kMigratable,
       "n1",
       "",
       1,
       {.node = "n2", .type = csi},
       RequestEffect::start_move},
      {"migratable, the second by a person",
       kMigratable,
       "n1",
       "",
       1,
       {.node = "n2"},
       RequestEffect::start_move},
      {"migratable, a third node",
       kMigratable,
       "n1",
       "n2",
       2,
       {.node = "n3", .type = csi},
       {},
       Errc::conflict,
       "from node n1 to node n2"},
      {"migratable, a third node before the move began",
       kMigratable,
       "n1",
       "",
       2,
       {.node = "n3"},
       {},
       Errc::conflict,
       "to node n2"},
      {"migratable, its ticket asked to jump",
       kMigratable,
       "n1",
       "",
       1,
       {.node = "n2", .type = csi, .ticket = "t1"},
       {},
       Errc::conflict,
       "ticket of its own"},
      {"migratable, the second before the first arrived",
       kMigratable,
       "",
       "",
       1,
       {.node = "n2", .type = csi},
       {},
       Errc::unavailable,
       "t1"},
  };
  for (const AttachRow& row : rows) {
    SCOPED_TRACE(row.what);
    Book book = book_of(row.kind);
    if (!row.attached_to.empty()) set_attached(book, row.attached_to);
    add_tickets(book, row.tickets);
    if (!row.moving_to.empty()) set_moving(book, row.moving_to);
    const auto change = attach(book, row.request);
    if (row.refused != Errc::internal) {
      ASSERT_FALSE(change.ok());
      EXPECT_EQ(change.error().code, row.refused);
      EXPECT_THAT(change.error().message, HasSubstr(row.says));
      continue;
    }
    ASSERT_TRUE(change.ok()) << change.error().message;
    EXPECT_EQ(change->effect, row.effect);
    ASSERT_TRUE(change->write.has_value());
    EXPECT_EQ(change->write->node_id, row.request.node);
    EXPECT_EQ(change->acknowledge_with, row.effect == RequestEffect::start_move ? change->write->id : "");
  }
}

TEST(AttachRequests, TheSameCallAgainChangesNothing) {
  for (const Kind kind : {kRwo, kMigratable}) {
    Book book = book_of(kind);
    const AttachRequest request{.node = "n1", .attached_by = "jane"};
    const auto first = attach(book, request);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(first->write->id, "longhorn-api-n1");
    EXPECT_EQ(first->write->parameters.at("lastAttachedBy"), "jane");
    book.attachment.spec.attachment_tickets[first->write->id] = *first->write;
    set_attached(book, "n1");
    book.nodes["n1"].ready = false;  // what one has is not asked about again
    const auto again = attach(book, request);
    ASSERT_TRUE(again.ok());
    EXPECT_FALSE(again->any());
    EXPECT_EQ(again->effect, RequestEffect::nothing);
    EXPECT_EQ(again->acknowledge_with, "");
  }
}

TEST(AttachRequests, TheSecondAttachOfAMoveIsStillWaitedForWhenAskedAgain) {
  Book book = book_of(kMigratable);
  set_attached(book, "n1");
  add_tickets(book, 1);
  const AttachRequest request{.node = "n2", .type = std::string(attacher::kCsi), .ticket = "t2"};
  const auto first = attach(book, request);
  ASSERT_TRUE(first.ok());
  book.attachment.spec.attachment_tickets["t2"] = *first->write;
  set_moving(book, "n2");
  const auto again = attach(book, request);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->any());
  EXPECT_EQ(again->acknowledge_with, "t2");
}

TEST(AttachRequests, WorkThatGivesWayDoesNotRefuseAWorkload) {
  Book book = book_of(kRwo);
  set_attached(book, "n1");
  add_tickets(book, 1, attacher::kSnapshot);
  EXPECT_TRUE(attach(book, {.node = "n2"}).ok());
}

TEST(AttachRequests, ANodeThatIsNotReadyOrUnreachableIsRefusedWithItsReason) {
  Book book = book_of(kRwo);
  book.nodes["n1"] = {.ready = false, .reason = "heartbeat lost"};
  book.nodes["n2"] = {.agent_reachable = false};
  const auto refused = attach(book, {.node = "n1"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("heartbeat lost"));
  EXPECT_FALSE(attach(book, {.node = "n2"}).ok());
}

TEST(AttachRequests, AVolumeThatIsBeingDeletedIsRefused) {
  Book book = book_of(kRwo);
  book.volume.metadata.deletion_timestamp = kTestNow;
  EXPECT_TRUE(attach(book, {.node = "n1"}).is(Errc::conflict));
}

TEST(AttachRequests, OwnerAndExpiryOfATicketThatIsAskedForAnewStay) {
  Book book = book_of(kRwo);
  add_ticket(book, {.id = "mine", .type = attacher::kApi, .node = "n1", .owner = "web-0"});
  book.attachment.spec.attachment_tickets["mine"].expires_at = kTestNow;
  const auto change = attach(book, {.node = "n2", .ticket = "mine"});
  ASSERT_TRUE(change.ok());
  EXPECT_EQ(change->write->owner->name, "web-0");
  EXPECT_EQ(change->write->expires_at, kTestNow);
}

struct DetachRow {
  std::string what;
  Kind kind;
  std::string moving_to;
  int tickets;
  DetachRequest request;
  RequestEffect effect;
  std::vector<std::string> removed;
};

TEST(DetachRequests, NodeAndTicketSayWhichTicketsLeave) {
  const std::vector<DetachRow> rows = {
      {"rwo from its node", kRwo, "", 1, {.node = "n1"}, RequestEffect::detach, {"t1"}},
      {"rwo from all nodes", kRwo, "", 1, {}, RequestEffect::detach, {"t1"}},
      {"rwo by ticket", kRwo, "", 1, {.ticket = "t1"}, RequestEffect::detach, {"t1"}},
      {"rwo from another node", kRwo, "", 1, {.node = "n2"}, RequestEffect::nothing, {}},
      {"rwo by another ticket", kRwo, "", 1, {.ticket = "t7"}, RequestEffect::nothing, {}},
      {"a ticket that is on another node",
       kRwo,
       "",
       1,
       {.ticket = "t1", .node = "n2"},
       RequestEffect::nothing,
       {}},
      {"moving, the first node", kMigratable, "n2", 2, {.node = "n1"}, RequestEffect::confirm_move, {"t1"}},
      {"moving, the first node's ticket",
       kMigratable,
       "n2",
       2,
       {.ticket = "t1"},
       RequestEffect::confirm_move,
       {"t1"}},
      {"moving, the second node",
       kMigratable,
       "n2",
       2,
       {.node = "n2"},
       RequestEffect::roll_back_move,
       {"t2"}},
      {"moving, all nodes", kMigratable, "n2", 2, {}, RequestEffect::detach, {"t1", "t2"}},
      {"moving, a third node", kMigratable, "n2", 2, {.node = "n3"}, RequestEffect::nothing, {}},
      {"migratable, not moving", kMigratable, "", 1, {.node = "n1"}, RequestEffect::detach, {"t1"}},
      {"shared: its share manager detaches it", kShared, "", 2, {}, RequestEffect::nothing, {}},
      {"shared: a client leaves by its ticket",
       kShared,
       "",
       2,
       {.ticket = "t2"},
       RequestEffect::detach,
       {"t2"}},
      {"by force everything", kShared, "", 2, {.force = true}, RequestEffect::detach, {"t1", "t2"}},
  };
  for (const DetachRow& row : rows) {
    SCOPED_TRACE(row.what);
    Book book = book_of(row.kind);
    set_attached(book, "n1");
    add_tickets(book, row.tickets);
    if (!row.moving_to.empty()) set_moving(book, row.moving_to);
    const auto change = plan_detach(book.volume, book.attachment, row.request);
    ASSERT_TRUE(change.ok());
    EXPECT_EQ(change->effect, row.effect);
    EXPECT_EQ(change->remove, row.removed);
    EXPECT_FALSE(change->write.has_value());
  }
}

TEST(DetachRequests, TicketsOfControllersLeaveByNameOrByForceOnly) {
  Book book = book_of(kRwo);
  set_attached(book, "n1");
  add_ticket(book, {.id = "s", .type = attacher::kSnapshot});
  add_ticket(book, {.id = "a", .type = attacher::kApi});
  EXPECT_EQ(plan_detach(book.volume, book.attachment, {})->remove, std::vector<std::string>{"a"});
  EXPECT_EQ(plan_detach(book.volume, book.attachment, {.ticket = "s"})->remove,
            std::vector<std::string>{"s"});
  EXPECT_EQ(plan_detach(book.volume, book.attachment, {.force = true})->remove,
            (std::vector<std::string>{"a", "s"}));
}

TEST(DetachRequests, MaintenanceOfASharedVolumeEndsLikeAnyAttachment) {
  Book book = book_of(kShared);
  set_attached(book, "n1");
  add_ticket(book, {.id = "a", .type = attacher::kApi, .frontend = "true"});
  add_ticket(book, {.id = "s", .type = attacher::kShareManager});
  EXPECT_EQ(plan_detach(book.volume, book.attachment, {.node = "n1"})->remove, std::vector<std::string>{"a"});
}

TEST(DetachRequests, AMoveIsNotDecidedWhileAnotherTicketKeepsTheNode) {
  Book book = book_of(kMigratable);
  set_attached(book, "n1");
  add_tickets(book, 2);
  add_ticket(book, {.id = "also", .type = attacher::kBackup, .node = "n1"});
  set_moving(book, "n2");
  EXPECT_EQ(plan_detach(book.volume, book.attachment, {.node = "n1"})->effect, RequestEffect::detach);
}

TEST(Acknowledgements, ComeWithTheStatusOfTheTicketsOwnGeneration) {
  Book book = book_of(kMigratable);
  add_tickets(book, 1);
  AttachmentTicket& ticket = book.attachment.spec.attachment_tickets["t1"];
  EXPECT_TRUE(acknowledgement(book.attachment, "t9").is(Errc::not_found));
  EXPECT_FALSE(acknowledgement(book.attachment, "t1")->satisfied);
  AttachmentTicketStatus& status = book.attachment.status.attachment_ticket_statuses["t1"];
  status = {.id = "t1", .satisfied = true, .generation = 0};
  EXPECT_TRUE(acknowledgement(book.attachment, "t1")->satisfied);
  ticket.generation = 1;
  EXPECT_FALSE(acknowledgement(book.attachment, "t1")->satisfied);
  status = {.id = "t1",
            .generation = 1,
            .blockers = {{.message = "node n2 is not ready", .holder = "", .node_id = ""}}};
  EXPECT_THAT(acknowledgement(book.attachment, "t1")->waits_for, HasSubstr("n2 is not ready"));
}

}  // namespace
}  // namespace moor::attach
