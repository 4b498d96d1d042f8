// Bearer tokens in a file, one line each, in the form that Kubernetes reads: token,user,uid,"group1,group2".
// Lines that begin with # and empty lines are skipped. A file that cannot be read or has a bad line leaves
// the tokens of the last good reading in force and is logged: a typing error must not lock everybody out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace moor::doors {

inline constexpr std::size_t kMaxTokens = 4096;
inline constexpr std::size_t kShortestToken = 16;

struct Token {
  std::string secret;
  std::string user;
  std::vector<std::string> groups;
};

// Errc::invalid names the line.
Result<std::vector<Token>> parse_tokens(std::string_view text);

class TokenFile {
 public:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}
  const std::vector<Token>& tokens(TimePoint now);

 private:
  struct Seen {
    std::int64_t modified_ns = 0;
    std::int64_t size = -1;
    std::uint64_t inode = 0;
    bool operator==(const Seen&) const = default;
  };
  void look();

  std::string path_;
  std::vector<Token> tokens_;
  std::optional<TimePoint> looked_;
  Seen seen_;
};

}  // namespace moor::doors
