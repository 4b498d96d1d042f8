// The replica directories of one machine, by path and by volume: what is asked at every answer to a client
// must not cost more the more volumes there are.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "block/core/replica.h"
#include "block/core/sim_disk.h"

namespace moor::sim {

class ReplicaProcess;

struct Directory {
  std::unique_ptr<block::SimDisk> disk;
  std::string volume;   // never changes
  std::string replica;  // the object's name, once known
  block::Floor floor;
  block::Generation generation = 0;
  std::uint64_t full_until = 0;           // the step at which its disk last had no room
  std::weak_ptr<ReplicaProcess> process;  // the last that was started on it
};

class Directories {
 public:
  using ByPath = std::map<std::string, Directory>;
  using Entry = ByPath::value_type;  // stays where it is until it is erased, also when it gets another name

  ByPath::iterator begin() { return by_path_.begin(); }
  ByPath::iterator end() { return by_path_.end(); }
  ByPath::const_iterator begin() const { return by_path_.begin(); }
  ByPath::const_iterator end() const { return by_path_.end(); }
  ByPath::iterator find(const std::string& path) { return by_path_.find(path); }
  Directory& at(const std::string& path) { return by_path_.at(path); }
  bool empty() const { return by_path_.empty(); }
  std::size_t size() const { return by_path_.size(); }

  const std::vector<const Entry*>& of(std::string_view volume) const {
    static const std::vector<const Entry*> none;
    const auto found = by_volume_.find(volume);
    return found == by_volume_.end() ? none : found->second;
  }

  void put(const std::string& path, Directory directory) {
    erase(path);
    const auto place = by_path_.emplace(path, std::move(directory)).first;
    by_volume_[place->second.volume].push_back(&*place);
  }
  void erase(const std::string& path) {
    const auto found = by_path_.find(path);
    if (found != by_path_.end()) erase(found);
  }
  template <class Which>
  void erase_if(Which which) {
    for (auto at = by_path_.begin(); at != by_path_.end();) at = which(at->first) ? erase(at) : std::next(at);
  }
  // False: it is not there. What was at the new path is gone.
  bool rename(const std::string& from, const std::string& to) {
    if (from == to) return by_path_.contains(from);
    if (!by_path_.contains(from)) return false;
    erase(to);
    auto node = by_path_.extract(from);
    node.key() = to;
    by_path_.insert(std::move(node));
    return true;
  }

 private:
  ByPath::iterator erase(ByPath::iterator place) {
    const auto siblings = by_volume_.find(place->second.volume);
    std::erase(siblings->second, &*place);
    if (siblings->second.empty()) by_volume_.erase(siblings);
    return by_path_.erase(place);
  }

  ByPath by_path_;
  std::map<std::string, std::vector<const Entry*>, std::less<>> by_volume_;
};

}  // namespace moor::sim
