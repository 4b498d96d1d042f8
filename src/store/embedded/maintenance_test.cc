// Export, import, check and compact on a store that no server has open.
#include "store/embedded/maintenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>
#include <sstream>

#include "base/loop.h"
#include "store/embedded/embedded_store.h"
#include "store/embedded/exchange.h"
#include "store/embedded/testing/temporary_directory.h"
#include "store/embedded/text.h"

namespace moor::store::embedded {
namespace {
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

class Maintenance : public testing::Test {
 protected:
  std::unique_ptr<Store> open(const std::string& name) {
    auto opened = open_embedded_store(loop_, place(name).directory);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return opened.ok() ? std::move(*opened) : nullptr;
  }
  Place place(const std::string& name) const { return {temporary_.path() / name, ""}; }
  fs::path file(const std::string& name) const { return place(name).directory / "store.db"; }
  template <class T>
  T await(Task<T> task) {
    return block_on(loop_, std::move(task));
  }
  // Three keys, one of them with bytes that are no text, one under a lease, some history.
  void fill(const std::string& name) {
    const auto store = open(name);
    ASSERT_TRUE(await(store->put("/text", "Gr\xc3\xbc\xc3\x9f \"quoted\"\n")).ok());
    ASSERT_TRUE(await(store->put("/bytes", std::string("\0\xff\x80", 3))).ok());
    const auto lease = await(store->grant_lease(std::chrono::hours(1)));
    Transaction leased;
    leased.writes = {Write::put("/leased", make_value("x"), *lease)};
    ASSERT_TRUE(await(store->commit(leased)).ok());
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(await(store->put("/gone", std::string(3000, 'g'))).ok());
    ASSERT_TRUE(await(store->remove("/gone", 23)).ok());
  }
  std::string exported(const std::string& name) {
    std::ostringstream out;
    auto done = export_store(place(name), out);
    EXPECT_TRUE(done.ok()) << done.error().message;
    return out.str();
  }
  Result<ImportSummary> import(const std::string& name, const std::string& text, ImportOptions options = {}) {
    std::istringstream in(text);
    return import_store(place(name), in, options);
  }
  void sql(const std::string& name, const std::string& text) {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(file(name).c_str(), &raw), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(raw, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(raw);
    sqlite3_close(raw);
  }

  TemporaryDirectory temporary_;
  Loop loop_;
};

TEST_F(Maintenance, ImportedExportIsTheSameStateWithAHigherRevision) {
  fill("old");
  const auto done = import("new", exported("old"));
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->entries, 3u);
  EXPECT_EQ(done->exported_revision, 24u);
  EXPECT_GT(done->revision, 24u);
  const auto before = open("old");
  const auto after = open("new");
  const auto page = await(before->list({}));
  const auto copy = await(after->list({}));
  ASSERT_EQ(copy->entries.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(copy->entries[i].key, page->entries[i].key);
    EXPECT_EQ(*copy->entries[i].value, *page->entries[i].value);
    EXPECT_EQ(copy->entries[i].revision, page->entries[i].revision);
    EXPECT_EQ(copy->entries[i].lease, page->entries[i].lease);
  }
  EXPECT_EQ(copy->revision, done->revision);
  EXPECT_TRUE(await(after->watch("", 24)).is(Errc::expired));
  EXPECT_TRUE(await(after->watch("", done->revision)).ok());
  EXPECT_TRUE(await(after->keep_alive(copy->entries[1].lease)).ok());
  EXPECT_EQ(*await(after->put("/next", "x")), done->revision + 1);
  // A client that remembers a revision can still compare with it.
  EXPECT_TRUE(await(after->update("/text", "y", 1)).ok());
}

TEST_F(Maintenance, ExportOfTheSameStateIsTheSameText) {
  fill("old");
  EXPECT_EQ(exported("old"), exported("old"));
  EXPECT_THAT(exported("old"), HasSubstr(R"({"key":"/bytes","revision":2,"value64":"AP+A"})"));
}

TEST_F(Maintenance, ImportIntoAStoreWithEntriesNeedsForceAndKeepsTheOldOne) {
  fill("old");
  const std::string text = exported("old");
  fill("other");
  {
    const auto store = open("other");
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(await(store->put("/later", "x")).ok());
  }
  EXPECT_TRUE(import("other", text).is(Errc::already_exists));
  const auto done = import("other", text, {.force = true, .revision_gap = 10});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->revision, 84u) << "above what the replaced store had given out";
  EXPECT_TRUE(fs::exists(done->replaced));
  EXPECT_EQ(await(open("other")->status())->keys, 3u);
  fs::create_directory(place("kept").directory);
  fs::copy_file(done->replaced, file("kept"));
  EXPECT_EQ(await(open("kept")->status())->keys, 4u);
}

TEST_F(Maintenance, ImportIntoAnEmptyStoreNeedsNoForce) {
  fill("old");
  open("empty").reset();
  const auto done = import("empty", exported("old"));
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->replaced, "");
}

