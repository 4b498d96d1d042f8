// A view of the volumes that a list with selectors would give, kept as a client without any of our caches
// keeps it: one list, then the lines of a watch, and a new list when the server says 410. It checks what the
// server promises on the way: no line comes twice, none is left out, and what a selector lets in or out is
// ADDED or DELETED.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/loop.h"
#include "http/client.h"

namespace moor::doors::e2e {

struct Selectors {
  std::string labels;
  std::string fields;
};

class WatchView {
 public:
  WatchView(Loop& loop, http::Client& client, Selectors selectors)
      : loop_(loop), client_(client), selectors_(std::move(selectors)) {}

  // Until cancelled.
  Task<Result<void>> run(CancelToken token);

  const std::map<std::string, std::string>& versions() const { return versions_; }  // name → resourceVersion
  const std::vector<std::string>& broken_promises() const { return broken_; }
  int lists() const { return lists_; }
  int expired() const { return expired_; }
  int entered() const { return entered_; }
  int left() const { return left_; }
  const Selectors& selectors() const { return selectors_; }

 private:
  Task<Result<void>> list(CancelToken token);
  Task<Result<void>> follow(CancelToken token);
  Result<void> take(std::string_view line);
  std::string target(const std::string& more) const;

  Loop& loop_;
  http::Client& client_;
  Selectors selectors_;
  std::map<std::string, std::string> versions_;
  std::string version_;  // to go on from; empty: list first
  std::vector<std::string> broken_;
  int lists_ = 0;
  int expired_ = 0;
  int entered_ = 0;
  int left_ = 0;
};

inline constexpr const char* kInstances = "/apis/mooring.io/v1alpha1/namespaces/longhorn-system/instances";

}  // namespace moor::doors::e2e
