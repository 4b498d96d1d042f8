// Where a controller's objects come from: the registry's cache in a server, a shelf of objects in a table
// test. Reads answer at once, and between two of a controller's reads nothing changes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "model/kind.h"
#include "registry/local_registry.h"
#include "registry/projection.h"

namespace moor::control {

using registry::JsonPtr;

class Source {
 public:
  using Visit = std::function<void(const JsonPtr&)>;

  virtual ~Source() = default;
  // Null: not there.
  virtual JsonPtr find(const model::KindInfo& kind, std::string_view space, std::string_view name) const = 0;
  // In order of names; `space` empty: all namespaces.
  virtual void for_each(const model::KindInfo& kind, std::string_view space, const Visit& visit) const = 0;
  // Objects with the label `longhornvolume: volume`, in order of names.
  virtual void of_volume(const model::KindInfo& kind, std::string_view space, std::string_view volume,
                         const Visit& visit) const = 0;
  // Objects with that value in one of the kind's selectable fields.
  virtual void by_field(const model::KindInfo& kind, std::string_view field, std::string_view value,
                        const Visit& visit) const = 0;
};

class RegistrySource final : public Source {
 public:
  explicit RegistrySource(const registry::LocalRegistry& registry) : registry_(registry) {}
  JsonPtr find(const model::KindInfo& kind, std::string_view space, std::string_view name) const override;
  void for_each(const model::KindInfo& kind, std::string_view space, const Visit& visit) const override;
  void of_volume(const model::KindInfo& kind, std::string_view space, std::string_view volume,
                 const Visit& visit) const override;
  void by_field(const model::KindInfo& kind, std::string_view field, std::string_view value,
                const Visit& visit) const override;

 private:
  const registry::LocalRegistry& registry_;
};

// Objects by hand. put() replaces what lies at that place.
class Shelf final : public Source {
 public:
  void put(const model::KindInfo& kind, Json object);
  void remove(const model::KindInfo& kind, std::string_view space, std::string_view name);
  JsonPtr find(const model::KindInfo& kind, std::string_view space, std::string_view name) const override;
  void for_each(const model::KindInfo& kind, std::string_view space, const Visit& visit) const override;
  void of_volume(const model::KindInfo& kind, std::string_view space, std::string_view volume,
                 const Visit& visit) const override;
  void by_field(const model::KindInfo& kind, std::string_view field, std::string_view value,
                const Visit& visit) const override;

 private:
  std::map<std::string, JsonPtr> objects_;  // by the registry's keys
  std::uint64_t version_ = 0;
};

}  // namespace moor::control
