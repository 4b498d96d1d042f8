// The fuzz targets under any compiler: a corpus of honest and crooked messages, mutated by a seed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "http_fuzz.h"

namespace moor::http::fuzz {
namespace {

using Corpus = std::vector<std::string>;

const Corpus kRequests = {
    "GET /api/v1/nodes?limit=500&watch=true HTTP/1.1\r\nHost: h\r\nAccept: application/json\r\n\r\n",
    "POST /apis/longhorn.io/v1beta2/volumes HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET / "
    "HTTP/1.1\r\n",
    "PUT /a%20b/%C3%A9?x=%2F HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
    "chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: v\r\n\r\nX",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "GET http://h/x HTTP/1.1\r\nHost: h\r\nConnection: close, x\r\nExpect: 100-continue\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
};
const Corpus kResponses = {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "HTTP/1.0 404 Not Found\r\nConnection: close\r\n\r\nnone",
    "HTTP/1.1 204 \r\n\r\n",
};
const Corpus kUrls = {
    "/api/v1/namespaces/default/pods/a%20b?labelSelector=a%3Db&x=1&x=2",
    "/a/%2e%2e/b",
    "/%c0%af",
    "//a",
    "/",
    "https://[::1]:6443/base",
    "http://host:80",
    "unix:/run/x.sock",
    "/a?b=c;d",
    "/a+b?c=d+e",
};

std::string mutate(std::string text, const Corpus& corpus, Random& random) {
  static constexpr std::string_view kPieces[] = {"\r\n",
                                                 "\n",
                                                 "\r",
                                                 " ",
                                                 "\t",
                                                 ":",
                                                 "%",
                                                 "%2f",
                                                 "%00",
                                                 "chunked",
                                                 "Content-Length: 1\r\n",
                                                 "Transfer-Encoding: chunked\r\n",
                                                 "0\r\n\r\n",
                                                 "ffffffffffffffff",
                                                 "-",
                                                 ";",
                                                 "/..",
                                                 "\xff",
                                                 "?",
                                                 "#"};
  const std::uint64_t changes = random.below(4);
  for (std::uint64_t i = 0; i < changes; ++i) {
    const std::size_t at = random.below(text.size() + 1);
    switch (random.below(5)) {
      case 0: text.insert(at, kPieces[random.below(std::size(kPieces))]); break;
      case 1: text.erase(at, random.below(8)); break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      case 3: text.resize(at); break;
      default: text.insert(at, corpus[random.below(corpus.size())]); break;
    }
  }
  return text;
}

void run(const Corpus& corpus, void (*target)(std::string_view, Reached&)) {
  RealRandom real;
  const std::uint64_t seed = real.next();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  SeededRandom random(seed);
  Reached reached;
  for (const auto& text : corpus) target(text, reached);
  for (int i = 0; i < 30'000; ++i)
    target(mutate(corpus[random.below(corpus.size())], corpus, random), reached);
  EXPECT_GT(reached.accepted, 1000U);
  EXPECT_GT(reached.refused, 1000U);
  EXPECT_GT(reached.bodies, 1000U);
}

TEST(FuzzRegression, RequestsKeepTheirPromises) {
  run(kRequests, try_request);
}
TEST(FuzzRegression, ResponsesKeepTheirPromises) {
  run(kResponses, try_response);
}
TEST(FuzzRegression, UrlsKeepTheirPromises) {
  run(kUrls, try_url);
}

}  // namespace
}  // namespace moor::http::fuzz
