#include "doors/auth/token_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>

#include "base/log.h"
#include "http/certificates.h"

namespace moor::doors {
namespace {

// Fields separated by commas; one in double quotes may contain commas. Absent when a quote stays open.
std::optional<std::vector<std::string>> split_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  if (quoted) return std::nullopt;
  return fields;
}

std::vector<std::string> split_groups(std::string_view text) {
  std::vector<std::string> groups;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (comma != 0) groups.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return groups;
}

}  // namespace

Result<std::vector<Token>> parse_tokens(std::string_view text) {
  std::vector<Token> tokens;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    auto fields = split_fields(line);
    // The message never quotes the line: it holds a secret.
    if (!fields || fields->size() < 2 || (*fields)[1].empty())
      return make_error(Errc::invalid, fmt::format("line {}: want token,user,uid,\"groups\"", number));
    if ((*fields)[0].size() < kShortestToken)
      return make_error(Errc::invalid,
                        fmt::format("line {}: a token has at least {} characters", number, kShortestToken));
    if (tokens.size() == kMaxTokens)
      return make_error(Errc::invalid, fmt::format("more than {} tokens", kMaxTokens));
    tokens.push_back({std::move((*fields)[0]), std::move((*fields)[1]),
                      fields->size() > 3 ? split_groups((*fields)[3]) : std::vector<std::string>()});
  }
  return tokens;
}

const std::vector<Token>& TokenFile::tokens(TimePoint now) {
  if (!looked_ || now - *looked_ >= std::chrono::seconds(1)) {
    looked_ = now;
    look();
  }
  return tokens_;
}

void TokenFile::look() {
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) {
    // No file means no tokens: taking it away is how they are revoked.
    tokens_.clear();
    seen_ = {};
    return;
  }
  const Seen now{status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec, status.st_size,
                 status.st_ino};
  if (now == seen_) return;
  auto text = http::read_small_file(path_);
  Result<std::vector<Token>> read = text ? parse_tokens(*text) : text.error();
  if (!read) {
    log_error("token file not taken over", {{"file", path_}, {"error", read.error()}});
    return;
  }
  tokens_ = std::move(*read);
  seen_ = now;
}

}  // namespace moor::doors
