#include "attach/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attach/book_for_test.h"

namespace moor::attach {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using B = BlockerType;

// One rule per test: given this book, that decision.

TEST(Select, TheHighestPriorityWinsWhenTheVolumeIsDetached) {
  Book book = make_book();
  add_ticket(book, {.id = "pod", .node = "n1"});
  add_ticket(book, {.id = "a-snapshot", .type = attacher::kSnapshot, .node = "n2"});
  add_ticket(book, {.id = "person-at-the-page", .type = attacher::kApi, .node = "n3"});
  const Decision decision = decide(book);
  EXPECT_EQ(decision.volume.node_id, "n3");
  EXPECT_EQ(decision.takes_place_on, "n3");
  EXPECT_THAT(blocker_types(decision, "pod"), ElementsAre(B::attached_elsewhere));
  EXPECT_EQ(first_blocker(decision, "pod").holder, "person-at-the-page");
  EXPECT_EQ(first_blocker(decision, "pod").holder_type, "longhorn-api");
  EXPECT_EQ(first_blocker(decision, "pod").node_id, "n3");
  EXPECT_THAT(blocker_types(decision, "person-at-the-page"), ElementsAre(B::volume_not_ready));
}

TEST(Select, EqualPrioritiesGoByShorterIdUnlessTheSettingSaysArrival) {
  Book book = make_book();
  add_ticket(book, {.id = "longer", .node = "n1", .arrival_seconds = 1});
  add_ticket(book, {.id = "short", .node = "n2", .arrival_seconds = 2});
  EXPECT_EQ(decide(book).volume.node_id, "n2");
  book.settings = Settings::from_values({{"attachment-tie-break", "arrival"}});
  EXPECT_EQ(decide(book).volume.node_id, "n1");
}

TEST(Select, SetsFrontEndAndRequesterFromTheTicket) {
  struct Row {
    std::string wish;
    bool was;
    std::optional<bool> set;
  };
  for (const Row& row : std::vector<Row>{{"true", false, true},
                                         {"true", true, std::nullopt},
                                         {"false", true, false},
                                         {"", true, false},
                                         {"any", true, std::nullopt},
                                         {"any", false, std::nullopt}}) {
    Book book = make_book();
    book.volume.spec.disable_frontend = row.was;
    book.volume.spec.last_attached_by = "before";
    add_ticket(book, {.id = "t", .frontend = row.wish});
    book.attachment.spec.attachment_tickets["t"].parameters["lastAttachedBy"] = "ada";
    const Decision decision = decide(book);
    EXPECT_EQ(decision.volume.disable_frontend, row.set) << row.wish << row.was;
    EXPECT_EQ(decision.volume.last_attached_by, "ada");
  }
}

TEST(Select, WaitsUntilTheVolumeIsDetached) {
  for (const VolumeState state : {VolumeState::none, VolumeState::creating, VolumeState::attaching,
                                  VolumeState::attached, VolumeState::detaching, VolumeState::deleting}) {
    Book book = make_book();
    book.volume.status.state = state;
    add_ticket(book, {.id = "t"});
    const Decision decision = decide(book);
    EXPECT_FALSE(decision.volume.any()) << to_string(state);
    const bool is_new = state == VolumeState::none || state == VolumeState::creating;
    EXPECT_THAT(blocker_types(decision, "t"), ElementsAre(is_new ? B::volume_not_ready : B::detaching));
  }
}

TEST(Select, WaitsWhileTheGrantStillNamesAnEngine) {
  Book book = make_book();
  set_attached(book, "n2");
  book.volume.spec.node_id.clear();
  book.volume.status.current_node_id.clear();
  book.volume.status.state = VolumeState::detached;
  add_ticket(book, {.id = "t"});
  EXPECT_FALSE(decide(book).volume.any());
  EXPECT_THAT(blocker_types(decide(book), "t"), ElementsAre(B::detaching));
  EXPECT_EQ(first_blocker(decide(book), "t").node_id, "n2");
}

TEST(Select, DoesNotTouchAFaultedVolume) {
  Book book = make_book();
  book.volume.status.robustness = Robustness::faulted;
  add_ticket(book, {.id = "t"});
  const Decision decision = decide(book);
  EXPECT_FALSE(decision.volume.any());
  EXPECT_THAT(blocker_types(decision, "t"), ElementsAre(B::volume_faulted));
  book.volume.status.robustness = Robustness::unknown;
  EXPECT_EQ(decide(book).volume.node_id, "n1");
}

TEST(Select, ATicketForANodeThatCannotTakeTheVolumeDoesNotWinWhileAnotherCan) {
  struct Row {
    std::function<void(Book&)> spoil;
    BlockerType type;
  };
  const std::vector<Row> rows = {
      {[](Book& book) { book.nodes["n1"].ready = false; }, B::node_not_ready},
      {[](Book& book) { book.nodes["n1"].agent_reachable = false; }, B::agent_unreachable},
      {[](Book& book) { book.nodes.erase("n1"); }, B::node_not_found},
      {[](Book& book) { book.nodes["n1"].attach_limit = 3, book.nodes["n1"].attachments = 3; },
       B::node_attach_limit},
  };
  for (const Row& row : rows) {
    Book book = make_book();
    add_ticket(book, {.id = "best", .type = attacher::kApi, .node = "n1"});
    row.spoil(book);
    Decision decision = decide(book);
    EXPECT_FALSE(decision.volume.any()) << "alone it waits too";
    EXPECT_THAT(blocker_types(decision, "best"), ElementsAre(row.type));
    EXPECT_FALSE(first_blocker(decision, "best").cleared_by.empty());
    add_ticket(book, {.id = "other", .node = "n2"});
    decision = decide(book);
    EXPECT_EQ(decision.volume.node_id, "n2");
    EXPECT_THAT(blocker_types(decision, "best"), ElementsAre(row.type, B::attached_elsewhere));
  }
}

TEST(Select, TheAttachLimitComesFromTheNodeOrTheSetting) {
  Book book = make_book();
  add_ticket(book, {.id = "t"});
  book.nodes["n1"].attachments = 5;
  book.settings = Settings::from_values({{"node-attach-limit", "5"}});
  EXPECT_THAT(blocker_types(decide(book), "t"), ElementsAre(B::node_attach_limit));
  book.nodes["n1"].attach_limit = 0;
  EXPECT_EQ(decide(book).volume.node_id, "n1") << "0: none on this node";
  book.nodes["n1"].attach_limit = 6;
  EXPECT_EQ(decide(book).volume.node_id, "n1");
}

TEST(Select, NoWorkloadSeesAVolumeWhoseDataAreNotAllThere) {
  Book book = make_book();
  book.volume.status.restore_required = true;
  add_ticket(book, {.id = "pod"});
  EXPECT_THAT(blocker_types(decide(book), "pod"), ElementsAre(B::volume_not_ready));
  add_ticket(book, {.id = "restore", .type = attacher::kRestore, .node = "n2", .frontend = "true"});
  EXPECT_EQ(decide(book).volume.node_id, "n2");
  Book clone = make_book();
  clone.volume.spec.data_source = "vol://v0";
  add_ticket(clone, {.id = "pod"});
  EXPECT_THAT(blocker_types(decide(clone), "pod"), ElementsAre(B::volume_not_ready));
  clone.volume.status.clone_status.state = model::longhorn::CloneState::completed;
  EXPECT_EQ(decide(clone).volume.node_id, "n1");
}

TEST(Share, CompatibleTicketsOnOneNodeAreServedTogether) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "pod"});
  add_ticket(book, {.id = "snap", .type = attacher::kSnapshot, .frontend = "any"});
  step(book);
  EXPECT_TRUE(is_satisfied(book, "pod"));
  EXPECT_TRUE(is_satisfied(book, "snap"));
}

