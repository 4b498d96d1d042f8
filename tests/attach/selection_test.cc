// Random books against the naive model, and what must hold in every book.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "attach/explain.h"
#include "base/random.h"
#include "model/codec.h"
#include "world.h"

namespace moor::attach {
namespace {

struct Ranges {
  bool owners = false;  // reservations, owners, access modes and expiry too
};

std::string random_id(Random& random) {
  std::string id;
  for (std::uint64_t left = 1 + random.below(3); left > 0; --left)
    id += static_cast<char>('a' + random.below(3));
  return id;
}

TicketWish random_wish(Random& random, const Ranges& ranges) {
  static const std::vector<std::string_view> types = [] {
    std::vector<std::string_view> all = {"something-unknown"};
    for (const TicketType& type : ticket_types()) all.push_back(type.name);
    return all;
  }();
  static const std::vector<std::string> wishes = {"", "true", "false", "any"};
  TicketWish wish{.id = random_id(random), .type = types[random.below(types.size())]};
  wish.node = "n" + std::to_string(random.between(1, 5));  // n5 does not exist
  wish.frontend = wishes[random.below(wishes.size())];
  wish.arrival_seconds = static_cast<int>(random.between(-3, 0));
  if (!ranges.owners) return wish;
  // Few places and wishes, so that owners meet.
  if (random.chance(2, 3)) wish.node = random.chance(1, 2) ? "n1" : "n2";
  if (random.chance(1, 2)) wish.frontend.clear();
  if (random.chance(1, 4)) wish.node.clear();
  if (random.chance(2, 3)) wish.owner = random.chance(1, 2) ? "web" : "vm";
  return wish;
}

Book random_book(Random& random, const Ranges& ranges) {
  using model::longhorn::AccessMode;
  Book book = make_book();
  book.nodes["n4"] = {};
  for (auto& [name, node] : book.nodes) {
    node.ready = !random.chance(1, 6);
    node.agent_reachable = !random.chance(1, 8);
    node.attachments = static_cast<std::int64_t>(random.below(4));
    if (random.chance(1, 3)) node.attach_limit = static_cast<std::int64_t>(random.below(5));
  }
  book.settings = Settings::from_values({{"attachment-tie-break", random.chance(1, 2) ? "arrival" : "name"},
                                         {"node-attach-limit", random.chance(1, 3) ? "3" : "0"}});
  if (ranges.owners) {
    const AccessMode modes[] = {AccessMode::rwo, AccessMode::rwop, AccessMode::rwx};
    book.volume.spec.access_mode = modes[random.below(3)];
    book.volume.spec.migratable = book.volume.spec.access_mode == AccessMode::rwx && random.chance(1, 2);
    if (random.chance(1, 2)) {
      book.volume.status.share_state = model::longhorn::ShareManagerState::running;
      book.volume.status.share_endpoint = "nfs://share";
    }
  }
  for (std::uint64_t left = random.below(7); left > 0; --left) {
    const TicketWish wish = random_wish(random, ranges);
    add_ticket(book, wish);
    auto& ticket = book.attachment.spec.attachment_tickets[wish.id];
    if (ranges.owners && random.chance(1, 8))
      ticket.expires_at = book.now + std::chrono::seconds(random.chance(1, 2) ? -5 : 5);
  }
  return book;
}

std::uint64_t any_seed() {
  return *rc::gen::noShrink(rc::gen::inRange<std::uint64_t>(0, 1U << 30));
}

TEST(Selection, AgreesWithTheNaiveModelOnEveryDetachedBook) {
  const bool fine = rc::check("selection", [] {
    SeededRandom random(any_seed());
    for (int i = 0; i < 100; ++i) {
      const Book book = random_book(random, {});
      const Decision decision = decide(book);
      const auto order = naive::eligible(book);
      if (order.empty()) {
        RC_ASSERT(!decision.volume.node_id.has_value());
        continue;
      }
      const AttachmentTicket& best = book.attachment.spec.attachment_tickets.at(order.front());
      RC_ASSERT(decision.volume.node_id == best.node_id);
      RC_ASSERT(decision.takes_place_on == best.node_id);
    }
  });
  EXPECT_TRUE(fine);
}

TEST(Selection, IsATotalOrder) {
  const bool fine = rc::check("order", [] {
    SeededRandom random(any_seed());
    const TieBreak tie_break = random.chance(1, 2) ? TieBreak::name : TieBreak::arrival;
    std::vector<AttachmentTicket> tickets;
    std::set<std::string> ids;
    for (int i = 0; i < 8; ++i) {
      const TicketWish wish = random_wish(random, {});
      if (ids.insert(wish.id).second) tickets.push_back(make_ticket(wish));
    }
    const auto before = [&](const AttachmentTicket& left, const AttachmentTicket& right) {
      return compare_tickets(left, right, tie_break) < 0;
    };
    for (const auto& a : tickets)
      for (const auto& b : tickets) {
        RC_ASSERT(static_cast<int>(before(a, b)) + static_cast<int>(before(b, a)) == (a.id == b.id ? 0 : 1));
        for (const auto& c : tickets) {
          if (before(a, b) && before(b, c)) RC_ASSERT(before(a, c));
        }
      }
  });
  EXPECT_TRUE(fine);
}

// What holds at rest in every book, whatever the owners and modes.
std::string broken_rule(const World& world) {
  if (!world.violations.empty()) return world.violations.front();
  const Book& book = world.book;
  std::set<std::string> users;
  const AttachmentTicket* reservation = nullptr;
  for (const auto& [id, status] : book.attachment.status.attachment_ticket_statuses) {
    const AttachmentTicket& ticket = book.attachment.spec.attachment_tickets.at(id);
    if (!status.satisfied) continue;
    if (ticket.node_id.empty()) {
      reservation = &ticket;
      continue;
    }
    if (ticket.expires_at && *ticket.expires_at <= book.now) return "a lapsed ticket is satisfied: " + id;
    if (is_workload(ticket)) users.insert(owner_key(ticket));
  }
  if (book.volume.spec.access_mode == model::longhorn::AccessMode::rwop && users.size() > 1)
    return "S7: two owners of an rwop volume";
  if (reservation != nullptr && is_single_attach(book.volume))
    for (const auto& [id, status] : book.attachment.status.attachment_ticket_statuses)
      if (status.satisfied &&
          owner_key(book.attachment.spec.attachment_tickets.at(id)) != owner_key(*reservation))
        return "S20: " + id + " has a volume that is reserved for another";
  const std::string& node = book.volume.spec.node_id;
  const auto& tickets = book.attachment.spec.attachment_tickets;
  const bool caused = std::any_of(tickets.begin(), tickets.end(), [&](const auto& one) {
    return one.second.node_id == node && !is_served_by_share(one.second, book.volume);
  });
  if (!node.empty() && !caused) return "S16, S17: nobody who may has put it there";
  return {};
}

TEST(RandomBooks, ComeToRestWithinABoundAndKeepTheRules) {
  const bool fine = rc::check("books", [] {
    SeededRandom random(any_seed());
    for (int i = 0; i < 20; ++i) {
      World world(random_book(random, {.owners = true}));
      RC_ASSERT(world.run_to_rest());
      RC_ASSERT(broken_rule(world) == "");
      // Tickets come and go; each change is followed by rest, within a bound (L8).
      for (int change = 0; change < 6; ++change) {
        auto& tickets = world.book.attachment.spec.attachment_tickets;
        const auto before = world.book.attachment.spec;
        if (!tickets.empty() && random.chance(1, 2))
          tickets.erase(
              std::next(tickets.begin(), static_cast<std::ptrdiff_t>(random.below(tickets.size()))));
        else if (const TicketWish wish = random_wish(random, {.owners = true}); !tickets.contains(wish.id))
          add_ticket(world.book, wish);  // a ticket in the book never changes its owner
        number_tickets(before, world.book.attachment.spec, world.book.now, world.book.attachment.status);
        world.touch();
        const int changes = world.changes;
        RC_ASSERT(world.run_to_rest());
        RC_ASSERT(world.changes - changes <= 30);
        RC_ASSERT(broken_rule(world) == "");
      }
    }
  });
  EXPECT_TRUE(fine);
}

TEST(RandomBooks, GiveTheSameDecisionTwiceAndNothingNewAfterwards) {
  const bool fine = rc::check("twice", [] {
    SeededRandom random(any_seed());
    for (int i = 0; i < 50; ++i) {
      Book book = random_book(random, {.owners = true});
      const Decision first = decide(book);
      const Decision second = decide(book);
      RC_ASSERT(first.statuses == second.statuses);
      RC_ASSERT(first.volume == second.volume);
      RC_ASSERT(first.notices == second.notices);
      apply_decision(first, book.volume, book.attachment);
      // As it comes back from the store, where times have whole seconds.
      book.attachment = *model::decode<VolumeAttachment>(model::encode(book.attachment));
      book.now += std::chrono::milliseconds(1500);
      const Decision after = decide(book);
      RC_ASSERT(after.statuses == first.statuses);
      RC_ASSERT(after.notices.empty());
      RC_ASSERT(!after.volume.any());
    }
  });
  EXPECT_TRUE(fine);
}

// What the attachment controller spares itself the reading of.
TEST(RandomBooks, ThatArePlainOrAtRestAreDecidedWithoutTheGrant) {
  int plain = 0;
  int at_rest = 0;
  const bool fine = rc::check("without the grant", [&] {
    SeededRandom random(any_seed());
    for (int i = 0; i < 20; ++i) {
      World world(random_book(random, {.owners = true}));
      for (int step = 0; step < 12; ++step) {
        Book book = world.book;
        book.engine.device_in_use_by = "fio (pid 42)";
        Book bare = book;
        bare.grant.reset();
        bare.engine.device_in_use_by.clear();
        const Decision whole = decide(book);
        if (is_at_rest(book.volume, book.attachment)) {
          ++at_rest;
          RC_ASSERT(!whole.volume.any() && whole.statuses.empty() && whole.notices.empty());
          RC_ASSERT(whole.retire.empty() && !whole.again_at);
        }
        const Decision decision = decide(bare);
        if (is_plain(book.volume, book.attachment)) RC_ASSERT(decision.volume == whole.volume);
        if (is_plain(book.volume, book.attachment) && !whole.volume.any()) {
          ++plain;
          RC_ASSERT(decision.statuses == whole.statuses);
          RC_ASSERT(decision.notices == whole.notices);
          RC_ASSERT(decision.retire == whole.retire);
        }
        auto& tickets = world.book.attachment.spec.attachment_tickets;
        const auto before = world.book.attachment.spec;
        if (step % 3 == 2 && !tickets.empty()) tickets.erase(tickets.begin());
        if (step % 5 == 4)
          if (const TicketWish wish = random_wish(random, {.owners = true}); !tickets.contains(wish.id))
            add_ticket(world.book, wish);
        number_tickets(before, world.book.attachment.spec, world.book.now, world.book.attachment.status);
        world.touch();
        world.write_attachment(world.read());
        world.write_volume(world.read());
        world.agent_turn();
      }
    }
  });
  EXPECT_TRUE(fine);
  EXPECT_GT(plain, 50);
  EXPECT_GT(at_rest, 50);
}

}  // namespace
}  // namespace moor::attach
