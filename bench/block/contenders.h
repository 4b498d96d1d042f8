// Who is measured: each serves one volume over NBD on a unix socket, with all its processes counted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/common/process.h"

namespace moor::bench {

struct Contender {
  std::string name;
  std::string target;  // an NBD URI, or the path of a file or device
  std::vector<Process> processes;
  std::vector<std::string> roles;  // of the processes, in the same order

  Duration cpu() const;
};

struct Place {
  std::string files;    // directory on the disk that is measured
  std::string sockets;  // directory with a short name
  std::uint64_t size = 0;
  std::string moorblk;  // the program
};

// Our engine with three replicas, as anyone would start it by hand.
Contender start_engine(const Place& place);
// One of our replicas, spoken to directly.
Contender start_single(const Place& place);
enum class QuorumKind {
  plain,  // as QEMU comes, but without the page cache: threads, reads compared on all three
  tuned,  // io_uring, and reads from the first that answers (read-pattern=fifo): no comparison
};
Contender start_quorum(const Place& place, QuorumKind kind);
Contender start_qemu_nbd(const Place& place);
Contender start_nbdkit(const Place& place);
// No server at all: a file on the same file system.
Contender plain_file(const Place& place);

// A replica of ours with a name of its own, for the sections that need one; returns its process.
Process serve_replica(const Place& place, const std::string& name);
Process serve_engine(const Place& place, const std::string& name, const std::vector<std::string>& replicas);
std::string nbd_uri(const Place& place, const std::string& name, const std::string& export_name = "");

}  // namespace moor::bench