TEST(Share, AnIncompatibleTicketWaitsAndItsConditionNamesTheOther) {
  Book book = make_book();
  set_attached(book, "n1");
  book.volume.spec.disable_frontend = true;
  add_ticket(book, {.id = "maintenance", .type = attacher::kApi, .frontend = "true"});
  add_ticket(book, {.id = "pod"});
  const Decision decision = step(book);
  EXPECT_TRUE(is_satisfied(book, "maintenance"));
  const AttachmentTicketStatus& status = decision.statuses.at("pod");
  EXPECT_FALSE(status.satisfied);
  ASSERT_EQ(status.conditions.size(), 1U);
  EXPECT_EQ(status.conditions[0].type, "Satisfied");
  EXPECT_EQ(status.conditions[0].status, model::ConditionStatus::no);
  EXPECT_EQ(status.conditions[0].reason, "AttachedWithIncompatibleParameters");
  EXPECT_THAT(status.conditions[0].message, HasSubstr("maintenance (longhorn-api)"));
  EXPECT_EQ(first_blocker(decision, "pod").holder, "maintenance");
}

TEST(Detach, FollowsWhenTheLastTicketOnTheNodeLeaves) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "pod"});
  step(book);
  EXPECT_FALSE(decide(book).volume.any());
  book.attachment.spec.attachment_tickets.clear();
  const Decision decision = step(book);
  EXPECT_EQ(decision.volume.node_id, "");
  EXPECT_THAT(decision.statuses, IsEmpty());
}

