// Three replica processes and engines over unix sockets, for tests that kill them. Names: replicas r0, r1, r2
// in `place`; the engine's socket and control socket are v.sock and v.ctl unless another name is given.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "support.h"

namespace moor::block::e2e {

class Cluster {
 public:
  static constexpr int kReplicas = 3;
  static std::string name(int replica) { return "r" + std::to_string(replica); }

  // `place`: where the replicas' directories are; by default beside the sockets.
  explicit Cluster(std::string size, std::string place = "")
      : size_(std::move(size)), place_(std::move(place)) {
    if (place_.empty()) place_ = sockets_.path();
  }

  // Makes three empty replicas; with a token they obey only engines that know it.
  void create(const std::string& token = "");
  void start_replica(int replica);
  void start_replicas();
  void kill_replica(int replica);
  void signal_replica(int replica, int number) const { replicas_[replica]->signal(number); }
  // SIGTERM to all of them; each must end cleanly.
  void stop_replicas();
  bool is_running(int replica) const { return replicas_[replica] != nullptr; }

  struct EngineOptions {
    std::string confirm = "auto";
    std::string where = "v";  // names of the sockets
    std::string id;           // by default e<epoch>
    std::string token;        // by default the one given to create()
    std::string start_wait = "5s";
    std::vector<std::string> more;  // further arguments
  };
  std::unique_ptr<Server> engine(int epoch, const std::vector<int>& members, EngineOptions options) const {
    auto made = begin_engine(epoch, members, std::move(options));
    made->await_ready();
    return made;
  }
  // Does not wait for it to serve.
  std::unique_ptr<Server> begin_engine(int epoch, const std::vector<int>& members,
                                       EngineOptions options) const;
  std::unique_ptr<Server> engine(int epoch, const std::vector<int>& members) const {
    return engine(epoch, members, EngineOptions());
  }

  std::string directory(int replica) const { return place_ + "/" + name(replica); }
  std::string address(int replica) const { return "unix:" + (sockets_ / name(replica)) + ".sock"; }
  std::string uri(const std::string& where = "v") const {
    return "nbd+unix:///v?socket=" + (sockets_ / where) + ".sock";
  }
  // A moorblk ctl command, up to its words.
  std::string control(const std::string& where = "v") const {
    return moorblk() + " ctl " + (sockets_ / where) + ".ctl ";
  }
  // The bytes of one replica, through an engine that has nothing else.
  std::string image_of(int replica, int epoch) const;
  void expect_equal_replicas(const std::vector<int>& members, int epoch) const;
  const TemporaryDirectory& files() const { return sockets_; }

 private:
  void begin_replica(int replica);

  std::string size_;
  std::string place_;
  std::string token_;
  TemporaryDirectory sockets_;
  std::array<std::unique_ptr<Server>, kReplicas> replicas_;
};

}  // namespace moor::block::e2e
