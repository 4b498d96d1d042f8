// The block device: fio on moorblk device (FUSE and loop) beside nbdfuse under a loop device and beside NBD
// itself, all three on one engine. CPU is that of the bridge, not of the engine behind it.
#include <fmt/format.h>
#include <poll.h>

#include <filesystem>

#include "base/assert.h"
#include "bench/block/sections.h"

namespace moor::bench {
namespace {

// A loop device over nbdfuse's file; both go with this.
class NbdFuse {
 public:
  NbdFuse(const std::string& directory, const std::string& uri) : directory_(directory) {
    std::filesystem::create_directories(directory);
    process_ = Process({"nbdfuse", directory, uri});
    wait_for_path(directory + "/nbd", process_, std::chrono::seconds(20));
    device_ = run_or_die({"losetup", "--find", "--show", "--direct-io=on", directory + "/nbd"});
    device_.pop_back();
  }
  ~NbdFuse() {
    run({"losetup", "--detach", device_});
    run({"fusermount3", "-u", directory_});
    process_.end();
  }
  NbdFuse(const NbdFuse&) = delete;
  NbdFuse& operator=(const NbdFuse&) = delete;
  const std::string& device() const { return device_; }
  Process take_process() { return std::move(process_); }
  void give_back(Process process) { process_ = std::move(process); }

 private:
  std::string directory_;
  std::string device_;
  Process process_;
};

}  // namespace

void bench_device(const BlockBench& bench, Report& report, Goals& goals) {
  const Place place{bench.ram, bench.sockets, bench.size, bench.moorblk};
  Process replica = serve_replica(place, "device-replica");
  Process engine = serve_engine(place, "device-engine", {"device-replica"});
  const std::string uri = nbd_uri(place, "device-engine");
  fill_target(uri, bench.size);

  const std::string link = place.sockets + "/device-link";
  Contender ours{"moorblk device", link, {}, {"device"}};
  ours.processes.push_back(
      Process({place.moorblk, "device", "--connect", "unix:" + place.sockets + "/device-engine.sock",
               "--path", link, "--control", place.sockets + "/device.ctl"},
              place.sockets + "/device.log"));
  wait_for_path(link, ours.processes.front(), std::chrono::seconds(20));
  NbdFuse nbdfuse(place.sockets + "/nbdfuse", uri);
  Contender peer{"nbdfuse + loop", nbdfuse.device(), {}, {"nbdfuse"}};
  peer.processes.push_back(nbdfuse.take_process());
  const Contender direct{"NBD", uri, {}, {}};

  for (const char* pattern : {"randwrite", "randread"}) {
    const Load load{fmt::format("device-4k-{}-qd32", pattern), pattern, 4096, 32, false};
    const Samples samples = interleave({&ours, &peer, &direct}, load, bench, report);
    // The design names no figure for the device; nbdfuse, which it replaces, is the one to reach.
    goals.add(fmt::format("{}: moorblk device ÷ nbdfuse + loop, IOPS", load.name),
              iops_ratio(samples, ours.name, peer.name), Goals::at_least(1));
    report.text(fmt::format("moorblk device ÷ NBD, IOPS: {:.2f}; nbdfuse + loop ÷ NBD: {:.2f}.",
                            iops_ratio(samples, ours.name, direct.name),
                            iops_ratio(samples, peer.name, direct.name)));
  }
  nbdfuse.give_back(std::move(peer.processes.front()));
  peer.processes.clear();
  ours.processes.front().end();
}

}  // namespace moor::bench