TEST(Detach, FollowsWhenOnlyIncompatibleTicketsAreLeft) {
  Book book = make_book();
  set_attached(book, "n1");
  book.volume.spec.disable_frontend = true;
  add_ticket(book, {.id = "pod"});
  EXPECT_EQ(decide(book).volume.node_id, "");
}

TEST(Detach, ATicketIsNotSatisfiedBecauseTheVolumeIsFreeAgain) {
  Book book = make_book();
  book.volume.spec.node_id = "n1";
  book.volume.spec.disable_frontend = true;
  add_ticket(book, {.id = "pod"});
  const Decision decision = step(book);
  EXPECT_EQ(decision.volume.node_id, "");
  EXPECT_THAT(blocker_types(decision, "pod"), ElementsAre(B::detaching));
}

TEST(Detach, ATicketThatChangesNodeGoesThroughEmptyAndIsUnsatisfiedAtOnce) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "pod"});
  step(book);
  ASSERT_TRUE(is_satisfied(book, "pod"));
  auto& ticket = book.attachment.spec.attachment_tickets["pod"];
  ticket.node_id = "n2";
  ticket.generation = 1;
  const Decision decision = step(book);
  EXPECT_EQ(decision.volume.node_id, "") << "S9";
  EXPECT_FALSE(is_satisfied(book, "pod")) << "S15";
  EXPECT_EQ(decision.statuses.at("pod").generation, 1);
  EXPECT_THAT(blocker_types(decision, "pod"), ElementsAre(B::detaching));
}

TEST(Detach, AFaultedVolumeIsDetachedAndKeepsItsTickets) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "pod"});
  step(book);
  book.volume.status.robustness = Robustness::faulted;
  const Decision decision = step(book);
  EXPECT_EQ(decision.volume.node_id, "");
  EXPECT_THAT(blocker_types(decision, "pod"), ElementsAre(B::volume_faulted, B::detaching));
  EXPECT_THAT(decision.retire, IsEmpty());
}

TEST(Detach, PriorityAloneNeverTakesAVolumeAway) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "pod"});
  add_ticket(book, {.id = "restore", .type = attacher::kRestore, .node = "n2", .frontend = "true"});
  add_ticket(book, {.id = "person", .type = attacher::kApi, .node = "n3"});
  const Decision decision = step(book);
  EXPECT_FALSE(decision.volume.any());
  EXPECT_TRUE(is_satisfied(book, "pod"));
}

TEST(Detach, DeletingTheAttachmentEqualsHavingNoTickets) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "pod"});
  book.attachment.metadata.deletion_timestamp = kTestNow;
  const Decision decision = decide(book);
  EXPECT_EQ(decision.volume.node_id, "");
  EXPECT_THAT(decision.statuses, IsEmpty());
}

TEST(Detach, ADeletedVolumeIsLetGoAndItsTicketsSaySo) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "pod"});
  book.volume.metadata.deletion_timestamp = kTestNow;
  const Decision decision = decide(book);
  EXPECT_EQ(decision.volume.node_id, "");
  EXPECT_THAT(blocker_types(decision, "pod"), ElementsAre(B::volume_deleting));
}

