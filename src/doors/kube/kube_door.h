// The Kubernetes door: REST and watch as kubectl and client-go speak them, over a Registry. It translates and
// decides nothing; who may do what is doors/auth's table, what is right for an object is the registry's.
//
// One thread, that of the executor. The registry, the metrics and the random source outlive the door; the
// server that feeds it is stopped before the door goes (open watches use it).
#pragma once

#include <memory>
#include <string>

#include "base/executor.h"
#include "base/random.h"
#include "doors/auth/authorizer.h"
#include "doors/front/door.h"
#include "doors/front/metrics.h"
#include "doors/kube/documents.h"
#include "doors/kube/render.h"
#include "doors/kube/route.h"
#include "registry/registry.h"

namespace moor::doors::kube {

struct KubeDoorOptions {
  std::string server_address;  // host:port that clients reach us at, for discovery
  Duration bookmark_every = std::chrono::minutes(1);
  // A watch without timeoutSeconds ends somewhere between this and twice this, so that a thousand of them do
  // not come back at the same moment.
  Duration shortest_watch = std::chrono::minutes(30);
};

class KubeDoor final : public Door {
 public:
  struct Env {
    Executor& executor;
    registry::Registry& registry;
    Random& random;
    Metrics& metrics;
  };
  KubeDoor(Env env, KubeDoorOptions options);
  ~KubeDoor() override;  // asserts that no watch is open

  http::Lane classify(const http::Request& request) const override;
  bool is_open(const http::Request& request) const override;
  Task<http::Response> handle(http::Request request, Caller caller) override;
  http::Response refuse(int status, const std::string& message, int retry_after_seconds) const override;

  std::size_t watches() const { return watches_; }

 private:
  // One request on its way. It lives in handle()'s frame while the calls below run, so they borrow it.
  struct Call {
    http::Request request;
    Caller caller;
    Route route;
    std::string verb;
    FormWanted form;
    std::string name;  // for the audit line: of what was written
    bool dry_run = false;
  };
  using Reply = registry::Answer<http::Response>;

  Task<Reply> answer(Call& call);
  Task<Reply> answer_objects(Call& call);
  Task<Reply> answer_self_review(Call& call);
  Task<Reply> get(Call& call);
  Task<Reply> list(Call& call);
  Task<Reply> watch(Call& call);
  Task<Reply> create(Call& call);
  Task<Reply> update(Call& call);
  Task<Reply> patch(Call& call);
  Task<Reply> remove(Call& call);
  Task<Reply> remove_collection(Call& call);
  registry::Answer<void> check_access(const Call& call) const;
  Rendering rendering_of(const Call& call) const;
  Reply written(Call& call, registry::Written written, bool created) const;
  void note(const Call& call, int code, TimePoint began) const;

  Env env_;
  KubeDoorOptions options_;
  Documents documents_;
  EventTexts texts_;
  std::size_t watches_ = 0;
};

}  // namespace moor::doors::kube
