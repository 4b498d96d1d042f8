// The layer between SQLite and its files that keeps commits quick. Three things, none of which changes what a
// sync has confirmed:
//
// Gathering. SQLite writes each frame of its write-ahead log in two pieces, header and page. The pieces of a
// commit are kept together and written at once: with whatever asks for them next (a sync, a read, another
// place in the file).
//
// Room ahead. The log grows in steps of zeros, well before a commit needs the room: a sync of bytes inside a
// file takes less than half the time of one that also makes the file longer. SQLite reads zeros as the end of
// the log.
//
// Pace. What a copy of the log writes into the database goes to the disk in small portions, if a Pace was
// given.
#pragma once

#include <memory>
#include <string>

#include "store/embedded/pace.h"

namespace moor::store::embedded {

class GatherVfs {
 public:
  // On top of the layer that SQLite knows as `below`; "" for the system's own, with the database for this
  // process alone (whoever opens it holds the directory's lock). Null if there is none. The pace, if any,
  // outlives this.
  static std::unique_ptr<GatherVfs> over(const std::string& below, Pace* pace = nullptr);
  GatherVfs(const GatherVfs&) = delete;
  GatherVfs& operator=(const GatherVfs&) = delete;
  ~GatherVfs();

  const std::string& name() const;

  struct State;

 private:
  explicit GatherVfs(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace moor::store::embedded
