// One volume with its objects, its two controllers and imagined processes, small enough to run a million
// times. The attachment controller is decide(); the volume controller follows next_step() and the operations
// of the Grant; the agent starts and stops an engine that is nothing but a node and an epoch.
//
// Readings and writes are apart: a controller decides on what it read, and its write counts only if nobody
// wrote in between (compare-and-swap). Every write is checked against the invariants; what they find is in
// `violations`.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attach/book_for_test.h"
#include "attach/grant.h"
#include "attach/table.h"

namespace moor::attach {

struct EngineProcess {
  std::string node;
  std::int64_t epoch = 0;
};

// What the Engine object says: wanted, and reported.
struct EngineWish {
  bool run = false;
  std::string node;
  std::int64_t epoch = 0;
  bool run_standby = false;
};

struct Reading {
  Book book;
  std::optional<EngineProcess> engine;  // as the agent reported it
  std::int64_t stopped_epoch = 0;
  bool standby_runs = false;
  std::uint64_t version = 0;
};

class World {
 public:
  explicit World(Book book);

  Book book;  // what is stored
  std::optional<EngineProcess> engine;
  bool standby_runs = false;
  bool members_usable = true;  // some replica that holds all data can serve
  std::vector<std::string> violations;
  int changes = 0;            // writes that changed something
  bool volume_first = false;  // whose turn comes first in a round

  Reading read() const;
  // False: somebody wrote since the reading; nothing happened.
  bool write_attachment(const Reading& reading);
  bool write_volume(const Reading& reading);
  bool agent_turn();  // true: something changed

  // Anybody else's write: tickets, facts.
  void touch() { ++version_; }
  void crash_engine();

  // Turns until nothing changes; false when that takes more than `turns` rounds.
  bool run_to_rest(int turns = 60);
  // All fields of the volume and all tickets, for messages.
  std::string text() const;

 private:
  void check_attachment_write(const Book& before);
  void check_reservations(const Book& before);
  void check_statuses();
  void open(Book& after, const Reading& reading);
  void close(Book& after, const Reading& reading);
  void fail(const std::string& what);

  EngineWish wish_;
  std::int64_t stopped_epoch_ = 0;
  std::set<std::int64_t> started_epochs_;
  std::uint64_t version_ = 1;
};

// A second, naive reading of the rules, to judge the first.
namespace naive {

// Tickets that count and whose node can take the volume, best first, sorted by keys spelled out here.
std::vector<std::string> eligible(const Book& book);
// The ticket is on the node and fits the front end.
bool keeps(const Book& book, const AttachmentTicket& ticket, const std::string& node, bool frontend_disabled);
bool yields(const Book& book, const AttachmentTicket& ticket);
// Where the volume ends when nobody writes any more; "" for detached.
std::string final_node(const Book& start);
// What is wrong with a world at rest; empty: nothing.
std::vector<std::string> faults_at_rest(const World& world);

}  // namespace naive

}  // namespace moor::attach
