#include "store/embedded/exchange.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <istream>
#include <ostream>
#include <set>
#include <unordered_set>

#include "base/json.h"
#include "store/embedded/text.h"
#include "store/mvcc.h"

namespace moor::store::embedded {
namespace {
namespace fs = std::filesystem;
constexpr const char* kFormat = "mooring-store-export";
constexpr std::uint64_t kExportVersion = 1;
// A value of control characters only is six times as long in JSON.
constexpr std::size_t kMaxLineBytes = 6 * (kMaxValueBytes + kMaxKeyBytes) + 1024;
constexpr std::size_t kBatchRecords = 2'000;
constexpr std::size_t kBatchBytes = 4u << 20;
constexpr std::uint64_t kProgressEvery = 10'000;

void set_bytes(Json& line, const std::string& name, std::string_view bytes) {
  if (is_utf8(bytes)) {
    line.set(name, bytes);
  } else {
    line.set(name + "64", to_base64(bytes));
  }
}

// A line and its part in the checksum.
class LineWriter {
 public:
  explicit LineWriter(std::ostream& out) : out_(out) {}
  void write(const Json& line) {
    text_.clear();
    append_text(text_, line);
    text_ += '\n';
    checksum_.add(text_);
    out_ << text_;
  }
  void finish() {
    out_ << to_text(Json::object({{"end", kFormat}, {"xxh3", fmt::format("{:016x}", checksum_.value())}}))
         << '\n';
    out_.flush();
  }

 private:
  std::ostream& out_;
  std::string text_;
  StreamChecksum checksum_;
};

// Reads an export line by line and says no to anything that is not exactly one.
class Importer {
 public:
  Importer(std::istream& in, const Progress& progress) : in_(in), progress_(progress) {}

  Result<void> read_header();
  // Writes everything that follows the header into the new store.
  Result<void> read_into(Database& database);
  const ImportSummary& summary() const { return summary_; }

 private:
  Result<Json> next_line();
  Result<bool> read_line(JournalBatch& batch);  // false: that was the end
  Result<void> read_end(const Json& line);
  Result<void> read_lease(const Json& line, JournalBatch& batch);
  Result<void> read_entry(const Json& line, JournalBatch& batch);
  Result<std::string> bytes_of(const Json& line, const std::string& name) const;
  Error wrong(std::string_view what) const {
    return make_error(Errc::invalid, fmt::format("line {} of the export: {}", line_number_, what));
  }

