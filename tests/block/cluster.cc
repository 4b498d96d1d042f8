#include "cluster.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

namespace moor::block::e2e {

void Cluster::create(const std::string& token) {
  std::string option;
  if (!token.empty()) {
    token_ = sockets_ / "token";
    std::ofstream(token_) << token;
    option = " --token-file " + token_;
  }
  for (int i = 0; i < kReplicas; ++i) {
    const Output made = run(moorblk() + " replica create " + directory(i) + " --size " + size_ + option);
    ASSERT_EQ(made.code, 0) << made.text;
  }
}

void Cluster::begin_replica(int replica) {
  replicas_[replica] =
      std::make_unique<Server>(std::vector<std::string>{moorblk(), "--log-level", "off", "replica", "serve",
                                                        directory(replica), "--listen", address(replica),
                                                        "--control", (sockets_ / name(replica)) + ".ctl"},
                               false);
}

void Cluster::start_replica(int replica) {
  begin_replica(replica);
  replicas_[replica]->await_ready();
  ASSERT_FALSE(replicas_[replica]->ready().empty()) << name(replica) << " does not start";
}

void Cluster::start_replicas() {
  for (int i = 0; i < kReplicas; ++i) {
    if (!is_running(i)) begin_replica(i);
  }
  for (int i = 0; i < kReplicas; ++i) {
    replicas_[i]->await_ready();
    ASSERT_FALSE(replicas_[i]->ready().empty()) << name(i) << " does not start";
  }
}

void Cluster::kill_replica(int replica) {
  replicas_[replica]->signal(SIGKILL);
  replicas_[replica]->wait();
  replicas_[replica].reset();
}

void Cluster::stop_replicas() {
  for (auto& replica : replicas_) {
    if (replica != nullptr) replica->signal(SIGTERM);
  }
  for (auto& replica : replicas_) {
    if (replica == nullptr) continue;
    EXPECT_EQ(replica->wait(), 0);
    replica.reset();
  }
}

std::unique_ptr<Server> Cluster::begin_engine(int epoch, const std::vector<int>& members,
                                              EngineOptions options) const {
  if (options.id.empty()) options.id = "e" + std::to_string(epoch);
  if (options.token.empty()) options.token = token_;
  std::vector<std::string> command{moorblk(),      "--log-level",
                                   "off",          "engine",
                                   "--volume",     "v",
                                   "--epoch",      std::to_string(epoch),
                                   "--engine-id",  options.id,
                                   "--listen",     "unix:" + (sockets_ / options.where) + ".sock",
                                   "--control",    (sockets_ / options.where) + ".ctl",
                                   "--confirm",    options.confirm,
                                   "--start-wait", options.start_wait};
  if (!options.token.empty()) command.insert(command.end(), {"--token-file", options.token});
  for (const int i : members) command.insert(command.end(), {"--replica", address(i) + ",name=" + name(i)});
  command.insert(command.end(), options.more.begin(), options.more.end());
  return std::make_unique<Server>(std::move(command), false);
}

std::string Cluster::image_of(int replica, int epoch) const {
  EngineOptions options;
  options.where = "alone";
  auto alone = engine(epoch, {replica}, options);
  EXPECT_FALSE(alone->ready().empty());
  const std::string path = sockets_ / (name(replica) + ".img");
  const Output copied = run("nbdcopy \"" + uri("alone") + "\" " + path);
  EXPECT_EQ(copied.code, 0) << copied.text;
  alone->signal(SIGTERM);
  EXPECT_EQ(alone->wait(), 0);
  return path;
}

void Cluster::expect_equal_replicas(const std::vector<int>& members, int epoch) const {
  std::vector<std::string> images;
  for (const int i : members) images.push_back(image_of(i, epoch++));
  for (std::size_t i = 1; i < images.size(); ++i) {
    const Output compared = run("cmp " + images[0] + " " + images[i]);
    EXPECT_EQ(compared.code, 0) << compared.text;
  }
}

}  // namespace moor::block::e2e