TEST(Interrupt, OnlyInterruptibleTicketsYieldAndOnlyToAWorkloadElsewhere) {
  struct Row {
    std::vector<TicketWish> tickets;  // the first is on n1, where the volume is
    bool interrupts;
    std::string why;
  };
  const auto snapshot = TicketWish{.id = "snap", .type = attacher::kSnapshot, .frontend = "any"};
  const auto backup = TicketWish{.id = "back", .type = attacher::kBackup, .frontend = "any"};
  const auto pod_there = TicketWish{.id = "pod", .node = "n2"};
  const auto eviction = TicketWish{.id = "evict", .type = attacher::kEviction, .frontend = "any"};
  const std::vector<Row> rows = {
      {{snapshot, pod_there}, true, "a snapshot yields to a pod"},
      {{backup, pod_there}, true, "a backup too"},
      {{snapshot, backup, pod_there}, true, "both"},
      {{snapshot, {.id = "api", .type = attacher::kApi, .node = "n2"}}, true, "a person is a workload"},
      {{snapshot, {.id = "other", .type = attacher::kSnapshot, .node = "n2"}}, false, "not to its like"},
      {{snapshot, {.id = "re", .type = attacher::kRestore, .node = "n2"}}, false, "not to a restore"},
      {{snapshot, eviction, pod_there}, false, "an eviction stays"},
      {{snapshot, {.id = "here"}, pod_there}, false, "a pod here stays"},
      {{snapshot, {.id = "here", .frontend = "true"}, pod_there}, false, "an incompatible one here counts"},
      {{{.id = "clone", .type = attacher::kClone, .frontend = "any"}, pod_there}, false, "a copy under way"},
  };
  for (const Row& row : rows) {
    Book book = make_book();
    set_attached(book, "n1");
    for (const TicketWish& wish : row.tickets) add_ticket(book, wish);
    EXPECT_EQ(decide(book).volume.node_id == "", row.interrupts) << row.why;
  }
}

TEST(Interrupt, DoesNotHappenForATicketThatCouldNotAttach) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "snap", .type = attacher::kSnapshot, .frontend = "any"});
  add_ticket(book, {.id = "pod", .node = "n2"});
  book.nodes["n2"].ready = false;
  EXPECT_FALSE(decide(book).volume.any());
  book.nodes["n2"].ready = true;
  EXPECT_EQ(decide(book).volume.node_id, "");
}

TEST(Withdraw, ANodeThatDiesBeforeTheVolumeArrivedDoesNotKeepItFromOthers) {
  Book book = make_book();
  add_ticket(book, {.id = "a"});
  step(book);
  ASSERT_EQ(book.volume.spec.node_id, "n1");
  book.volume.status.state = VolumeState::attaching;
  book.nodes["n1"].ready = false;
  EXPECT_FALSE(decide(book).volume.any()) << "nobody else asks";
  EXPECT_THAT(blocker_types(decide(book), "a"), ElementsAre(B::node_not_ready));
  add_ticket(book, {.id = "bb", .node = "n2"});
  EXPECT_EQ(decide(book).volume.node_id, "");
  set_attached(book, "n1");
  EXPECT_FALSE(decide(book).volume.any()) << "once attached, only a proof of release frees it";
}

TEST(Reserve, ATicketWithoutANodeHoldsTheVolumeForItsOwner) {
  Book book = make_book();
  add_ticket(book, {.id = "shelved", .type = attacher::kApi, .node = "", .owner = "vm"});
  add_ticket(book, {.id = "pod", .owner = "web"});
  Decision decision = step(book);
  EXPECT_FALSE(decision.volume.any());
  EXPECT_TRUE(is_satisfied(book, "shelved"));
  EXPECT_THAT(blocker_types(decision, "pod"), ElementsAre(B::reserved));
  EXPECT_EQ(first_blocker(decision, "pod").holder, "shelved");
  add_ticket(book, {.id = "unshelve", .node = "n2", .owner = "vm"});
  decision = step(book);
  EXPECT_EQ(decision.volume.node_id, "n2") << "its own owner is not blocked";
  EXPECT_TRUE(is_satisfied(book, "shelved"));
  EXPECT_THAT(blocker_types(decision, "pod"), ElementsAre(B::reserved, B::attached_elsewhere));
}

