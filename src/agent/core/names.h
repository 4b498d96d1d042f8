// Names that follow from objects: of processes, directories and sockets. Pure; the same object always gives
// the same name, so that an agent finds again what one before it has made.
#pragma once

#include <string>

#include "base/result.h"
#include "model/longhorn/engine.h"
#include "model/longhorn/replica.h"

namespace moor::agent {

// e-6f9619ff-8b86: short, because a socket's path has room for 107 bytes, and by uid, because a new object of
// an old name is another one.
std::string engine_key(const std::string& uid);
std::string replica_key(const std::string& uid);
std::string device_key(const std::string& engine_uid, std::uint64_t number);

// The name of a volume's device: the volume's, and for volumes of other namespaces than the usual one that
// too, with a character that no name has.
std::string device_name(const std::string& space, const std::string& volume);

// <volume>-<first 8 of the volume's uid>-r-N below DISK/replicas (docs/decisions/0200): what the spec says,
// else from the owner. invalid: neither is there, or the name would lead out of the directory.
Result<std::string> replica_directory(const model::longhorn::Replica& replica);

// The address of a member as moorblk takes it; maps hold HOST:PORT, with or without tcp: or tcp:// before it.
std::string member_address(const std::string& address);

}  // namespace moor::agent
