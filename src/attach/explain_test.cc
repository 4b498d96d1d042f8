#include "attach/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attach/book_for_test.h"

namespace moor::attach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> lines_of(const Book& book) {
  std::vector<std::string> lines;
  for (const Explanation& one : explain_volume(book.volume, book.attachment, book.grant, book.now))
    lines.push_back(one.text);
  return lines;
}

TEST(Explain, SaysWhoWaitsForWhatSinceWhenAndWhoCanClearIt) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "longhorn-ui", .type = attacher::kApi});
  add_ticket(book, {.id = "csi-1", .node = "n2"});
  step(book);
  book.now += std::chrono::minutes(5);
  EXPECT_THAT(
      lines_of(book),
      ElementsAre("ticket csi-1 (csi-attacher) for node n2 waits: AttachedElsewhere: volume v1 is held "
                  "on node n1 by ticket longhorn-ui (longhorn-api); since 5m; cleared by: whoever "
                  "attached it: moor detach v1 --node n1",
                  "ticket longhorn-ui (longhorn-api) for node n1 has what it asks for"));
}

TEST(Explain, OfAVolumeThatNobodyAsksForSaysSo) {
  EXPECT_THAT(lines_of(make_book()), ElementsAre("nobody asks for volume v1: it has no tickets"));
}

TEST(Explain, ATicketThatWasNotLookedAtYetIsNotCalledSatisfied) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "t"});
  EXPECT_THAT(lines_of(book), ElementsAre(HasSubstr("has not been looked at yet")));
  step(book);
  EXPECT_THAT(lines_of(book), ElementsAre(HasSubstr("has what it asks for")));
  book.attachment.spec.attachment_tickets["t"].generation = 2;
  EXPECT_THAT(lines_of(book), ElementsAre(HasSubstr("has not been looked at yet")));
}

TEST(Explain, TellsOfDeletionAndOfMembersThatMissedWrites) {
  Book book = make_book();
  set_attached(book, "n1");
  add_ticket(book, {.id = "t"});
  step(book);
  book.grant->spec.members = {{"v1-r-1", model::mooring::MemberMode::rw},
                              {"v1-r-2", model::mooring::MemberMode::err}};
  book.volume.metadata.deletion_timestamp = kTestNow - std::chrono::seconds(30);
  EXPECT_THAT(lines_of(book),
              ElementsAre(HasSubstr("has what it asks for"),
                          "volume v1 is being deleted, since 30s; it is still attached to node n1",
                          "replica v1-r-2 has missed writes (ERR): it serves again only after a rebuild"));
}

TEST(WaitingCycle, IsFoundAndReportedAsADeadlock) {
  Book book = make_book();
  add_ticket(book, {.id = "a"});
  add_ticket(book, {.id = "b", .node = "n2"});
  EXPECT_THAT(waiting_cycle(book.attachment), IsEmpty());
  const auto waits = [&](const std::string& who, const std::string& whom) {
    auto& status = book.attachment.status.attachment_ticket_statuses[who];
    status.id = who;
    Blocker blocker{.type = BlockerType::attached_elsewhere, .holder = whom, .holder_type = "csi-attacher"};
    status.blockers = {blocker};
  };
  waits("a", "b");
  EXPECT_THAT(waiting_cycle(book.attachment), IsEmpty());
  waits("b", "a");
  EXPECT_THAT(waiting_cycle(book.attachment), ElementsAre("a", "b"));
  EXPECT_THAT(lines_of(book), testing::Contains(HasSubstr("deadlock: tickets wait for each other: a -> b")));
}

}  // namespace
}  // namespace moor::attach
