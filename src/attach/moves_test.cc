#include "attach/moves.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attach/book_for_test.h"
#include "attach/move_steps.h"

namespace moor::attach {
namespace {

using model::longhorn::MovePhase;
using model::mooring::GrantHolder;
using model::mooring::MemberMode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using B = BlockerType;
using P = MovePhase;
using A = MoveAction;

// A migratable volume on n1 with a ticket there and one for n2.
Book two_tickets() {
  Book book = make_book();
  book.volume.spec.access_mode = model::longhorn::AccessMode::rwx;
  book.volume.spec.migratable = true;
  set_attached(book, "n1");
  add_ticket(book, {.id = "here"});
  add_ticket(book, {.id = "there", .node = "n2"});
  return book;
}

// The same in that phase of its move.
Book moving(MovePhase phase) {
  Book book = two_tickets();
  book.volume.spec.migration_node_id = "n2";
  book.volume.status.move = MoveStatus{.phase = phase, .source_node_id = "n1", .destination_node_id = "n2"};
  const GrantHolder standby{.epoch = 2, .engine = "v1-e-b", .node = "n2"};
  book.grant->spec.epoch = 2;
  if (phase == P::activated || phase == P::confirming)
    book.grant->spec.active = standby;
  else if (phase != P::rolling_back)
    book.grant->spec.standby = standby;
  if (phase == P::ready || phase == P::activated || phase == P::confirming)
    book.volume.status.current_migration_node_id = "n2";
  if (phase == P::confirming) book.volume.spec.node_id = "n2";
  if (phase == P::confirming || phase == P::rolling_back) book.volume.spec.migration_node_id.clear();
  return book;
}

void remove_ticket(Book& book, const std::string& id) {
  book.attachment.spec.attachment_tickets.erase(id);
}

TEST(MoveStart, BeginsWhenTwoTicketsOfAMigratableVolumeNameTwoNodes) {
  Book book = two_tickets();
  const Decision decision = step(book);
  EXPECT_EQ(decision.volume.migration_node_id, "n2");
  EXPECT_EQ(decision.volume.node_id, std::nullopt) << "S9";
  EXPECT_EQ(decision.takes_place_on, "n2") << "S37";
  EXPECT_TRUE(is_satisfied(book, "here"));
  EXPECT_THAT(blocker_types(decision, "there"), ElementsAre(B::moving)) << "not before the standby is ready";
  EXPECT_FALSE(decide(book).volume.any()) << "twice is once, before the record is made too";
}

TEST(MoveStart, TwoTicketsOfOneOwnerMoveAnyVolumeAndOfTwoOwnersNone) {
  for (const bool same : {true, false}) {
    Book book = make_book();
    set_attached(book, "n1");
    add_ticket(book, {.id = "here", .owner = "vm"});
    add_ticket(book, {.id = "there", .node = "n2", .owner = same ? "vm" : "another"});
    EXPECT_EQ(decide(book).volume.migration_node_id, same ? std::optional<std::string>("n2") : std::nullopt);
  }
}

TEST(MoveStart, WaitsAndSaysForWhat) {
  struct Row {
    std::string name;
    std::function<void(Book&)> spoil;
    std::vector<BlockerType> types;
  };
  const std::vector<Row> rows = {
      {"destination not ready", [](Book& b) { b.nodes["n2"].ready = false; }, {B::node_not_ready}},
      {"destination silent", [](Book& b) { b.nodes["n2"].agent_reachable = false; }, {B::agent_unreachable}},
      {"destination unknown", [](Book& b) { b.nodes.erase("n2"); }, {B::node_not_found}},
      {"destination full",
       [](Book& b) { b.nodes["n2"].attach_limit = b.nodes["n2"].attachments = 1; },
       {B::node_attach_limit}},
      {"a member is rebuilt", [](Book& b) { b.grant->spec.members["v1-r-1"] = MemberMode::wo; }, {B::moving}},
      {"the engine is being restarted",
       [](Book& b) { b.volume.status.robustness = Robustness::unknown; },
       {B::moving}},
      {"no way to the engine", [](Book& b) { b.move.source_has_no_peer = true; }, {B::moving}},
      {"the slot is not clean", [](Book& b) { b.move.slot_taken_on = "n3"; }, {B::moving}},
      {"the source is down", [](Book& b) { b.nodes["n1"].ready = false; }, {B::moving}},
  };
  for (const Row& row : rows) {
    Book book = two_tickets();
    row.spoil(book);
    const Decision decision = decide(book);
    EXPECT_FALSE(decision.volume.any()) << row.name;
    EXPECT_EQ(blocker_types(decision, "there"), row.types) << row.name;
    for (const Blocker& blocker : decision.statuses.at("there").blockers)
      EXPECT_FALSE(blocker.message.empty() || blocker.cleared_by.empty()) << row.name;
  }
}

TEST(MoveReview, TicketsDecideFirst) {
  struct Row {
    MovePhase phase;
    bool here;
    bool there;
    std::optional<std::string> node;       // written to spec.nodeID
    std::optional<std::string> migration;  // written to spec.migrationNodeID
  };
  const std::optional<std::string> no;
  for (const Row& row : std::vector<Row>{
           {P::preparing, true, true, no, no},
           {P::ready, true, true, no, no},
           {P::activated, true, true, no, no},
           {P::confirming, true, true, no, no},
           {P::rolling_back, true, true, no, no},
           {P::preparing, false, true, "", ""},  // a plain detach and attach
           {P::ready, false, true, "n2", ""},
           {P::activated, false, true, "n2", ""},
           {P::confirming, false, true, no, no},
           {P::rolling_back, false, true, "", no},
           {P::preparing, true, false, no, ""},
           {P::ready, true, false, no, ""},
           {P::activated, true, false, no, ""},
           {P::confirming, true, false, "", no},  // no way back: it leaves, and is attached there again
           {P::rolling_back, true, false, no, no},
           {P::preparing, false, false, "", ""},
           {P::ready, false, false, "", ""},
           {P::activated, false, false, "", ""},
           {P::confirming, false, false, "", no},
           {P::rolling_back, false, false, "", no},
       }) {
    Book book = moving(row.phase);
    if (!row.here) remove_ticket(book, "here");
    if (!row.there) remove_ticket(book, "there");
    const Decision decision = decide(book);
    const std::string name = fmt::format("{} {} {}", to_string(row.phase), row.here, row.there);
    EXPECT_EQ(decision.volume.node_id, row.node) << name;
    EXPECT_EQ(decision.volume.migration_node_id, row.migration) << name;
  }
}

TEST(MoveReview, ThenTheNodesDecide) {
  struct Row {
    MovePhase phase;
    bool source_up;
    bool destination_up;
    std::optional<std::string> node;
    std::optional<std::string> migration;
  };
  const std::optional<std::string> no;
  for (const Row& row : std::vector<Row>{
           {P::preparing, false, true, no, ""},
           {P::ready, false, true, "n2", ""},  // by fence
           {P::activated, false, true, "n2", ""},
           {P::preparing, true, false, no, ""},
           {P::ready, true, false, no, ""},
           {P::activated, true, false, no, ""},
           {P::confirming, true, false, no, no},
           {P::rolling_back, false, true, no, no},
           {P::ready, false, false, no, no},
           {P::activated, false, false, no, no},
       }) {
    Book book = moving(row.phase);
    book.nodes["n1"].agent_reachable = row.source_up;
    book.nodes["n2"].agent_reachable = row.destination_up;
    const Decision decision = decide(book);
    const std::string name = fmt::format("{} {} {}", to_string(row.phase), row.source_up, row.destination_up);
    EXPECT_EQ(decision.volume.node_id, row.node) << name;
    EXPECT_EQ(decision.volume.migration_node_id, row.migration) << name;
  }
}

TEST(MoveReview, AConfirmationNeedsEqualChains) {
  Book book = moving(P::ready);
  remove_ticket(book, "here");
  book.move.chains_differ = "they differ";
  EXPECT_FALSE(decide(book).volume.any()) << "S24";
}

TEST(MoveReview, ASnapshotOnTheSourceDoesNotKeepTheMoveFromEnding) {
  Book book = moving(P::ready);
  remove_ticket(book, "here");
  add_ticket(book, {.id = "snap", .type = attacher::kSnapshot, .frontend = "any"});
  EXPECT_EQ(decide(book).volume.node_id, "n2");
}

TEST(MoveReview, TheRecordDecidesWhenBothTicketsAreThereAndTheVolumeIsDetached) {
  for (const auto& [phase, node] : std::vector<std::pair<MovePhase, std::string>>{{P::preparing, "n1"},
                                                                                  {P::ready, "n1"},
                                                                                  {P::rolling_back, "n1"},
                                                                                  {P::activated, "n2"},
                                                                                  {P::confirming, "n2"}}) {
    Book book = moving(phase);
    book.volume.spec.node_id.clear();
    book.volume.spec.migration_node_id.clear();
    book.volume.status.current_node_id.clear();
    book.volume.status.current_migration_node_id.clear();
    book.volume.status.state = VolumeState::detached;
    book.grant->spec.active.reset();
    book.grant->spec.standby.reset();
    EXPECT_EQ(decide(book).volume.node_id, node) << to_string(phase);
  }
}

TEST(MoveSatisfaction, TheSecondTicketIsSatisfiedOnceTheStandbyIsReadyAndStaysSo) {
  for (const auto& [phase, here, there] :
       std::vector<std::tuple<MovePhase, bool, bool>>{{P::preparing, true, false},
                                                      {P::ready, true, true},
                                                      {P::activated, true, true},
                                                      {P::confirming, false, true},
                                                      {P::rolling_back, true, false}}) {
    Book book = moving(phase);
    step(book);
    EXPECT_EQ(is_satisfied(book, "here"), here) << to_string(phase);
    EXPECT_EQ(is_satisfied(book, "there"), there) << to_string(phase);
  }
  Book book = moving(P::ready);
  book.grant->spec.standby.reset();
  step(book);
  EXPECT_FALSE(is_satisfied(book, "there")) << "S15: the Grant does not name it";
}

TEST(MoveSatisfaction, AThirdNodeWaitsForTheMoveAndIsToldWhoEndsIt) {
  Book book = moving(P::ready);
  add_ticket(book, {.id = "third", .type = attacher::kApi, .node = "n3"});
  const Decision decision = decide(book);
  EXPECT_THAT(blocker_types(decision, "third"), ElementsAre(B::moving));
  EXPECT_THAT(first_blocker(decision, "third").message, HasSubstr("n1 to node n2"));
  EXPECT_THAT(first_blocker(decision, "third").cleared_by, HasSubstr("--rollback"));
}

TEST(MoveSatisfaction, AStandbyThatDoesNotComeUpIsNamed) {
  Book book = moving(P::preparing);
  book.move.destination_error = "no such program";
  EXPECT_THAT(blocker_types(decide(book), "there"), ElementsAre(B::engine_failing, B::moving));
}

MoveStep after(MovePhase phase, const MoveProgress& progress) {
  return next_move_step(moving(phase).volume, progress);
}

TEST(MoveSteps, GoFromPreparingToReadyToActivated) {
  EXPECT_EQ(next_move_step(two_tickets().volume, {}).handled, false);
  Volume asked = two_tickets().volume;
  asked.spec.migration_node_id = "n2";
  EXPECT_EQ(next_move_step(asked, {.source_serves = true}).action, A::begin);
  EXPECT_EQ(next_move_step(asked, {}).action, A::none);
  EXPECT_EQ(after(P::preparing, {.source_active = true}).action, A::grant_standby);
  const MoveProgress ready{.source_active = true, .standby_granted = true, .standby_ready = true};
  EXPECT_EQ(after(P::preparing, ready).phase, P::ready);
  EXPECT_EQ(after(P::preparing, ready).current_migration_node_id, "n2");
  EXPECT_EQ(after(P::ready, {.destination_active = true}).phase, P::activated);
  EXPECT_EQ(after(P::ready, {.destination_active = true}).keep, MoveSide::destination);
  const MoveProgress died{.source_active = true, .standby_granted = true, .standby_ended = true};
  EXPECT_EQ(after(P::ready, died).phase, P::preparing);
  EXPECT_EQ(after(P::ready, died).action, A::grant_standby);
  EXPECT_EQ(after(P::ready, died).current_migration_node_id, "");
}

TEST(MoveSteps, AConfirmationIsDurableFirstAndNothingLeadsBack) {
  Volume volume = moving(P::ready).volume;
  volume.spec.node_id = "n2";
  volume.spec.migration_node_id.clear();
  for (const P phase : {P::preparing, P::ready, P::activated, P::confirming, P::rolling_back}) {
    volume.status.move->phase = phase;
    const MoveStep step = next_move_step(volume, {.source_active = true});
    EXPECT_EQ(step.phase, P::confirming);
    EXPECT_EQ(step.action, A::swap);
  }
  const MoveProgress serves{.destination_serves = true, .destination_active = true};
  EXPECT_EQ(next_move_step(volume, serves).action, A::stop_loser);
  MoveProgress gone = serves;
  gone.loser_gone = true;
  EXPECT_EQ(next_move_step(volume, gone).action, A::finish);
  EXPECT_EQ(next_move_step(volume, gone).current_node_id, "n2") << "S10";
  EXPECT_EQ(next_move_step(volume, {.destination_active = true, .loser_gone = true}).action, A::wait);
}

TEST(MoveSteps, ARollbackTakesAnEpochAboveAllAndEndsWhenTheSourceServesIt) {
  Volume volume = moving(P::activated).volume;
  volume.spec.migration_node_id.clear();
  EXPECT_EQ(next_move_step(volume, {.destination_active = true}).action, A::take_back);
  EXPECT_EQ(next_move_step(volume, {.source_active = true}).action, A::take_back)
      << "also before an activation";
  volume.status.move->phase = P::rolling_back;
  EXPECT_EQ(next_move_step(volume, {.source_active = true}).action, A::stop_loser);
  EXPECT_EQ(next_move_step(volume, {.source_active = true, .loser_gone = true}).action, A::stop_loser);
  EXPECT_EQ(next_move_step(volume, {.source_serves = true, .source_active = true, .loser_gone = true}).action,
            A::finish);
  volume.spec.migration_node_id = "n2";
  EXPECT_EQ(next_move_step(volume, {.source_active = true}).phase, P::rolling_back);
}

TEST(MoveSteps, AVolumeThatIsToLeaveIsClosedWhateverItsRecordSays) {
  for (const P phase : {P::preparing, P::ready, P::activated, P::confirming, P::rolling_back}) {
    Volume volume = moving(phase).volume;
    volume.spec.node_id.clear();
    EXPECT_FALSE(next_move_step(volume, {}).handled);
    volume = moving(phase).volume;
    volume.status.state = VolumeState::detaching;
    EXPECT_FALSE(next_move_step(volume, {}).handled);
  }
}

TEST(MoveSteps, ARecordGoesWhenNothingNeedsItToDecide) {
  Volume volume = moving(P::activated).volume;
  volume.spec.node_id.clear();
  for (const VolumeState state : {VolumeState::attached, VolumeState::detaching}) {
    volume.status.state = state;
    EXPECT_FALSE(record_may_go(volume, false));
  }
  volume.status.state = VolumeState::detached;
  EXPECT_FALSE(record_may_go(volume, true)) << "it decides which side attaches";
  EXPECT_TRUE(record_may_go(volume, false));
  volume.spec.node_id = "n2";
  EXPECT_TRUE(record_may_go(volume, true));
}

}  // namespace
}  // namespace moor::attach
