// The familiar REST, /v1: volumes, their attachments, and the actions attach and detach. It turns calls into
// tickets; which tickets a call may write is attach/requests.h, what becomes of them the controllers'
// business.
//
// A second attach of a migratable volume is answered when the volume is ready there, or with 504 and what it
// waits for when that takes longer than `longest_wait`; the ticket stays, so the same call again goes on
// waiting. All other calls are answered with the volume as it is.
//
// One thread, that of the executor; everything in Env outlives the door.
#pragma once

#include <string>

#include "base/executor.h"
#include "doors/auth/authorizer.h"
#include "doors/front/door.h"
#include "doors/front/metrics.h"
#include "doors/longhorn/resources.h"
#include "doors/longhorn/route.h"
#include "registry/registry.h"

namespace moor::doors::longhorn {

struct LonghornDoorOptions {
  // Below the deadline of the server's lane for writes, so that the answer can still be sent.
  Duration longest_wait = std::chrono::seconds(30);
};

class LonghornDoor final : public Door {
 public:
  struct Env {
    Executor& executor;
    registry::Registry& registry;
    Metrics& metrics;
  };
  explicit LonghornDoor(Env env, LonghornDoorOptions options = {}) : env_(env), options_(options) {}

  http::Lane classify(const http::Request& request) const override;
  Task<http::Response> handle(http::Request request, Caller caller) override;
  http::Response refuse(int status, const std::string& message, int retry_after_seconds) const override;

 private:
  // One request on its way; it lives in handle()'s frame while the calls below run.
  struct Call {
    http::Request request;
    Caller caller;
    Route route;
    std::string verb;      // for the audit line and the figures
    std::string resource;  // volumes, volumeattachments; empty: neither
    std::string base;
    std::string effect;
  };
  using Reply = registry::Answer<Json>;

  Task<Reply> answer(Call& call);
  Task<Reply> act(Call& call);
  Task<Reply> list_volumes(Call& call);
  Task<Reply> list_attachments(Call& call);
  Task<Reply> show_volume(Call& call);
  Task<Reply> show_attachment(Call& call);
  Task<registry::Answer<VolumeParts>> read_volume(std::string name);
  // Plans and writes until the plan was made on what is there. Gives the ticket to wait for, or "".
  Task<registry::Answer<std::string>> write_tickets(Call& call, std::string action);
  Task<registry::Answer<attach::TicketChange>> plan(const Call& call, const std::string& action,
                                                    const model::longhorn::Volume& volume,
                                                    const model::longhorn::VolumeAttachment& book);
  Task<registry::Answer<std::optional<attach::NodeFacts>>> node_facts(std::string name);
  Task<registry::Answer<void>> wait_satisfied(Call& call, std::string ticket);
  registry::Answer<void> check_access(const Call& call, std::string_view verb,
                                      std::string_view resource) const;
  void note(const Call& call, int code, TimePoint began) const;

  Env env_;
  LonghornDoorOptions options_;
};

}  // namespace moor::doors::longhorn
