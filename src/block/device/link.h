// The stable name of a device: a symbolic link that others rely on.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace moor::block::device {

// Appears whole, or replaces a link that was there. already_exists: something else has that name.
Result<void> make_link(const std::string& path, const std::string& target);
// Only a link, and, if targets are given, only one to them: another process may have made a new one.
void remove_link(const std::string& path, const std::vector<std::string>& targets);
// Empty: there is no link.
std::string read_link(const std::string& path);

}  // namespace moor::block::device