TEST(Reserve, KeepsALaterSharerAwayOnTheSameNodeButTakesNothingFromOneWhoHadIt) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "first", .owner = "web", .arrival_seconds = 1});
  step(book);
  add_ticket(book, {.id = "hold", .node = "", .owner = "vm", .arrival_seconds = 2});
  Decision decision = step(book);
  EXPECT_TRUE(is_satisfied(book, "first"));
  EXPECT_THAT(blocker_types(decision, "hold"), ElementsAre(B::attached_elsewhere));
  add_ticket(book, {.id = "late", .owner = "db", .arrival_seconds = 3});
  decision = step(book);
  EXPECT_THAT(blocker_types(decision, "late"), ElementsAre(B::reserved));
  book.attachment.spec.attachment_tickets.erase("first");
  decision = step(book);
  EXPECT_EQ(decision.volume.node_id, "") << "nobody who may is left on the node";
  EXPECT_TRUE(is_satisfied(book, "hold"));
}

TEST(Reserve, AnEarlierTicketThatNeverHadTheVolumeDoesNotSlipInBesideTheOwner) {
  Book book = make_book();
  add_ticket(book, {.id = "early", .owner = "web", .arrival_seconds = 1});
  add_ticket(book, {.id = "hold", .node = "", .owner = "vm", .arrival_seconds = 2});
  add_ticket(book, {.id = "use", .owner = "vm", .arrival_seconds = 3});
  step(book);
  ASSERT_EQ(book.volume.spec.node_id, "n1");
  set_attached(book, "n1");
  const Decision decision = step(book);
  EXPECT_TRUE(is_satisfied(book, "use"));
  EXPECT_THAT(blocker_types(decision, "early"), ElementsAre(B::reserved)) << "S20";
}

TEST(Reserve, TheOwnerWhoHasTheVolumeIsFirstInLine) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "vm-on-n1", .owner = "vm", .arrival_seconds = 1});
  add_ticket(book, {.id = "other", .node = "", .owner = "queue", .arrival_seconds = 2});
  step(book);
  add_ticket(book, {.id = "shelve", .node = "", .owner = "vm", .arrival_seconds = 3});
  const Decision decision = step(book);
  EXPECT_TRUE(is_satisfied(book, "shelve")) << "S27: held before the host lets go";
  EXPECT_EQ(first_blocker(decision, "other").type, B::reserved);
  EXPECT_EQ(first_blocker(decision, "other").holder, "shelve");
}

TEST(Reserve, WhoHoldsIsNotPassedByAnOwnerThatOnlyWaitsOnTheNode) {
  Book book = make_book();
  add_ticket(book, {.id = "hold", .node = "", .owner = "vm", .arrival_seconds = 1});
  add_ticket(book, {.id = "use", .owner = "vm", .arrival_seconds = 2});
  step(book);
  set_attached(book, "n1");
  step(book);
  add_ticket(book, {.id = "a", .owner = "web", .arrival_seconds = 3});
  add_ticket(book, {.id = "a-hold", .node = "", .owner = "web", .arrival_seconds = 4});
  step(book);
  book.attachment.spec.attachment_tickets.erase("use");
  const Decision decision = step(book);
  EXPECT_TRUE(is_satisfied(book, "hold"));
  EXPECT_EQ(decision.volume.node_id, "");
  EXPECT_EQ(first_blocker(decision, "a-hold").holder, "hold");
}

TEST(Reserve, BlocksNobodyOnAVolumeForMany) {
  Book book = make_book();
  book.volume.spec.access_mode = model::longhorn::AccessMode::rwx;
  add_ticket(book, {.id = "hold", .node = "", .owner = "vm"});
  add_ticket(book, {.id = "share", .type = attacher::kShareManager, .node = "n2"});
  EXPECT_EQ(decide(book).volume.node_id, "n2");
}

TEST(SingleOwner, AnRwopVolumeServesOneOwnerEvenOnOneNode) {
  Book book = make_book();
  book.volume.spec.access_mode = model::longhorn::AccessMode::rwop;
  set_attached(book, "n1");
  add_ticket(book, {.id = "zz-first", .owner = "web"});
  step(book);
  add_ticket(book, {.id = "a", .owner = "db"});
  add_ticket(book, {.id = "snap", .type = attacher::kSnapshot, .frontend = "any"});
  const Decision decision = step(book);
  EXPECT_TRUE(is_satisfied(book, "zz-first")) << "who has it keeps it";
  EXPECT_THAT(blocker_types(decision, "a"), ElementsAre(B::reserved));
  EXPECT_EQ(first_blocker(decision, "a").holder, "zz-first");
  EXPECT_TRUE(is_satisfied(book, "snap")) << "maintenance does not use the data";
  book.attachment.spec.attachment_tickets.erase("zz-first");
  EXPECT_FALSE(step(book).volume.any());
  EXPECT_TRUE(is_satisfied(book, "a"));
}

