// All controllers. To add one: a file here, a line in controllers.cc, a test beside it.
#pragma once

#include <memory>
#include <vector>

#include "control/runtime/controller.h"

namespace moor::control {

std::unique_ptr<Controller> make_volume_attachment_controller();
std::unique_ptr<Controller> make_volume_controller();
std::unique_ptr<Controller> make_node_controller();
std::unique_ptr<Controller> make_setting_controller();

std::vector<std::unique_ptr<Controller>> make_controllers();

}  // namespace moor::control
