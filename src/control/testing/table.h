// Tables of controllers: given these objects, these writes. Objects are Json on a Shelf; a plan is shown as
// lines of text.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "control/runtime/controller.h"
#include "model/kinds.h"
#include "registry/patch.h"
#include "registry/prepare.h"

namespace moor::control {

class Table : public testing::Test {
 protected:
  // `text` has apiVersion and kind; the namespace is longhorn-system where the kind has one.
  void given(std::string_view text) {
    auto object = parse_json(text);
    ASSERT_TRUE(object.ok()) << text;
    const model::KindInfo* kind = model::find_kind_by_name(object->get_string("apiVersion").value_or(""),
                                                           object->get_string("kind").value_or(""));
    ASSERT_NE(kind, nullptr) << text;
    if (kind->namespaced && !(*object)["metadata"].contains("namespace"))
      (*object)["metadata"].set("namespace", "longhorn-system");
    shelf_.put(*kind, std::move(*object));
  }
  Plan plan_of(const Controller& controller, const std::string& name) {
    const View view(shelf_, decoder_, {now_, TimePoint{monotonic_}, &heartbeats_});
    Plan plan = controller.reconcile(view, {"longhorn-system", name});
    reads_ = view.reads();
    return plan;
  }
  // "update Volume v1 /status {…}"
  static std::vector<std::string> writes(const Plan& plan) {
    std::vector<std::string> lines;
    for (const registry::Mutation& write : plan.writes) {
      const char* verb = write.type == registry::Mutation::Type::create   ? "create"
                         : write.type == registry::Mutation::Type::update ? "update"
                                                                          : "remove";
      const std::string name =
          write.what.name.empty() ? registry::metadata_text(write.object, "name") : write.what.name;
      lines.push_back(fmt::format("{} {} {}{}", verb, write.what.kind->kind, name,
                                  write.what.subresource.empty() ? "" : "/" + write.what.subresource));
    }
    return lines;
  }
  // As if the plan had been written.
  void apply(const Plan& plan) {
    for (const registry::Mutation& write : plan.writes) {
      if (write.type == registry::Mutation::Type::remove) {
        shelf_.remove(*write.what.kind, write.what.space, write.what.name);
        continue;
      }
      Json object = write.object;
      const JsonPtr before = write.type == registry::Mutation::Type::update
                                 ? shelf_.find(*write.what.kind, write.what.space, write.what.name)
                                 : nullptr;
      if (before != nullptr) carry_the_rest(*before, write, object);
      if (write.what.kind->namespaced) object["metadata"].set("namespace", write.what.space);
      shelf_.put(*write.what.kind, std::move(object));
    }
  }
  // An update speaks of the status, of the spec, or of all but the status, and the registry carries over what
  // it does not speak of.
  static void carry_the_rest(const Json& before, const registry::Mutation& write, Json& object) {
    const bool status = write.what.subresource == "status";
    if (status || write.spec_only) {
      const char* part = status ? "status" : "spec";
      Json said = object[part];
      object = before;
      object.set(part, std::move(said));
    } else if (const Json* kept = before.find("status"); kept != nullptr && write.what.kind->has_status) {
      object.set("status", *kept);
    }
  }
  // Changes one object by hand: a merge patch of the whole.
  void change(std::string_view resource, const std::string& name, std::string_view patch) {
    const auto dot = resource.find('.');
    const model::KindInfo* kind = nullptr;
    for (const model::KindInfo* one : model::all_kinds())
      if (one->plural == resource.substr(0, dot) && one->group == resource.substr(dot + 1)) kind = one;
    ASSERT_NE(kind, nullptr) << resource;
    const JsonPtr found = shelf_.find(*kind, kind->namespaced ? "longhorn-system" : "", name);
    ASSERT_NE(found, nullptr) << name;
    const auto parsed = parse_json(patch);
    ASSERT_TRUE(parsed.ok()) << patch;
    shelf_.put(*kind, registry::merge_patch(*found, *parsed));
  }
  // The object that the plan leaves at this place; null when it does not write it.
  static const Json* written(const Plan& plan, std::string_view kind, std::string_view name) {
    for (const registry::Mutation& write : plan.writes) {
      const std::string is =
          write.what.name.empty() ? registry::metadata_text(write.object, "name") : write.what.name;
      if (write.what.kind->kind == kind && is == name) return &write.object;
    }
    return nullptr;
  }
  static std::string text_at(const Json* object, std::initializer_list<std::string_view> path) {
    const Json* found = object == nullptr ? nullptr : object->find_path(path);
    return found == nullptr ? "-" : found->is_string() ? std::string(found->as_string()) : to_text(*found);
  }

  Shelf shelf_;
  Decoder decoder_;
  Reads reads_;
  model::Time now_{std::chrono::seconds(1'700'000'000)};
  Duration monotonic_ = std::chrono::seconds(1000);
  std::map<std::string, TimePoint> heartbeats_;
};

}  // namespace moor::control
