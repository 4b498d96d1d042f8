// The little of SQLite that this room uses, with Results and owners instead of codes and pointers. Only this
// room includes it; sqlite3.h itself stays in the .cc files. A Connection and its Statements belong to one
// thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "store/embedded/gather_vfs.h"

struct sqlite3;
struct sqlite3_stmt;

namespace moor::store::embedded {

class Statement {
 public:
  Statement() = default;
  Statement(sqlite3* connection, sqlite3_stmt* statement) : connection_(connection), statement_(statement) {}

  // The bytes bound must stay where they are until reset().
  void bind(int index, std::uint64_t value);
  void bind_text(int index, std::string_view bytes);
  void bind_blob(int index, std::string_view bytes);
  void bind_null(int index);
  // True: a row is there. False: done.
  Result<bool> step();
  // For statements without rows: step once and reset, also after an error.
  Result<void> run();
  void reset();

  std::uint64_t integer(int column) const;
  // Valid until the next step() or reset().
  std::string_view bytes(int column) const;
  bool is_null(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  sqlite3* connection_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

struct CheckpointProgress {
  std::uint64_t frames = 0;  // in the write-ahead log when the checkpoint began
  std::uint64_t copied = 0;  // of these, how many are in the database and safe there
};

class Connection {
 public:
  enum class Mode { existing, create };
  // `vfs` is SQLite's name for the layer below ("" for the system's own). Closing never checkpoints: after a
  // failed sync that would carry doubtful pages into the database.
  static Result<Connection> open(const std::string& file, const std::string& vfs, Mode mode,
                                 Pace* pace = nullptr);
  Connection(Connection&&) = default;
  // Would let go of the old layer before the old connection is closed.
  Connection& operator=(Connection&&) = delete;

  Result<void> execute(const std::string& sql);
  Result<Statement> prepare(std::string_view sql);
  Result<std::uint64_t> query_integer(std::string_view sql);
  // No transaction is open.
  bool is_idle() const;
  // `passive` copies what it can without holding up anyone; otherwise everything is copied and the log is cut
  // to nothing.
  Result<CheckpointProgress> checkpoint(bool passive);
  // Called in each commit with the number of frames in the write-ahead log.
  void on_commit(std::function<void(std::uint64_t frames)> callback);
  Error error(int code, std::string_view what) const;

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  Connection(sqlite3* connection, std::unique_ptr<GatherVfs> vfs)
      : vfs_(std::move(vfs)), connection_(connection) {}

  // Before connection_: SQLite holds pointers to them.
  std::unique_ptr<GatherVfs> vfs_;
  std::unique_ptr<std::function<void(std::uint64_t)>> on_commit_;
  std::unique_ptr<sqlite3, Close> connection_;
};

// exhausted: no space, nothing was changed. corrupt: the file is damaged. unavailable: locked by someone
// else. Anything else is internal: the disk or the program failed.
Error sqlite_error(sqlite3* connection, int code, std::string_view what);

}  // namespace moor::store::embedded
