#include "cli/dev_cluster.h"

#include <fmt/format.h>

#include "http/certificates.h"

namespace moor::cli {

Result<std::filesystem::path> dev_cluster_note(
    const std::function<std::optional<std::string>(const char*)>& environment) {
  if (const auto state = environment("XDG_STATE_HOME"); state && !state->empty())
    return std::filesystem::path(*state) / "mooring" / "dev";
  const auto home = environment("HOME");
  if (!home || home->empty()) return make_error(Errc::not_found, "$HOME is not set");
  return std::filesystem::path(*home) / ".local" / "state" / "mooring" / "dev";
}

std::optional<std::filesystem::path> read_dev_cluster(const std::filesystem::path& note) {
  auto text = http::read_small_file(note);
  if (!text) return std::nullopt;
  while (!text->empty() && text->back() == '\n') text->pop_back();
  if (text->empty()) return std::nullopt;
  return std::filesystem::path(*text);
}

Result<void> write_dev_cluster(const std::filesystem::path& note, const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(note.parent_path(), error);
  if (error)
    return make_error(Errc::internal,
                      fmt::format("make {}: {}", note.parent_path().string(), error.message()));
  return http::write_file_atomically(note, directory.string() + "\n", 0600);
}

void forget_dev_cluster(const std::filesystem::path& note, const std::filesystem::path& directory) {
  std::error_code ignored;
  if (read_dev_cluster(note) == directory) std::filesystem::remove(note, ignored);
}

}  // namespace moor::cli
