// The control protocol's side of a device.
#include <fmt/format.h>

#include "block/device/device.h"

namespace moor::block::device {

void Device::look(io::Responder responder) {
  if (probe_ != nullptr) return responder.fail(make_error(Errc::conflict, "already looks"));
  // Shared because a std::function is copied; there is one user.
  auto shared = std::make_shared<io::Responder>(std::move(responder));
  probe_ = std::make_unique<Probe>(loop_, pool_, options_.engine, options_.export_name,
                                   [this, shared](Result<nbd::RemoteExport> remote) {
                                     const auto self = std::move(probe_);
                                     if (!remote) return shared->fail(remote.error());
                                     step(bridge::Looked{*std::move(remote)});
                                     shared->reply(status());
                                   });
}

void Device::add_control(io::ControlServer& control) {
  control_ = &control;
  control.on("status", [this](const Json&, io::Responder responder) { responder.reply(status()); });
  control.on("stats", [this](const Json&, io::Responder responder) { responder.reply(stats()); });
  control.on("refresh", [this](const Json&, io::Responder responder) { look(std::move(responder)); });
  control.on("shutdown", [this](const Json& arguments, io::Responder responder) {
    const Json* force = arguments.find("force");
    if (force != nullptr && force->is_bool() && force->as_bool()) {
      responder.reply(Json::object());
      return remove_by_force();
    }
    auto shared = std::make_shared<io::Responder>(std::move(responder));  // copied with the function
    remove_cleanly([shared](std::optional<Error> refusal) {
      if (refusal) return shared->fail(*refusal);
      shared->reply(Json::object());
    });
  });
}

Json Device::status() const {
  const auto state = [this]() -> const char* {
    if (phase_ >= Phase::detaching) return "removing";
    if (bridge_.state() == bridge::State::ended) return "ended";
    if (phase_ != Phase::serving) return "starting";
    return bridge_.state() == bridge::State::up ? "serving" : "waiting";
  };
  return Json::object(
      {{"state", state()},
       {"method", to_string(options_.method)},
       {"path", options_.path},
       {"device", !device_.empty()   ? device_
                  : file_ != nullptr ? file_->path()
                                     : std::string()},
       {"size", bridge_.remote().size},
       {"read_only", bridge_.remote().has(nbd::kReadOnly)},
       {"engine", options_.engine.text},
       {"export", options_.export_name},
       {"export_id", bridge_.remote().export_id},
       {"connected", bridge_.state() == bridge::State::up},
       {"open_requests", bridge_.open()},
       {"standby", over_standby_},
       {"pages_dropped", pages_dropped_},
       {"message", bridge_.state() == bridge::State::ended ? bridge_.why_ended() : last_problem_}});
}

Json Device::stats() const {
  const bridge::Statistics& count = bridge_.statistics();
  return Json::object({{"reads", count.reads},
                       {"writes", count.writes},
                       {"flushes", count.flushes},
                       {"zeroes", count.zeroes},
                       {"read_bytes", count.read_bytes},
                       {"written_bytes", count.written_bytes},
                       {"failed", count.failed},
                       {"resent", count.resent},
                       {"waited_for_overlap", count.waited},
                       {"connections", count.connections},
                       {"turns", loop_.statistics().turns}});
}

void Device::publish_state() {
  if (control_ != nullptr) control_->publish("state", status());
}

}  // namespace moor::block::device
