// One network namespace per node, joined by a bridge: `moord dev --netns`. The host is .254, node-N is .N of
// one /24. Networks stay when `moord dev` stops, because block processes live on in them; going down removes
// them. Needs root and iproute2. Calls block: at start and end.
#pragma once

#include <string>

#include "base/result.h"
#include "cmd/moord/dev_place.h"

namespace moor::cmd {

class DevNetwork {
 public:
  // Makes what is missing.
  static Result<DevNetwork> make(const DevPlace& place, int nodes);
  // Removes all of this place's; quiet when there are none.
  static Result<void> remove(const DevPlace& place);

  std::string host_address() const { return prefix_ + ".254"; }
  std::string node_address(int number) const { return prefix_ + "." + std::to_string(number); }
  std::string namespace_of(int number) const { return "moor-" + tag_ + "-" + std::to_string(number); }

 private:
  DevNetwork(std::string tag, std::string prefix) : tag_(std::move(tag)), prefix_(std::move(prefix)) {}
  Result<void> add_node(int number) const;
  std::string bridge() const { return "moor" + tag_; }

  std::string tag_;
  std::string prefix_;  // 10.77.H
};

}  // namespace moor::cmd