TEST(SharedFiles, CsiTicketsNeverChooseTheNodeAndWaitForTheShare) {
  Book book = make_book();
  book.volume.spec.access_mode = model::longhorn::AccessMode::rwx;
  add_ticket(book, {.id = "client-1", .node = "n1"});
  add_ticket(book, {.id = "client-2", .node = "gone"});
  Decision decision = step(book);
  EXPECT_FALSE(decision.volume.any());
  EXPECT_THAT(blocker_types(decision, "client-1"), ElementsAre(B::share_manager));
  add_ticket(book, {.id = "share", .type = attacher::kShareManager, .node = "n3"});
  decision = step(book);
  EXPECT_EQ(decision.volume.node_id, "n3");
  EXPECT_EQ(first_blocker(decision, "client-1").holder, "share");
  set_attached(book, "n3");
  EXPECT_FALSE(step(book).statuses.at("client-1").satisfied) << "no share yet";
  book.volume.status.share_state = model::longhorn::ShareManagerState::running;
  book.volume.status.share_endpoint = "nfs://10.0.0.1/v1";
  step(book);
  EXPECT_TRUE(is_satisfied(book, "client-1"));
  EXPECT_TRUE(is_satisfied(book, "client-2"));
  book.attachment.spec.attachment_tickets.erase("share");
  decision = step(book);
  EXPECT_EQ(decision.volume.node_id, "") << "clients alone keep nothing";
  EXPECT_THAT(blocker_types(decision, "client-1"), ElementsAre(B::share_manager));
}

TEST(Moves, BothTicketsOfACrashedMoveDoNotParkADetachedVolume) {
  Book book = make_book();
  book.volume.spec.access_mode = model::longhorn::AccessMode::rwx;
  book.volume.spec.migratable = true;
  add_ticket(book, {.id = "here"});
  add_ticket(book, {.id = "there", .node = "n2"});
  EXPECT_EQ(decide(book).volume.node_id, "n1");
}

TEST(Moves, LeftOverFieldsAreClearedBeforeAnythingElse) {
  Book book = make_book();
  book.volume.spec.migration_node_id = "n2";
  book.volume.status.current_migration_node_id = "n3";
  add_ticket(book, {.id = "t"});
  const Decision decision = step(book);
  EXPECT_EQ(decision.volume.migration_node_id, "");
  EXPECT_EQ(decision.volume.node_id, std::nullopt);
  EXPECT_THAT(blocker_types(decision, "t"), ElementsAre(B::moving));
  EXPECT_FALSE(decide(book).volume.any()) << "the volume controller clears the other one";
  book.volume.status.current_migration_node_id.clear();
  EXPECT_EQ(decide(book).volume.node_id, "n1");
}

TEST(Retire, ATicketGoesWithItsOwnerAndNotBefore) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "snap", .type = attacher::kSnapshot, .frontend = "any", .owner = "s1"});
  step(book);
  EXPECT_THAT(decide(book).retire, IsEmpty()) << "what was not looked up counts as alive";
  const std::string key = owner_key(book.attachment.spec.attachment_tickets["snap"]);
  book.owners[key] = OwnerState::alive;
  EXPECT_THAT(decide(book).retire, IsEmpty());
  book.owners[key] = OwnerState::gone;
  const Decision decision = step(book);
  ASSERT_EQ(decision.retire.size(), 1U);
  EXPECT_EQ(decision.retire[0].ticket, "snap");
  EXPECT_THAT(decision.retire[0].reason, HasSubstr("Pod s1"));
  EXPECT_EQ(decision.volume.node_id, "");
  EXPECT_THAT(book.attachment.spec.attachment_tickets, IsEmpty());
}

