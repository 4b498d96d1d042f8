// SQLite writes each frame of its write-ahead log in two pieces, header and page. This layer keeps the pieces
// of a commit together and writes them at once: with whatever asks for them next (a sync, a read, another
// place in the file). What a sync has confirmed is therefore where it would have been without this layer.
#pragma once

#include <memory>
#include <string>

namespace moor::store::embedded {

class GatherVfs {
 public:
  // On top of the layer that SQLite knows as `below` ("" for the system's own); null if there is none.
  static std::unique_ptr<GatherVfs> over(const std::string& below);
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
