// Where replicas go: nodes and disks with their room, tags and neighbours against what a volume asks for.
// Pure.
//
// The room that is promised on a disk is in the Ledger of its node. Whoever acts on a placement writes that
// Ledger in the same transaction, so that two decisions never promise the same room (S45).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attach/settings.h"
#include "model/longhorn/volume.h"

namespace moor::control {

// A disk as a place for a replica.
struct DiskFacts {
  std::string node;
  std::string name;
  std::string uuid;
  std::string path;
  std::string zone;
  std::vector<std::string> node_tags;
  std::vector<std::string> disk_tags;
  std::string objection;       // why it takes no replicas now, whoever asks; empty: it does
  std::int64_t maximum = 0;    // bytes in all
  std::int64_t reserved = 0;   // kept for others
  std::int64_t available = 0;  // free now
  std::int64_t promised = 0;   // to replicas, by the Ledger
};

// A disk that holds a replica of the volume already.
struct Taken {
  std::string node;
  std::string disk;
  std::string zone;
};

struct PlacementWish {
  std::int64_t size = 0;
  std::vector<std::string> node_selector;
  std::vector<std::string> disk_selector;
  bool share_node = false;  // soft anti-affinity: may share when there is no other
  bool share_zone = true;
  bool share_disk = true;
  std::string only_node;  // strict-local: this one or none
};
PlacementWish wish_of(const model::longhorn::VolumeSpec& volume, const attach::Settings& settings);

// How much more the disk may be promised.
std::int64_t room_on(const DiskFacts& disk, const attach::Settings& settings);

struct Placement {
  const DiskFacts* disk = nullptr;  // null: refused
  // Why not. Neither set: there is no disk at all.
  bool insufficient_capacity = false;
  bool no_schedulable_disk = false;
  std::int64_t largest_free = 0;
  std::string detail;  // "3 disks: 1 lacks tag ssd, 2 not ready"
};

// The best disk: one in another zone, on another node, on another disk than `taken`; then the roomiest; then
// by name. Deterministic.
Placement place(const PlacementWish& wish, const std::vector<DiskFacts>& disks,
                const std::vector<Taken>& taken, const attach::Settings& settings);

}  // namespace moor::control