TEST(Expire, ALapsedTicketHasNoEffectIsShownForAWhileAndThenGoes) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "ui", .type = attacher::kApi});
  book.attachment.spec.attachment_tickets["ui"].expires_at = kTestNow + std::chrono::seconds(10);
  Decision decision = step(book);
  EXPECT_TRUE(is_satisfied(book, "ui"));
  EXPECT_EQ(decision.again_at, kTestNow + std::chrono::seconds(10));
  book.now += std::chrono::seconds(10);
  decision = step(book);
  EXPECT_EQ(decision.volume.node_id, "");
  EXPECT_THAT(blocker_types(decision, "ui"), ElementsAre(B::expired));
  EXPECT_EQ(decision.again_at, kTestNow + std::chrono::seconds(10 + 3600));
  EXPECT_THAT(decision.notices, Contains(Field(&Notice::reason, "TicketExpired")));
  book.now += std::chrono::seconds(3600);
  decision = step(book);
  ASSERT_EQ(decision.retire.size(), 1U);
  EXPECT_EQ(decision.again_at, std::nullopt);
}

TEST(Retire, ManualTicketsLeaveACordonedNodeIfTheSettingSaysSo) {
  Book book = make_book();
  add_ticket(book, {.id = "ui", .type = attacher::kApi});
  add_ticket(book, {.id = "pod"});
  book.nodes["n1"].cordoned = true;
  EXPECT_THAT(decide(book).retire, IsEmpty());
  book.settings = Settings::from_values({{"detach-manually-attached-volumes-when-cordoned", "true"}});
  EXPECT_THAT(decide(book).retire, ElementsAre(Field(&Retirement::ticket, "ui")));
}

TEST(Satisfied, NeedsStateNodeAndGrantToAgree) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "t"});
  EXPECT_TRUE(decide(book).statuses.at("t").satisfied);
  Book other = book;
  other.grant->spec.active.reset();
  EXPECT_FALSE(decide(other).statuses.at("t").satisfied) << "S15: no grant";
  other = book;
  other.grant->spec.active->node = "n2";
  EXPECT_FALSE(decide(other).statuses.at("t").satisfied);
  other = book;
  other.volume.status.current_node_id.clear();
  EXPECT_FALSE(decide(other).statuses.at("t").satisfied);
  other = book;
  other.engine = {.failing = true, .restarts = 2};
  EXPECT_TRUE(decide(other).statuses.at("t").satisfied) << "a restart: clients wait and go on";
  other.engine.exhausted = true;
  EXPECT_THAT(blocker_types(decide(other), "t"), ElementsAre(B::engine_failing));
}

TEST(Satisfied, StatusHasTheFieldsOfTheDesign) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "t"});
  book.attachment.spec.attachment_tickets["t"].generation = 7;
  const AttachmentTicketStatus status = decide(book).statuses.at("t");
  EXPECT_EQ(status.id, "t");
  EXPECT_TRUE(status.satisfied);
  EXPECT_EQ(status.generation, 7);
  EXPECT_THAT(status.blockers, IsEmpty());
  ASSERT_EQ(status.conditions.size(), 1U);
  EXPECT_EQ(status.conditions[0].type, "Satisfied");
  EXPECT_EQ(status.conditions[0].status, model::ConditionStatus::yes);
  EXPECT_EQ(status.conditions[0].reason, "");
  EXPECT_EQ(status.conditions[0].last_transition_time, model::format_rfc3339(kTestNow));
}

TEST(Blockers, OfAVolumeThatCannotBeOpenedNameTheCause) {
  struct Row {
    std::function<void(Book&)> spoil;
    BlockerType type;
    std::string text;
  };
  const std::vector<Row> rows = {
      {[](Book& book) { book.storage = {.no_schedulable_disk = true, .detail = "2 disks: none ready"}; },
       B::no_schedulable_disk, "2 disks: none ready"},
      {[](Book& book) {
         book.storage = {
             .insufficient_capacity = true, .needed_bytes = 10LL << 30, .largest_free_bytes = 3LL << 30};
       },
       B::insufficient_capacity, "needs 10.00 GiB and the roomiest disk has 3.00 GiB left"},
      {[](Book& book) { book.engine = {.failing = true, .restarts = 3, .error = "no such file"}; },
       B::engine_failing, "restart 3): no such file"},
      {[](Book& book) { book.engine.operator_needed = "replica r1 is lost"; }, B::operator_needed,
       "replica r1 is lost"},
      {[](Book& book) { book.nodes["n1"].agent_reachable = false; }, B::agent_unreachable, "n1"},
  };
  for (const Row& row : rows) {
    Book book = make_book();
    add_ticket(book, {.id = "t"});
    step(book);
    book.volume.status.state = VolumeState::attaching;
    row.spoil(book);
    const Decision decision = decide(book);
    EXPECT_THAT(blocker_types(decision, "t"), ElementsAre(row.type));
    EXPECT_THAT(first_blocker(decision, "t").message, HasSubstr(row.text));
  }
}

