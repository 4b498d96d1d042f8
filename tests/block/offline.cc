#include "offline.h"

#include <filesystem>
#include <map>

#include "block/core/replica.h"
#include "block/store/directory.h"

namespace moor::block::e2e {

namespace {

// One replica on plain file access; each call runs to its end.
class Offline final : public ReplicaSink {
 public:
  static Result<std::unique_ptr<Offline>> open(const std::string& path) {
    TRY(auto directory, Directory::open(path));
    auto made = std::unique_ptr<Offline>(new Offline(std::move(directory)));
    made->replica_.open();
    made->pump();
    if (!made->outcome_.ok()) return made->outcome_.error();
    return made;
  }
  const ReplicaStore& store() const { return replica_.store(); }

  Result<std::vector<Tag>> read_all() {
    constexpr std::uint64_t kStep = 1u << 20;
    const std::uint64_t size = replica_.answer().size;
    std::vector<Tag> tags;
    replica_.plain(1);
    for (std::uint64_t at = 0; at < size; at += kStep) {
      PeerRequest request;
      request.op = PeerOp::read;
      request.offset = at;
      request.length = static_cast<std::uint32_t>(std::min(kStep, size - at));
      TRY_VOID(call(1, request));
      for (std::uint64_t i = 0; i < request.length; i += kModelSector) {
        tags.push_back(tag_of(data_.data() + i, (at + i) / kModelSector));
      }
    }
    return tags;
  }
  Result<void> revert(const std::string& snapshot) {
    Hello hello;
    hello.epoch = 1u << 30;
    hello.engine = "offline";
    hello.session = 1;
    replica_.hello(2, hello);
    pump();
    PeerRequest request;
    request.op = PeerOp::snapshot_revert;
    request.snapshot.name = snapshot;
    request.snapshot.head_id = "offline";
    TRY_VOID(call(2, request));
    replica_.closed(2);
    pump();
    return {};
  }

 private:
  explicit Offline(std::unique_ptr<Directory> directory)
      : directory_(std::move(directory)), disk_(*directory_), replica_(disk_, pool_, *this) {}

  void pump() {
    do {
      replica_.run();
    } while (disk_.run_one());
    replica_.run();
  }
  Result<void> call(PeerId peer, const PeerRequest& request) {
    reply_ = {};
    replica_.request(peer, request);
    pump();
    if (reply_.error != 0) return make_error(Errc::internal, reply_.message);
    return {};
  }
  void opened(const Result<void>& outcome) override { outcome_ = outcome; }
  void accept(PeerId, const HelloAnswer&) override {}
  void refuse(PeerId, PeerRefusal, const std::string&) override {}
  void reply(PeerId, PeerReply reply, Slice data) override {
    reply_ = std::move(reply);
    data_.assign(data.span().begin(), data.span().end());
  }
  void close(PeerId, PeerRefusal, const std::string&) override {}
  void stopped(const Result<void>&) override {}

  std::unique_ptr<Directory> directory_;
  PlainDisk disk_;
  BufferPool pool_;
  Result<void> outcome_;
  PeerReply reply_;
  std::vector<std::byte> data_;
  Replica replica_;
};

}  // namespace

Result<std::vector<Tag>> read_offline(const std::string& directory) {
  TRY(const auto offline, Offline::open(directory));
  return offline->read_all();
}

Result<std::vector<Tag>> read_snapshot_offline(const std::string& directory, const std::string& snapshot,
                                               const std::string& scratch) {
  namespace fs = std::filesystem;
  fs::remove_all(scratch);
  fs::copy(directory, scratch, fs::copy_options::recursive);
  Result<std::vector<Tag>> tags = make_error(Errc::internal, "not read");
  {
    TRY(const auto offline, Offline::open(scratch));
    TRY_VOID(offline->revert(snapshot));
    tags = offline->read_all();
  }
  fs::remove_all(scratch);
  return tags;
}

Result<std::vector<std::string>> snapshots_offline(const std::string& directory) {
  TRY(const auto offline, Offline::open(directory));
  std::vector<std::string> names;
  for (const LayerRecord& record : offline->store().meta().layers) {
    if (!record.layer.removed) names.push_back(record.layer.snapshot);
  }
  return names;
}

}  // namespace moor::block::e2e
