// Those who create volumes and add and remove tickets: a client of the API with an administrator's rights, on
// a machine that never fails. Each wish is tried until it is granted or makes no sense any more.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "sim/registry_link.h"
#include "sim/schedule.h"

namespace moor::sim {

class People {
 public:
  People(Context& context, RegistryLink::Servers& servers);
  ~People();
  void wish(const Wish& wish, std::uint64_t volume_bytes);
  std::size_t under_way() const { return group_.running(); }
  // Somebody was told that it has counted on; so often that was said of this volume.
  std::function<void(const std::string& volume, std::int64_t times)> on_counted;

 private:
  Json ticket_of(const Wish& wish) const;
  Task<Result<void>> create(Wish wish, std::uint64_t bytes);
  Task<Result<void>> set(std::string setting, std::string value);
  Task<bool> is_leaving(std::string volume);
  Task<Result<void>> remove(std::string volume);
  Task<Result<void>> count(std::string volume);
  Task<Result<void>> patch(std::string volume, std::string ticket, std::optional<Json> value);

  std::chrono::microseconds wall_offset_{0};
  SimProcess process_;
  Caller caller_;
  RegistryLink registry_;
  std::map<std::string, std::int64_t> counted_;  // by volume
  std::set<std::string> deleted_;                // volumes that nobody wants any more
  TaskGroup group_;
};

std::string volume_name(std::uint32_t number);
// How far the clerks have come, as the object says it.
std::int64_t count_of(const Json& volume);

}  // namespace moor::sim