TEST_F(Maintenance, ImportReplacesADamagedStoreWithForce) {
  fill("old");
  const std::string text = exported("old");
  std::ofstream(file("old"), std::ios::binary) << "not a database at all";
  EXPECT_TRUE(import("old", text).is(Errc::already_exists));
  const auto done = import("old", text, {.force = true});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_THAT(done->warning, HasSubstr("could not be read"));
  EXPECT_EQ(await(open("old")->status())->keys, 3u);
}

TEST_F(Maintenance, AlteredOrCutExportIsRefusedAndChangesNothing) {
  fill("old");
  const std::string text = exported("old");
  std::string altered = text;
  altered[altered.find("quoted")] = 'Q';
  auto refused = import("new", altered);
  ASSERT_TRUE(refused.is(Errc::invalid));
  EXPECT_THAT(refused.error().message, HasSubstr("checksum"));
  // Cut at every line, and in the middle of each.
  for (std::size_t at = 0; at < text.size(); at += 37)
    EXPECT_TRUE(import("new", text.substr(0, at)).is(Errc::invalid));
  EXPECT_TRUE(import("new", text + "{}\n").is(Errc::invalid));
  EXPECT_TRUE(import("new", "{\"format\":\"other\"}\n").is(Errc::invalid));
  EXPECT_FALSE(fs::exists(file("new")));
  EXPECT_TRUE(import("old", altered, {.force = true}).is(Errc::invalid));
  EXPECT_EQ(await(open("old")->status())->keys, 3u);
}

TEST_F(Maintenance, ExportOfANewerVersionIsRefused) {
  EXPECT_TRUE(import("new",
                     R"({"format":"mooring-store-export","version":2,"revision":1,"entries":0,"leases":0})"
                     "\n")
                  .is(Errc::unsupported));
}

TEST_F(Maintenance, CheckFindsNothingInASoundStore) {
  fill("old");
  const auto report = check_store(place("old"));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_THAT(report->problems, IsEmpty());
  EXPECT_EQ(report->keys, 3u);
  EXPECT_EQ(report->meta.revision, 24u);
}

TEST_F(Maintenance, CheckNamesEachDamagedRow) {
  fill("old");
  sql("old", "UPDATE entries SET value = x'00' WHERE revision IN (2, 5); UPDATE leases SET ttl_ns = 1");
  const auto report = check_store(place("old"));
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->problems, Contains(HasSubstr("revision 2 has")));
  EXPECT_THAT(report->problems, Contains(HasSubstr("revision 5 has")));
  EXPECT_THAT(report->problems, Contains(HasSubstr("lease 1 has")));
}

TEST_F(Maintenance, CheckFindsBrokenPagesAndChangesNothing) {
  fill("old");
  std::string bytes;
  {
    std::ifstream in(file("old"), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (std::size_t at = kPageBytes * 6; at < kPageBytes * 7; ++at) bytes[at] = '\x55';
  std::ofstream(file("old"), std::ios::binary) << bytes;
  const auto report = check_store(place("old"));
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->problems.empty());
  std::ifstream in(file("old"), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), bytes);
}

TEST_F(Maintenance, AStoreInUseOrMissingIsRefused) {
  const auto store = open("busy");
  std::ostringstream out;
  EXPECT_TRUE(export_store(place("busy"), out).is(Errc::unavailable));
  EXPECT_TRUE(check_store(place("busy")).is(Errc::unavailable));
  EXPECT_TRUE(compact_store(place("busy")).is(Errc::unavailable));
  EXPECT_TRUE(import("busy", "").is(Errc::unavailable));
  EXPECT_TRUE(check_store(place("none")).is(Errc::not_found));
  EXPECT_FALSE(fs::exists(place("none").directory));
}

TEST_F(Maintenance, CompactForgetsHistoryAndShrinksTheFile) {
  {
    const auto store = open("old");
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(await(store->put("/a", std::string(5000, 'x'))).ok());
  }
  const auto report = compact_store(place("old"));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->forgotten, 199u);
  EXPECT_LT(report->bytes_after, report->bytes_before / 10);
  EXPECT_THAT(check_store(place("old"))->problems, IsEmpty());
  const auto store = open("old");
  EXPECT_EQ(await(store->status())->revision, 200u);
  EXPECT_EQ(await(store->status())->compacted, 200u);
  EXPECT_EQ(*await(store->put("/a", "y")), 201u);
}

TEST(Text, Base64GoesThereAndBack) {
  for (std::size_t size = 0; size < 300; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i * 31 + size));
    EXPECT_EQ(*from_base64(to_base64(bytes)), bytes);
  }
  EXPECT_EQ(to_base64("ab"), "YWI=");
  for (const char* bad : {"YWI", "YW=I", "Y===", "YWJ=", "YW I", "====", "YWI=YWI="})
    EXPECT_FALSE(from_base64(bad).ok()) << bad;
}

TEST(Text, OnlyWellFormedUtf8Counts) {
  for (const char* good : {"", "abc", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "a\xe2\x82"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

}  // namespace
}  // namespace moor::store::embedded
