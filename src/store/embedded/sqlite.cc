#include "store/embedded/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstring>

namespace moor::store::embedded {
namespace {
// Another program may look into the file with sqlite3 for a moment; nothing of ours ever waits for this lock.
constexpr int kBusyMilliseconds = 5'000;

Errc errc_of(int code, int system_errno) {
  switch (code & 0xff) {
    case SQLITE_FULL: return Errc::exhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Errc::corrupt;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return Errc::unavailable;
    case SQLITE_IOERR:
      // A quota, or no space for the index of the log. Never for a failed sync: what reached the disk is then
      // unknown.
      if ((code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE) &&
          (system_errno == ENOSPC || system_errno == EDQUOT))
        return Errc::exhausted;
      return Errc::internal;
    default: return Errc::internal;
  }
}
}  // namespace

Error sqlite_error(sqlite3* connection, int code, std::string_view what) {
  const int system_errno = connection == nullptr ? 0 : sqlite3_system_errno(connection);
  const int primary = code & 0xff;
  std::string text = connection == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(connection);
  if (primary == SQLITE_IOERR) text += fmt::format(" (SQLite code {})", code);
  // The number of the last failed system call is kept by SQLite even when this error had no system call.
  if (system_errno != 0 &&
      (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN || primary == SQLITE_FULL)) {
    char buffer[128];
    text += fmt::format(": {}", strerror_r(system_errno, buffer, sizeof buffer));
  }
  return make_error(errc_of(code, system_errno), fmt::format("{}: {}", what, text));
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Statement::bind(int index, std::uint64_t value) {
  sqlite3_bind_int64(statement_.get(), index, static_cast<sqlite3_int64>(value));
}

void Statement::bind_text(int index, std::string_view bytes) {
  sqlite3_bind_text64(statement_.get(), index, bytes.data(), bytes.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void Statement::bind_blob(int index, std::string_view bytes) {
  // An empty value is not an absent one: a null pointer would be stored as NULL, which means removal.
  sqlite3_bind_blob64(statement_.get(), index, bytes.empty() ? "" : bytes.data(), bytes.size(),
                      SQLITE_STATIC);
}

void Statement::bind_null(int index) {
  sqlite3_bind_null(statement_.get(), index);
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return sqlite_error(connection_, code, sqlite3_sql(statement_.get()));
}

Result<void> Statement::run() {
  auto row = step();
  reset();
  if (!row) return row.error();
  return {};
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
}

std::uint64_t Statement::integer(int column) const {
  return static_cast<std::uint64_t>(sqlite3_column_int64(statement_.get(), column));
}

std::string_view Statement::bytes(int column) const {
  // The order matters: column_blob may convert, column_bytes then tells the size of the result.
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void Connection::Close::operator()(sqlite3* connection) const {
  sqlite3_close_v2(connection);
}

Result<Connection> Connection::open(const std::string& file, const std::string& vfs, Mode mode, Pace* pace) {
  auto layer = GatherVfs::over(vfs, pace);
  if (layer == nullptr) return make_error(Errc::internal, fmt::format("SQLite has no layer named '{}'", vfs));
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                    (mode == Mode::create ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(file.c_str(), &raw, flags, layer->name().c_str());
  Connection connection(raw, std::move(layer));
  if (code != SQLITE_OK) return sqlite_error(raw, code, "open " + file);
  sqlite3_busy_timeout(raw, kBusyMilliseconds);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_wal_autocheckpoint(raw, 0);
  return connection;
}

Result<void> Connection::execute(const std::string& sql) {
  const int code = sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code, sql);
  return {};
}

Result<Statement> Connection::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(connection_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (code != SQLITE_OK) return error(code, sql);
  return Statement(connection_.get(), raw);
}

Result<std::uint64_t> Connection::query_integer(std::string_view sql) {
  TRY(Statement statement, prepare(sql));
  TRY(const bool row, statement.step());
  if (!row) return make_error(Errc::corrupt, fmt::format("{}: no row", sql));
  return statement.integer(0);
}

bool Connection::is_idle() const {
  return sqlite3_get_autocommit(connection_.get()) != 0;
}

Result<CheckpointProgress> Connection::checkpoint(bool passive) {
  int frames = 0;
  int copied = 0;
  const int code = sqlite3_wal_checkpoint_v2(connection_.get(), "main",
                                             passive ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE,
                                             &frames, &copied);
  // Somebody commits or recovers the log at this very moment: nothing was copied, the next round will. A
  // store that stopped for this (one kill in a few hundred shows it) would have stopped for nothing.
  if (passive && (code & 0xff) == SQLITE_BUSY) return CheckpointProgress{};
  if (code != SQLITE_OK) return error(code, "checkpoint");
  // -1: there is no log at all.
  return CheckpointProgress{static_cast<std::uint64_t>(std::max(frames, 0)),
                            static_cast<std::uint64_t>(std::max(copied, 0))};
}

void Connection::on_commit(std::function<void(std::uint64_t)> callback) {
  on_commit_ = std::make_unique<std::function<void(std::uint64_t)>>(std::move(callback));
  sqlite3_wal_hook(
      connection_.get(),
      [](void* context, sqlite3*, const char*, int frames) {
        (*static_cast<std::function<void(std::uint64_t)>*>(context))(static_cast<std::uint64_t>(frames));
        return SQLITE_OK;
      },
      on_commit_.get());
}

Error Connection::error(int code, std::string_view what) const {
  return sqlite_error(connection_.get(), code, what);
}

}  // namespace moor::store::embedded
