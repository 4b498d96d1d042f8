#include "http/url.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace moor::http {
namespace {

using Strings = std::vector<std::string>;

TEST(Utf8, AcceptsWholeTextAndRefusesSecondSpellings) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("plain"));
  EXPECT_TRUE(is_utf8("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"));
  for (const std::string bad :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xc3", "\xe2\x82", "\xff"})
    EXPECT_FALSE(is_utf8(bad)) << testing::PrintToString(bad);
}

TEST(Percent, EncodesAllButUnreservedAndComesBack) {
  EXPECT_EQ(percent_encode("a-b_c.d~9"), "a-b_c.d~9");
  EXPECT_EQ(percent_encode("a b/c?d=e&f%"), "a%20b%2Fc%3Fd%3De%26f%25");
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(percent_decode(percent_encode(all)).value(), all);
}

TEST(Percent, RefusesBrokenEscapes) {
  for (const char* bad : {"%", "%4", "%zz", "a%2", "%%41", "%-1", "% 1", "%+1"})
    EXPECT_TRUE(percent_decode(bad).is(Errc::invalid)) << bad;
}

TEST(Query, KeepsOrderAndSeveralValues) {
  const auto query =
      Query::parse("a=1&b=x%20y+z&a=2&flag&empty=&=v&labelSelector=app%3Dweb%2Ctier%21%3Ddb").value();
  EXPECT_EQ(query.get("a"), "1");
  EXPECT_EQ(query.get_all("a").size(), 2U);
  EXPECT_EQ(query.get("b"), "x y z");
  EXPECT_EQ(query.get("flag"), "");
  EXPECT_EQ(query.get("empty"), "");
  EXPECT_EQ(query.get("labelSelector"), "app=web,tier!=db");
  EXPECT_FALSE(query.has("c"));
  EXPECT_EQ(Query::parse(query.to_string())->to_string(), query.to_string());
}

TEST(Query, RefusesWhatReadersUnderstandDifferently) {
  for (const char* bad : {"a=1;b=2", "a=%", "a=%00", "a=%ff", "%zz=1"})
    EXPECT_TRUE(Query::parse(bad).is(Errc::invalid)) << bad;
  std::string many;
  for (std::size_t i = 0; i <= kMaxQueryParameters; ++i) many += "a=1&";
  EXPECT_TRUE(Query::parse(many).is(Errc::invalid));
}

TEST(Target, GivesDecodedSegments) {
  const auto target = Target::parse("/apis/longhorn.io/v1beta2/volumes/a%20b%C3%A9?watch=true&x=%2F").value();
  EXPECT_EQ(target.segments, (Strings{"apis", "longhorn.io", "v1beta2", "volumes", "a b\xc3\xa9"}));
  EXPECT_EQ(target.path(), "/apis/longhorn.io/v1beta2/volumes/a%20b%C3%A9");
  EXPECT_EQ(target.query_text(), "watch=true&x=%2F");
  EXPECT_EQ(target.query.get("x"), "/");
  EXPECT_FALSE(target.trailing_slash);
}

TEST(Target, TellsTrailingSlashesApart) {
  EXPECT_TRUE(Target::parse("/")->segments.empty());
  EXPECT_FALSE(Target::parse("/")->trailing_slash);
  EXPECT_TRUE(Target::parse("/api/")->trailing_slash);
  EXPECT_EQ(Target::parse("/api/")->segments, Strings{"api"});
  EXPECT_FALSE(Target::parse("/api")->trailing_slash);
  EXPECT_EQ(Target::parse("/?a=b")->query.get("a"), "b");
}

TEST(Target, RefusesPathTricks) {
  for (const std::string bad :
       {"",        "api",    "*",         "//",     "/a//b",   "//a",       "/a/..",    "/../a",
        "/.",      "/a/./b", "/%2e%2e/a", "/a/%2E", "/.%2e/a", "/a%2fb",    "/a%2Fb",   "/a%5cb",
        "/a\\b",   "/a%00b", "/a%0ab",    "/a%7f",  "/a%",     "/a%2",      "/%zz",     "/a%ff",
        "/%c0%af", "/a b",   "/a\tb",     "/a#b",   "/a?b#c",  "/\xc3\xa9", "/a?x=%zz", "/a/ b"})
    EXPECT_TRUE(Target::parse(bad).is(Errc::invalid)) << testing::PrintToString(bad);
  std::string deep;
  for (std::size_t i = 0; i <= kMaxPathSegments; ++i) deep += "/a";
  EXPECT_TRUE(Target::parse(deep).is(Errc::invalid));
}

TEST(Url, ParsesEndpoints) {
  const auto https = Url::parse("https://node-1.example:6443/base/").value();
  EXPECT_EQ(https.scheme, Url::Scheme::https);
  EXPECT_EQ(https.host, "node-1.example");
  EXPECT_EQ(https.port, 6443);
  EXPECT_EQ(https.path, "/base");
  EXPECT_EQ(https.to_string(), "https://node-1.example:6443/base");
  EXPECT_EQ(Url::parse("https://x")->port, 443);
  EXPECT_EQ(Url::parse("http://x")->port, 80);
  const auto ip6 = Url::parse("http://[::1]:80").value();
  EXPECT_EQ(ip6.host, "::1");
  EXPECT_EQ(ip6.authority(), "[::1]:80");
  EXPECT_EQ(Url::parse("http://[::1]")->port, 80);
  const auto socket = Url::parse("unix:///run/moor.sock").value();
  EXPECT_EQ(socket.scheme, Url::Scheme::unix);
  EXPECT_EQ(socket.host, "/run/moor.sock");
}

TEST(Url, RefusesWhatItDoesNotServe) {
  for (const char* bad :
       {"", "ftp://x", "x:80", "http://", "http://x:99999", "http://x:", "http://u@x", "http://x:1:2",
        "http://x?y", "http://x/a b", "unix:relative", "http://[::1", "http://x\r\n:80"})
    EXPECT_TRUE(Url::parse(bad).is(Errc::invalid)) << bad;
}

}  // namespace
}  // namespace moor::http
