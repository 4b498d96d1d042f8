// Which objects a list or a watch is about: the place in the store, the terms that find them by index, and
// the test that each of them must pass. Immutable once made; pure.
#pragma once

#include <string>
#include <vector>

#include "registry/registry.h"
#include "store/cache/object.h"

namespace moor::registry {

class Selection {
 public:
  // BadRequest for a field that this kind cannot be selected by.
  static Answer<Selection> make(const ResourceName& what, LabelSelector labels, FieldSelector fields);

  bool matches(const Json& object) const;
  // The same for an object of the cache, by its key and terms: nothing is decoded, but for fields that have
  // no index. False for one that cannot be read.
  bool matches(const store::CachedObject& object) const;
  // A prefix that ends in '/', or one whole key.
  const std::string& place() const { return place_; }
  bool is_one_key() const { return place_.back() != '/'; }
  // Every selected object has all of them: any one may be looked up.
  const std::vector<store::Term>& terms() const { return terms_; }
  // Everything at the place is selected.
  bool is_everything() const { return labels_.empty() && fields_.empty(); }
  const model::KindInfo& kind() const { return *kind_; }

 private:
  const model::KindInfo* kind_ = nullptr;
  LabelSelector labels_;
  FieldSelector fields_;
  std::string place_;
  std::vector<store::Term> terms_;
};

}  // namespace moor::registry
