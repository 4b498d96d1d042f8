// A cluster for the benchmark, in a directory of its own on a real disk, gone with it: `moord dev` with real
// block processes, or `moord server` with `moord hollow`.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace moor::bench {

struct ClusterOptions {
  std::string program;    // moord
  std::string directory;  // below which the cluster's own is made
  bool hollow = false;
  int nodes = 3;
};

class Cluster {
 public:
  // Returns when the server serves. Nodes come in by themselves.
  static Result<std::unique_ptr<Cluster>> start(const ClusterOptions& options);
  ~Cluster();  // stops everything and removes the directory
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  std::string kubeconfig() const { return (directory_ / "kubeconfig").string(); }
  // CPU time of the server process so far.
  Result<Duration> server_cpu() const;
  // Of the hollow agents; zero when the agents are real.
  Result<Duration> agents_cpu() const;

 private:
  explicit Cluster(ClusterOptions options) : options_(std::move(options)) {}
  Result<void> begin();
  Result<void> launch(const std::vector<std::string>& arguments, bool wait_ready);
  Result<pid_t> server_process() const;

  ClusterOptions options_;
  std::filesystem::path directory_;
  std::vector<pid_t> children_;
};

}  // namespace moor::bench
