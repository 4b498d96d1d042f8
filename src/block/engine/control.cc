// The engine's operations of the control protocol on its socket; what they do is in core/engine_control.cc.
#include "base/clock.h"
#include "base/timestamp.h"
#include "block/engine/host.h"

namespace moor::block {

engine::Control::Driver EngineHost::control_driver() {
  engine::Control::Driver driver;
  driver.step = [this](engine::Event event) { step(std::move(event)); };
  driver.publish = [this](std::string_view event, const Json& data) {
    if (control_ != nullptr) control_->publish(event, data);
  };
  driver.know_address = [this](const std::string& member, const std::string& address) -> Result<void> {
    TRY(addresses_[member], io::parse_address(address));
    return {};
  };
  driver.connections = [this] { return front_.connections(); };
  driver.peer_address = [this] { return peer_address_; };
  driver.timestamp = [] { return format_timestamp(RealClock().wall()); };
  driver.more_stats = [this](Json& stats) { stats.set("loop_turns", loop_.statistics().turns); };
  return driver;
}

void EngineHost::add_control(io::ControlServer& control) {
  control_ = &control;
  for (const std::string& op : engine::Control::operations()) {
    control.on(op, [this, op](const Json& arguments, io::Responder responder) {
      // std::function wants to be copied; the responder cannot be, so it is shared with the one copy that is
      // kept.
      auto shared = std::make_shared<io::Responder>(std::move(responder));
      operations_.call(op, arguments, [shared](Result<Json> result) { shared->finish(std::move(result)); });
    });
  }
}

}  // namespace moor::block
