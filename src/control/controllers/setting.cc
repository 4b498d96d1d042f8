// Says of each setting whether its value is in force. Controllers read settings afresh at every look, so a
// valid value is in force as soon as it is stored.
#include "model/longhorn/setting.h"
#include "attach/settings.h"
#include "control/controllers/controllers.h"

namespace moor::control {
namespace {

using model::longhorn::Setting;

class SettingController final : public Controller {
 public:
  std::string_view name() const override { return "setting"; }
  std::vector<Wake> wakes() const override { return {{&kind_of<Setting>(), key_by_name}}; }

  Plan reconcile(const View& view, const Key& key) const override {
    Plan plan;
    const auto setting = view.find<Setting>(key.space, key.name);
    if (!setting || setting->metadata.is_being_deleted()) return plan;
    const bool applied = key.space == model::longhorn::kDefaultNamespace &&
                         attach::check_setting(key.name, setting->value).empty();
    if (setting->status.applied == applied) return plan;
    Setting next = *setting;
    next.status.applied = applied;
    plan.update_status(setting, next);
    return plan;
  }
};

}  // namespace

std::unique_ptr<Controller> make_setting_controller() {
  return std::make_unique<SettingController>();
}

}  // namespace moor::control
