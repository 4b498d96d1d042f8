// The garbage collector: objects whose owners are gone go too; foreground deletion waits for those that block
// it; orphaning takes the owner's name out of its dependents. Owners are known by uid, found by an index, so
// the work is in proportion to what is deleted, never to what is stored.
#pragma once

#include "registry/housekeeper.h"

namespace moor::registry {

class GarbageCollector final : public Housekeeper {
 public:
  using Housekeeper::Housekeeper;

 protected:
  void notice(const store::Change& change) override;
  Task<Answer<void>> look_at(std::string key) override;
  std::string_view name() const override { return "garbage collector"; }

 private:
  Task<Answer<void>> orphan_dependents(std::string key, JsonPtr owner);
  Task<Answer<void>> finish_foreground(std::string key, JsonPtr owner);
  Task<Answer<void>> judge_dependent(std::string key, JsonPtr object);
  Task<Answer<void>> drop_finalizer(std::string key, JsonPtr object, std::string finalizer);
  std::vector<std::string> dependents_of(const Json& owner) const;
  bool waits_for(const std::string& waiting, const std::string& target) const;
};

}  // namespace moor::registry
