#include "control/controllers/controllers.h"

namespace moor::control {

std::vector<std::unique_ptr<Controller>> make_controllers() {
  std::vector<std::unique_ptr<Controller>> controllers;
  controllers.push_back(make_volume_attachment_controller());
  controllers.push_back(make_volume_controller());
  controllers.push_back(make_node_controller());
  controllers.push_back(make_setting_controller());
  return controllers;
}

}  // namespace moor::control
