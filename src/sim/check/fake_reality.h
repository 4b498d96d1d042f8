// A reality made by hand, for tests of checkers: objects as JSON text, processes as plain records.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "model/kinds.h"
#include "registry/keys.h"
#include "sim/check/checks.h"

namespace moor::sim {

class FakeReality final : public Reality {
 public:
  TimePoint now() const override { return at; }
  std::uint64_t step() const override { return number; }
  bool is_healing() const override { return healing; }
  std::vector<NodeSight> nodes() const override { return node_sights; }
  std::vector<ServerSight> servers() const override { return {}; }
  std::vector<EngineSight> engines() const override { return engine_sights; }
  std::vector<ReplicaSight> replicas() const override { return replica_sights; }
  std::vector<DeviceSight> devices() const override { return device_sights; }
  JsonPtr find(const model::KindInfo& kind, std::string_view space, std::string_view name) const override {
    const auto found = objects.find(registry::key_of(kind, space, name));
    return found == objects.end() ? nullptr : found->second;
  }
  void for_each(const model::KindInfo& kind,
                const std::function<void(const JsonPtr&)>& visit) const override {
    const std::string prefix = registry::prefix_of(kind, "");
    for (auto one = objects.lower_bound(prefix); one != objects.end() && one->first.starts_with(prefix);
         ++one)
      visit(one->second);
  }
  const std::map<std::string, VolumeHistory>& histories() const override { return volume_histories; }
  std::optional<std::vector<std::byte>> bytes_of(const ReplicaSight& replica) const override {
    return std::vector<std::byte>(16, static_cast<std::byte>(contents.at(replica.name)));
  }

  TimePoint at;
  std::uint64_t number = 0;
  bool healing = false;
  std::vector<NodeSight> node_sights;
  std::vector<EngineSight> engine_sights;
  std::vector<ReplicaSight> replica_sights;
  std::vector<DeviceSight> device_sights;
  std::map<std::string, JsonPtr> objects;
  std::map<std::string, VolumeHistory> volume_histories;
  std::map<std::string, int> contents;  // replica → the byte it is full of
};

// One checker, and what happens before its eyes.
class CheckerTest : public testing::Test {
 protected:
  void watch(std::unique_ptr<Checker> checker) {
    checker_ = std::move(checker);
    checker_->report_to([this](std::string_view rule, std::string message) {
      said_.push_back(std::string(rule) + ": " + std::move(message));
    });
  }

  // Every object is written in one transaction; `text` has apiVersion and kind. What was there before is its
  // before.
  void write(const std::vector<std::string>& texts, std::string through = "server-1") {
    Commit commit{++reality_.number, reality_.at, std::move(through), {}};
    for (const std::string& text : texts) commit.changes.push_back(put(text));
    checker_->on_commit(reality_, commit);
  }
  void remove(const std::string& text) {
    Change change = put(text);
    reality_.objects.erase(registry::key_of(*change.kind, change.space, change.name));
    change.before = std::exchange(change.after, nullptr);
    Commit commit{++reality_.number, reality_.at, "server-1", {change}};
    checker_->on_commit(reality_, commit);
  }
  void step() {
    Step step{++reality_.number, reality_.at};
    step.processes = step.engines = step.replicas = step.floors = true;
    for (const EngineSight& one : reality_.engine_sights) step.touch(one.volume);
    for (const ReplicaSight& one : reality_.replica_sights) step.touch(one.volume);
    checker_->at_step(reality_, step);
  }
  void heal() { checker_->after_healing(reality_); }
  void answer(ClientOp op, std::uint64_t epoch) {
    ClientAnswer answer;
    answer.volume = "v";
    answer.node = "node-1";
    answer.op = op;
    answer.epoch = epoch;
    answer.submitted = ++reality_.number;
    ++reality_.number;
    checker_->on_answer(reality_, answer);
  }
  // A watch of all objects of that kind, which goes on after a revision, is told of these.
  void tell_watch(const model::KindInfo& kind, store::Revision after, std::vector<store::Revision> seen) {
    const auto selection = registry::Selection::make({&kind, "", "", ""}, {}, {});
    MOOR_ASSERT(selection.ok(), "everything can be selected");
    const store::Revision upto = seen.empty() ? after : seen.back();
    checker_->on_watch(reality_, {&*selection, after, upto, std::move(seen)});
  }
  // The attachment controller of server-1 has looked at volume v.
  void decide(const control::View& view, const control::Plan& plan) {
    const control::Key key{"longhorn-system", "v"};
    checker_->on_decision(reality_, {"server-1", "volume-attachment", &key, &view, &plan});
  }
  void later(Duration duration) { reality_.at = reality_.at + duration; }

  void expect_fine() const { EXPECT_TRUE(said_.empty()) << said_.front(); }
  // Says all of these words, under that rule.
  void expect_said(std::string_view rule, const std::vector<std::string>& words) const {
    ASSERT_FALSE(said_.empty()) << "nothing was noticed";
    EXPECT_TRUE(said_.front().starts_with(std::string(rule) + ": ")) << said_.front();
    for (const std::string& word : words)
      EXPECT_NE(said_.front().find(word), std::string::npos) << said_.front();
  }

  FakeReality reality_;
  std::vector<std::string> said_;

 private:
  Change put(const std::string& text) {
    auto object = parse_json(text);
    MOOR_ASSERT(object.ok(), "a test's object is no JSON: {}", text);
    const model::KindInfo* kind = model::find_kind_by_name(object->get_string("apiVersion").value_or(""),
                                                           object->get_string("kind").value_or(""));
    MOOR_ASSERT(kind != nullptr, "a test's object has no kind: {}", text);
    Json& metadata = (*object)["metadata"];
    Change change;
    change.kind = kind;
    change.name = metadata.get_string("name").value_or("");
    change.revision = ++revision_;
    if (kind->namespaced) {
      if (!metadata.contains("namespace")) metadata.set("namespace", "longhorn-system");
      change.space = metadata.get_string("namespace").value_or("");
    }
    if (!metadata.contains("resourceVersion")) metadata.set("resourceVersion", std::to_string(revision_));
    const std::string key = registry::key_of(*kind, change.space, change.name);
    change.before = reality_.objects.contains(key) ? reality_.objects[key] : nullptr;
    change.after = reality_.objects[key] = std::make_shared<const Json>(*std::move(object));
    return change;
  }

  std::unique_ptr<Checker> checker_;
  store::Revision revision_ = 10;
};

}  // namespace moor::sim