  std::istream& in_;
  const Progress& progress_;
  StreamChecksum checksum_;
  std::uint64_t checksum_before_ = 0;  // of all lines before the current one
  std::uint64_t line_number_ = 0;
  std::size_t line_bytes_ = 0;
  std::uint64_t entries_wanted_ = 0;
  std::uint64_t leases_wanted_ = 0;
  Revision last_ = 0;
  ImportSummary summary_;
  std::set<LeaseId> leases_;
  std::unordered_set<std::string> keys_;
};

Result<Json> Importer::next_line() {
  ++line_number_;
  std::string line;
  if (!std::getline(in_, line) || in_.eof()) return wrong("it is cut off before its end");
  if (line.size() > kMaxLineBytes) return wrong("it is too long");
  checksum_before_ = checksum_.value();
  line += '\n';
  checksum_.add(line);
  line_bytes_ = line.size();
  auto parsed =
      parse_json(std::string_view(line).substr(0, line.size() - 1), {.allow_duplicate_keys = false});
  if (!parsed) return wrong(parsed.error().message);
  if (!parsed->is_object()) return wrong("not an object");
  return parsed;
}

Result<void> Importer::read_header() {
  TRY(const Json header, next_line());
  if (header.get_string("format") != kFormat) return wrong("this is no export of a store");
  const auto version = header.get_uint64("version");
  if (!version || *version > kExportVersion)
    return make_error(Errc::unsupported,
                      fmt::format("the export has version {}, this program reads up to version {}",
                                  version.value_or(0), kExportVersion));
  const auto revision = header.get_uint64("revision");
  const auto entries = header.get_uint64("entries");
  const auto leases = header.get_uint64("leases");
  if (!revision || !entries || !leases) return wrong("the first line lacks revision, entries or leases");
  // Above this, revisions would no longer be exact in the JSON of others.
  if (*revision > (1ull << 52)) return wrong("its revision is out of range");
  summary_.exported_revision = *revision;
  entries_wanted_ = *entries;
  leases_wanted_ = *leases;
  return {};
}

Result<void> Importer::read_into(Database& database) {
  bool more = true;
  while (more) {
    JournalBatch batch;
    std::size_t bytes = 0;
    while (more && batch.records.size() < kBatchRecords && bytes < kBatchBytes) {
      TRY(more, read_line(batch));
      bytes += line_bytes_;
    }
    TRY_VOID(database.apply(batch));
  }
  if (in_.peek() != std::istream::traits_type::eof()) return wrong("something follows the end");
  if (summary_.entries != entries_wanted_ || summary_.leases != leases_wanted_)
    return wrong(fmt::format("{} entries and {} leases where the first line names {} and {}",
                             summary_.entries, summary_.leases, entries_wanted_, leases_wanted_));
  return {};
}

Result<bool> Importer::read_line(JournalBatch& batch) {
  TRY(const Json line, next_line());
  if (line.contains("end")) {
    TRY_VOID(read_end(line));
    return false;
  }
  if (line.contains("ttlNanoseconds")) {
    TRY_VOID(read_lease(line, batch));
  } else {
    TRY_VOID(read_entry(line, batch));
  }
  if (progress_ && line_number_ % kProgressEvery == 0)
    progress_("importing", summary_.entries, entries_wanted_);
  return true;
}

Result<void> Importer::read_end(const Json& line) {
  if (line.get_string("end") != kFormat ||
      line.get_string("xxh3") != fmt::format("{:016x}", checksum_before_))
    return wrong("the checksum does not match: the export was altered or damaged");
  return {};
}

Result<void> Importer::read_lease(const Json& line, JournalBatch& batch) {
  const auto id = line.get_uint64("lease");
  const auto duration = line.get_int64("ttlNanoseconds");
  if (!id || *id == 0 || !duration || *duration <= 0) return wrong("not a lease");
  if (!leases_.insert(*id).second) return wrong(fmt::format("lease {} stands twice", *id));
  batch.leases.push_back({*id, Duration(*duration)});
  ++summary_.leases;
  return {};
}

Result<std::string> Importer::bytes_of(const Json& line, const std::string& name) const {
  if (const auto text = line.get_string(name)) return std::string(*text);
  if (const auto text = line.get_string(name + "64")) {
    auto bytes = from_base64(*text);
    if (!bytes) return wrong(fmt::format("{}64: {}", name, bytes.error().message));
    return bytes;
  }
  return wrong("it has no " + name);
}

Result<void> Importer::read_entry(const Json& line, JournalBatch& batch) {
  Record record;
  TRY(record.key, bytes_of(line, "key"));
  TRY(std::string value, bytes_of(line, "value"));
  const auto revision = line.get_uint64("revision");
  if (!revision || *revision <= last_ || *revision > summary_.exported_revision)
    return wrong(
        fmt::format("its revision must lie above {} and up to {}", last_, summary_.exported_revision));
  if (auto good = validate_key(record.key); !good) return wrong(good.error().message);
  if (value.size() > kMaxValueBytes)
    return wrong(fmt::format("a value has at most {} bytes", kMaxValueBytes));
  if (!keys_.insert(record.key).second) return wrong("its key stands twice");
  record.lease = line.get_uint64("lease").value_or(0);
  if (record.lease != 0 && !leases_.contains(record.lease))
    return wrong(fmt::format("it names lease {}, which is not in the export", record.lease));
  record.revision = record.transaction = last_ = *revision;
  record.value = make_value(std::move(value));
  batch.records.push_back(std::move(record));
  ++summary_.entries;
  return {};
}

// What is known of the store that is about to be replaced.
struct Old {
  bool exists = false;
  bool in_the_way = false;  // must not be replaced without force
  Revision revision = 0;
  std::string warning;
};

Result<Old> look_at_old(const Place& place) {
  Old old;
  old.exists = Database::exists(place);
  if (!old.exists) return old;
  old.in_the_way = true;
  auto opened = Database::open(place);
  if (!opened) {
    if (opened.is(Errc::invalid)) return opened.error();  // another program's file: not ours to replace
    old.warning = "the old store could not be read (" + opened.error().message +
                  "): revisions that it had given out after the export may be given out again";
    return old;
  }
  const Meta& meta = (*opened)->meta();
  old.revision = meta.revision;
  old.in_the_way = meta.entries > 0 || meta.leases > 0;
  // So that nothing of it is in the log, which the new store cannot live with.
  if (auto settled = (*opened)->settle(); !settled) old.warning = settled.error().message;
  return old;
}

// A second name for the old files, before the new store takes theirs.
Result<std::string> keep_old(const Place& place) {
  constexpr int kMostKept = 1'000;
  for (int number = 1; number <= kMostKept; ++number) {
    const fs::path kept = place.directory / fmt::format("{}.replaced-{}", kFileName, number);
    if (link((place.directory / kFileName).c_str(), kept.c_str()) == 0) {
      const std::string log = (place.directory / kFileName).string() + "-wal";
      std::error_code error;
      if (fs::file_size(log, error) > 0 && !error && link(log.c_str(), (kept.string() + "-wal").c_str()) != 0)
        return errno_error(errno, "keep " + log);
      return kept.string();
    }
    if (errno != EEXIST) return errno_error(errno, "keep the old store as " + kept.string());
  }
  return make_error(Errc::exhausted, fmt::format("{} replaced stores lie in {}: remove some", kMostKept,
                                                 place.directory.string()));
}

}  // namespace

Result<ExportSummary> export_store(const Place& place, std::ostream& out, const Progress& progress) {
  TRY(const DirectoryLock lock, lock_existing(place));
  TRY(const std::unique_ptr<Database> database, Database::open(place));
  TRY(JournalContent content, database->load());
  const std::vector<LeaseRecord> leases = std::move(content.leases);
  Mvcc mvcc;
  TRY_VOID(mvcc.load(std::move(content)));
  TRY(ListPage page, mvcc.list({}));
  std::sort(page.entries.begin(), page.entries.end(),
            [](const Entry& a, const Entry& b) { return a.revision < b.revision; });
  const ExportSummary summary{mvcc.revision(), page.entries.size(), leases.size()};
  LineWriter writer(out);
  writer.write(Json::object({{"format", kFormat},
                             {"version", kExportVersion},
                             {"revision", summary.revision},
                             {"entries", summary.entries},
                             {"leases", summary.leases}}));
  for (const LeaseRecord& lease : leases)
    writer.write(Json::object({{"lease", lease.id}, {"ttlNanoseconds", lease.time_to_live->count()}}));
  std::uint64_t done = 0;
  for (const Entry& entry : page.entries) {
    Json line = Json::object();
    set_bytes(line, "key", entry.key);
    line.set("revision", entry.revision);
    if (entry.lease != 0) line.set("lease", entry.lease);
    set_bytes(line, "value", *entry.value);
    writer.write(line);
    if (progress && ++done % kProgressEvery == 0) progress("exporting", done, summary.entries);
    if (!out) break;
  }
  writer.finish();
  if (!out)
    return make_error(Errc::internal, "the export could not be written completely: is the disk full?");
  return summary;
}

Result<ImportSummary> import_store(const Place& place, std::istream& in, const ImportOptions& options,
                                   const Progress& progress) {
  TRY(const DirectoryLock lock, DirectoryLock::acquire(place.directory, true));
  TRY(const Old old, look_at_old(place));
  if (old.in_the_way && !options.force)
    return make_error(
        Errc::already_exists,
        fmt::format("there is a store in {} already; with --force it is replaced (and kept beside)",
                    place.directory.string()));
  Importer importer(in, progress);
  TRY_VOID(importer.read_header());
  ImportSummary summary;
  {
    TRY(const std::unique_ptr<Database> made, Database::make_new(place));
    TRY_VOID(importer.read_into(*made));
    summary = importer.summary();
    summary.revision = std::max(summary.exported_revision, old.revision) + options.revision_gap;
    TRY_VOID(made->begin_after(summary.revision));
    TRY_VOID(made->load());  // read back what was written, before it replaces anything
    TRY_VOID(made->settle());
  }
  summary.warning = old.warning;
  if (old.in_the_way) {
    TRY(summary.replaced, keep_old(place));
  }
  TRY_VOID(Database::publish_new(place));
  return summary;
}

}  // namespace moor::store::embedded
