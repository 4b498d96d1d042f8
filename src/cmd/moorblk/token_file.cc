#include "cmd/moorblk/token_file.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace moor::cmd {

Result<std::string> read_token(const std::string& path) {
  std::ifstream file(path);
  std::string token{std::istreambuf_iterator<char>(file), {}};
  if (!file) return make_error(Errc::not_found, fmt::format("cannot read the token file {}", path));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' '))
    token.pop_back();
  if (token.empty()) return make_error(Errc::invalid, fmt::format("the token file {} is empty", path));
  return token;
}

}  // namespace moor::cmd