TEST(Blockers, OfAVolumeThatCannotBeClosedNameTheHolder) {
  Book book = make_book();
  set_attached(book, "n1");
  book.volume.spec.node_id = "";
  book.volume.status.state = VolumeState::detaching;
  add_ticket(book, {.id = "t", .node = "n2"});
  book.engine.device_in_use_by = "fio (pid 42)";
  EXPECT_THAT(first_blocker(decide(book), "t").message, HasSubstr("fio (pid 42)"));
  EXPECT_EQ(first_blocker(decide(book), "t").type, B::detaching);
  book.nodes["n1"].agent_reachable = false;
  EXPECT_EQ(first_blocker(decide(book), "t").holder, "n1");
  EXPECT_THAT(first_blocker(decide(book), "t").message, HasSubstr("not proven"));
}

TEST(Blockers, KeepTheirTimeWhileTheyLast) {
  Book book = make_book();
  add_ticket(book, {.id = "t"});
  book.nodes["n1"].ready = false;
  step(book);
  const auto since = first_blocker(decide(book), "t").since;
  EXPECT_EQ(since, kTestNow);
  book.now += std::chrono::minutes(5);
  book.nodes["n1"].reason = "disk pressure";
  Decision decision = step(book);
  EXPECT_EQ(first_blocker(decision, "t").since, since);
  EXPECT_EQ(decision.statuses.at("t").conditions[0].last_transition_time, model::format_rfc3339(kTestNow));
  book.now += std::chrono::minutes(5);
  decision = decide(book);
  EXPECT_THAT(decision.notices, IsEmpty());
  EXPECT_EQ(decision.statuses, book.attachment.status.attachment_ticket_statuses) << "twice equals once";
}

TEST(Tell, TheFirstStatusOfATicketThatIsBeingServedIsToldOnlyWhenItLasts) {
  Book book = make_book();
  add_ticket(book, {.id = "t"});
  const Decision opening = decide(book);
  EXPECT_THAT(blocker_types(opening, "t"), ElementsAre(B::volume_not_ready));
  EXPECT_EQ(untold_until(opening, book.attachment, kTestNow), kTestNow + kUntold);
  EXPECT_EQ(untold_until(opening, book.attachment, kTestNow + kUntold), std::nullopt) << "it has lasted";
  EXPECT_EQ(untold_until(opening, book.attachment, kTestNow - kUntold), std::nullopt)
      << "the clock went back";
}

TEST(Tell, WhatATicketHasOrWaitsForOthersForIsToldAtOnce) {
  Book book = make_book();
  add_ticket(book, {.id = "t"});
  set_attached(book, "n1");
  EXPECT_EQ(untold_until(decide(book), book.attachment, kTestNow), std::nullopt) << "satisfied";
  Book away = make_book();
  add_ticket(away, {.id = "t", .node = "n9"});
  EXPECT_EQ(untold_until(decide(away), away.attachment, kTestNow), std::nullopt) << "no such node";
  step(book);
  book.attachment.spec.attachment_tickets.clear();
  EXPECT_EQ(untold_until(decide(book), book.attachment, kTestNow), std::nullopt) << "the ticket is gone";
}

TEST(Tell, AStatusThatWasToldIsCorrectedAtOnceS15) {
  Book book = make_book();
  add_ticket(book, {.id = "t"});
  set_attached(book, "n1");
  step(book);
  book.volume.status.state = VolumeState::detaching;
  EXPECT_FALSE(decide(book).statuses.at("t").satisfied);
  EXPECT_EQ(untold_until(decide(book), book.attachment, kTestNow), std::nullopt);
}

}  // namespace
}  // namespace moor::attach
