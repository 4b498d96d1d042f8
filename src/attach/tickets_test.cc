#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attach/book_for_test.h"

namespace moor::attach {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(TicketTypes, AreTheTwelveOfTheDesignWithTheirPriorities) {
  const std::map<std::string_view, int> expected = {{"volume-restore-controller", 2000},
                                                    {"volume-expansion-controller", 2000},
                                                    {"longhorn-api", 1000},
                                                    {"csi-attacher", 900},
                                                    {"salvage-controller", 900},
                                                    {"share-manager-controller", 900},
                                                    {"snapshot-controller", 800},
                                                    {"backup-controller", 800},
                                                    {"volume-clone-controller", 800},
                                                    {"volume-eviction-controller", 800},
                                                    {"bim-ds-controller", 800},
                                                    {"volume-rebuilding-controller", 800}};
  std::map<std::string_view, int> found;
  for (const TicketType& type : ticket_types()) found[type.name] = type.priority;
  EXPECT_EQ(found, expected);
  EXPECT_EQ(ticket_types().size(), 12U);
  EXPECT_EQ(ticket_type("something-else").priority, 0);
  EXPECT_FALSE(ticket_type("something-else").workload);
  EXPECT_FALSE(ticket_type("something-else").interruptible);
}

TEST(TicketTypes, WorkloadsAreThoseThatUseTheData) {
  std::set<std::string_view> workloads;
  for (const TicketType& type : ticket_types())
    if (type.workload) workloads.insert(type.name);
  EXPECT_EQ(workloads,
            (std::set<std::string_view>{"csi-attacher", "longhorn-api", "share-manager-controller"}));
}

TEST(TicketTypes, ACloneCanBeInterruptedOnlyOnceItsDataAreCopied) {
  Volume volume;
  const AttachmentTicket clone = make_ticket({.id = "c", .type = attacher::kClone});
  EXPECT_FALSE(is_interruptible(clone, volume));
  volume.status.clone_status.state = model::longhorn::CloneState::initiated;
  EXPECT_FALSE(is_interruptible(clone, volume));
  volume.status.clone_status.state = model::longhorn::CloneState::copy_completed_awaiting_healthy;
  EXPECT_TRUE(is_interruptible(clone, volume));
  for (const auto type : {attacher::kSnapshot, attacher::kBackup, attacher::kRebuilding})
    EXPECT_TRUE(is_interruptible(make_ticket({.id = "i", .type = type}), Volume{})) << type;
  for (const auto type :
       {attacher::kCsi, attacher::kApi, attacher::kShareManager, attacher::kRestore, attacher::kExpansion,
        attacher::kEviction, attacher::kBackingImageSource, attacher::kSalvage})
    EXPECT_FALSE(is_interruptible(make_ticket({.id = "n", .type = type}), Volume{})) << type;
}

TEST(TicketOrder, IsPriorityThenShorterIdThenSmallerId) {
  const auto before = [](const TicketWish& left, const TicketWish& right) {
    return compare_tickets(make_ticket(left), make_ticket(right), TieBreak::name) < 0;
  };
  EXPECT_TRUE(before({.id = "zzz", .type = attacher::kRestore}, {.id = "a", .type = attacher::kApi}));
  EXPECT_TRUE(before({.id = "zz"}, {.id = "aaa"}));
  EXPECT_TRUE(before({.id = "ab"}, {.id = "ba"}));
  EXPECT_FALSE(before({.id = "ab"}, {.id = "ab"}));
  EXPECT_TRUE(before({.id = "late", .arrival_seconds = 9}, {.id = "early", .arrival_seconds = 1}));
}

TEST(TicketOrder, ByArrivalAsksForTheOldestOfEqualPriority) {
  const auto before = [](const TicketWish& left, const TicketWish& right) {
    return compare_tickets(make_ticket(left), make_ticket(right), TieBreak::arrival) < 0;
  };
  EXPECT_TRUE(before({.id = "early", .arrival_seconds = 1}, {.id = "x", .arrival_seconds = 2}));
  EXPECT_TRUE(before({.id = "x", .type = attacher::kApi, .arrival_seconds = 2},
                     {.id = "early", .arrival_seconds = 1}));
  EXPECT_TRUE(before({.id = "aaa"}, {.id = "b"}));  // equal arrival: by id alone
  AttachmentTicket unknown = make_ticket({.id = "z"});
  unknown.requested_at.reset();
  EXPECT_TRUE(compare_tickets(unknown, make_ticket({.id = "a"}), TieBreak::arrival) < 0);
}

TEST(TicketParameters, DecideWithWhichFrontEndATicketIsServed) {
  struct Row {
    std::string wish;
    bool with;     // compatible with a front end
    bool without;  // compatible with none
  };
  for (const Row& row : std::vector<Row>{
           {"", true, false}, {"false", true, false}, {"true", false, true}, {"any", true, true}}) {
    const AttachmentTicket ticket = make_ticket({.id = "t", .frontend = row.wish});
    EXPECT_EQ(is_compatible(ticket, false), row.with) << row.wish;
    EXPECT_EQ(is_compatible(ticket, true), row.without) << row.wish;
  }
}

TEST(TicketOwner, IsTheObjectItServesOrElseTheTicketItself) {
  const auto key = [](const TicketWish& wish) { return owner_key(make_ticket(wish)); };
  EXPECT_EQ(key({.id = "a", .owner = "web"}), key({.id = "b", .owner = "web"}));
  EXPECT_NE(key({.id = "a", .owner = "web"}), key({.id = "a", .owner = "db"}));
  EXPECT_NE(key({.id = "a"}), key({.id = "b"}));
  AttachmentTicket first = make_ticket({.id = "a", .owner = "web"});
  AttachmentTicket second = first;
  second.owner->uid = "another life of that name";
  EXPECT_NE(owner_key(first), owner_key(second));
}

TEST(TicketExpiry, ComesFromTheTicketOrForThePlainApiFromTheSetting) {
  const Settings ten = Settings::from_values({{"api-ticket-expiry", "10"}});
  AttachmentTicket api = make_ticket({.id = "a", .type = attacher::kApi});
  EXPECT_EQ(expiry_of(api, Settings{}), std::nullopt);
  EXPECT_EQ(expiry_of(api, ten), kTestNow + std::chrono::seconds(10));
  EXPECT_EQ(expiry_of(make_ticket({.id = "c"}), ten), std::nullopt);
  api.expires_at = kTestNow + std::chrono::seconds(3);
  EXPECT_EQ(expiry_of(api, ten), api.expires_at);
}

TEST(TicketAdmission, AMigratableVolumeHasRoomForTwoCsiTicketsTheSecondOnceAttached) {
  Book book = make_book();
  book.volume.spec.access_mode = model::longhorn::AccessMode::rwx;
  book.volume.spec.migratable = true;
  VolumeAttachment before = book.attachment;
  add_ticket(book, {.id = "c1"});
  EXPECT_THAT(check_ticket_change(book.volume, &before, book.attachment), IsEmpty());
  before = book.attachment;
  add_ticket(book, {.id = "c2", .node = "n2"});
  auto causes = check_ticket_change(book.volume, &before, book.attachment);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_THAT(causes[0].message, HasSubstr("not attached yet"));
  set_attached(book, "n1");
  EXPECT_THAT(check_ticket_change(book.volume, &before, book.attachment), IsEmpty());
  before = book.attachment;
  add_ticket(book, {.id = "c3", .node = "n3"});
  causes = check_ticket_change(book.volume, &before, book.attachment);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_THAT(causes[0].message, HasSubstr("room for two"));
  EXPECT_THAT(check_ticket_change(book.volume, &book.attachment, book.attachment), IsEmpty());
  book.volume.spec.migratable = false;
  EXPECT_THAT(check_ticket_change(book.volume, &before, book.attachment), IsEmpty());
}

TEST(TicketAdmission, ATicketStaysWithItsOwner) {
  Book book = make_book();
  add_ticket(book, {.id = "t", .owner = "web"});
  add_ticket(book, {.id = "free"});
  const VolumeAttachment before = book.attachment;
  add_ticket(book, {.id = "t", .node = "n2", .owner = "web"});
  add_ticket(book, {.id = "free", .owner = "web"});
  EXPECT_THAT(check_ticket_change(book.volume, &before, book.attachment), IsEmpty());
  add_ticket(book, {.id = "t", .owner = "db"});
  const auto causes = check_ticket_change(book.volume, &before, book.attachment);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].field, "spec.attachmentTickets[t].owner");
}

}  // namespace
}  // namespace moor::attach
