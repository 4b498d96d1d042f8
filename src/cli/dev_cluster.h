// Where the dev cluster of this user is: `moord dev` notes its directory, `moor` reads it when nothing else
// says which cluster is meant. The note stays when the cluster stops, so that moor can say how to start it
// again; `moord dev --down` removes it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace moor::cli {

// $XDG_STATE_HOME/mooring/dev, else ~/.local/state/mooring/dev. Errc::not_found without a home.
Result<std::filesystem::path> dev_cluster_note(
    const std::function<std::optional<std::string>(const char*)>& environment);

std::optional<std::filesystem::path> read_dev_cluster(const std::filesystem::path& note);
Result<void> write_dev_cluster(const std::filesystem::path& note, const std::filesystem::path& directory);
// Only when it names this directory: another cluster may have been started since.
void forget_dev_cluster(const std::filesystem::path& note, const std::filesystem::path& directory);

}  // namespace moor::cli
