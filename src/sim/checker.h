// A checker holds reality against one rule of the list of invariants. It is made anew for every run, may
// remember what it saw, changes nothing, and says at most once per run what was broken and how. To add one: a
// function `invariant_sNN_what_holds` that makes it, in a file of check/, and a line in check/checkers.cc.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/reality.h"

namespace moor::sim {

class Checker {
 public:
  using Sink = std::function<void(std::string_view rule, std::string message)>;

  explicit Checker(std::string rule) : rule_(std::move(rule)) {}
  virtual ~Checker() = default;
  const std::string& rule() const { return rule_; }  // "S2"
  void report_to(Sink sink) { sink_ = std::move(sink); }

  // After every step in which something that can be seen has changed.
  virtual void at_step(const Reality&, const Step&) {}
  // When a transaction has been applied; the reality already shows it.
  virtual void on_commit(const Reality&, const Commit&) {}
  // When a controller has decided: for models that judge decisions.
  virtual void on_decision(const Reality&, const Decision&) {}
  // When a watch of a server has told what it saw.
  virtual void on_watch(const Reality&, const Watched&) {}
  // When a client's request was answered.
  virtual void on_answer(const Reality&, const ClientAnswer&) {}
  // Faults have stopped and everything had time to come to rest (or it did not: that is for L* to say).
  virtual void after_healing(const Reality&) {}

 protected:
  // The sentence names the objects, what was expected and what was found.
  void violated(std::string message) const {
    if (sink_) sink_(rule_, std::move(message));
  }

 private:
  std::string rule_;
  Sink sink_;
};

struct CheckerEntry {
  std::string_view name;  // of the function
  std::unique_ptr<Checker> (*make)();
};

// All of them, in the order in which they are asked.
const std::vector<CheckerEntry>& checkers();

}  // namespace moor::sim
