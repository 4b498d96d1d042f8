// A registry on a store in memory, on an executor that runs when told to: what every test of this room
// starts from. The namespaces `default` and `longhorn-system` are there.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/task_group.h"
#include "model/kinds.h"
#include "registry/local_registry.h"
#include "registry/namespaces.h"
#include "registry/prepare.h"
#include "store/memory/memory_store.h"

namespace moor::registry {

inline constexpr const char* kLeases = "leases.coordination.k8s.io";  // a kind without rules of its own

inline Json json(std::string_view text) {
  auto parsed = parse_json(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : Json();
}

class World : public testing::Test {
 protected:
  explicit World(LocalRegistryOptions options = {})
      : store_(store::make_memory_store(executor_)), registry_(executor_, *store_, random_, options) {
    group_.spawn(registry_.run(group_.token()));
    EXPECT_TRUE(wait(ensure_namespaces(registry_)).ok());
  }
  ~World() override {
    group_.cancel();
    EXPECT_TRUE(wait(group_.join()).ok());
  }

  template <class T>
  T wait(Task<T> task) {
    return block_on(executor_, std::move(task));
  }

  static const model::KindInfo& kind(std::string_view name) {
    for (const model::KindInfo* one : model::all_kinds())
      if (one->qualified_resource() == name) return *one;
    ADD_FAILURE() << "no kind " << name;
    return *model::all_kinds()[0];
  }
  // "volumes.longhorn.io/v1": in longhorn-system, pods and the like in default.
  static ResourceName at(std::string_view resource, std::string_view name = {}, std::string_view sub = {}) {
    const model::KindInfo& found = kind(resource);
    const std::string space = !found.namespaced              ? ""
                              : found.group == "longhorn.io" ? "longhorn-system"
                                                             : "default";
    return {&found, space, std::string(name), std::string(sub)};
  }
  static WriteOptions by(std::string manager = "tester") {
    WriteOptions options;
    options.field_manager = std::move(manager);
    return options;
  }

  Answer<Written> create(const ResourceName& where, std::string_view text, WriteOptions options = by()) {
    return wait(registry_.create(where, json(text), std::move(options)));
  }
  Answer<Written> merge(const ResourceName& what, std::string_view patch, WriteOptions options = by()) {
    return wait(registry_.patch(what, PatchType::merge, json(patch), std::move(options)));
  }
  Answer<Written> apply(const ResourceName& what, std::string_view config, WriteOptions options = by()) {
    return wait(registry_.patch(what, PatchType::apply, json(config), std::move(options)));
  }
  Answer<Json> get(const ResourceName& what) { return wait(registry_.get(what, "")); }
  Answer<Deleted> remove(const ResourceName& what, DeleteOptions options = {}) {
    return wait(registry_.remove(what, std::move(options)));
  }
  // A small object that every kind of test can use: a Lease has no required fields.
  Json lease(const std::string& name, std::string_view more = "{}") {
    Json object = Json::object({{"metadata", Json::object({{"name", name}})}});
    const Json extra = json(more);
    for (std::size_t i = 0; i < extra.size(); ++i) {
      if (extra.key_at(i) != "metadata") {
        object.set(extra.key_at(i), extra.value_at(i));
        continue;
      }
      for (std::size_t k = 0; k < extra.value_at(i).size(); ++k)
        object["metadata"].set(extra.value_at(i).key_at(k), extra.value_at(i).value_at(k));
    }
    auto created = wait(registry_.create(at("leases.coordination.k8s.io"), object, by()));
    EXPECT_TRUE(created.ok()) << (created ? "" : created.error().error.message);
    return created ? created->object : Json();
  }
  std::vector<std::string> names(const ResourceName& what, std::string_view labels = {},
                                 std::string_view fields = {}) {
    ListOptions options;
    options.labels = *LabelSelector::parse(labels);
    options.fields = *FieldSelector::parse(fields);
    const auto listed = wait(registry_.list(what, options));
    EXPECT_TRUE(listed.ok()) << (listed ? "" : listed.error().error.message);
    std::vector<std::string> result;
    for (const JsonPtr& object : listed ? listed->items : std::vector<Item>())
      result.push_back(metadata_text(*object, "name"));
    return result;
  }
  store::Revision revision() { return wait(store_->status())->revision; }

  ManualExecutor executor_;
  SeededRandom random_{7};
  std::unique_ptr<store::Store> store_;
  LocalRegistry registry_;
  TaskGroup group_{executor_};
};

// Why it was refused, for matchers: "NotFound: pods \"x\" not found"; "" when it was not.
template <class T>
std::string refusal_text(const Answer<T>& answer) {
  return answer.ok() ? "" : answer.error().reason + ": " + answer.error().error.message;
}

}  // namespace moor::registry
