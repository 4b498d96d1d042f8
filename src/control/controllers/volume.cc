// The volume controller: from where a volume is wanted (spec.nodeID) and what its processes report to what
// they shall do next. The table of the attach room says which step; the files beside this one do it.
#include <algorithm>

#include "attach/moves.h"
#include "attach/table.h"
#include "base/plant.h"
#include "control/controllers/controllers.h"
#include "control/controllers/volume_steps.h"

namespace moor::control {
namespace {

using attach::Action;

// More than any row needs in one go: creating → detaching → detached → attaching.
constexpr int kMostSteps = 5;

void act(Family& family, Action action) {
  switch (action) {
    case Action::open:
      // The attachment rules take a faulted volume off its node first.
      if (family.volume->status.robustness != lh::Robustness::faulted) open(family);
      return;
    case Action::close: return close(family);
    case Action::none:
    case Action::create:       // done before any step
    case Action::finish_move:  // the status says it all
      return;
  }
}

void apply(Family& family, const attach::Step& step) {
  family.set(&lh::VolumeStatus::state, step.state);
  family.set(&lh::VolumeStatus::current_node_id, step.current_node_id);
  family.set(&lh::VolumeStatus::current_migration_node_id, step.current_migration_node_id);
}

void follow_table(Family& family) {
  for (int i = 0; i < kMostSteps; ++i) {
    const attach::Position position = attach::position_of(*family.volume);
    const attach::Step first = attach::next_step(position, progress_of(family));
    act(family, first.action);
    // What the action found done at once needs no second look.
    apply(family, attach::next_step(position, progress_of(family)));
    if (attach::position_of(*family.volume) == position) return;
  }
}

Plan reconcile_deletion(Family& family) {
  const bool whole = family.grant && family.engine;
  if (whole) {
    follow_table(family);
    if (!progress_of(family).stopped) return family.finish();
  } else {
    family.set(&lh::VolumeStatus::state, lh::VolumeState::deleting);
  }
  // Stopped and proven: first that is written, then things go.
  Plan written = Family(family).finish();
  if (!written.writes.empty()) return written;
  remove_all(family);
  return family.finish();
}

// Before anything is made for the volume, nothing of it can be left behind by its deletion.
Plan take_charge(const Object<lh::Volume>& volume) {
  Plan plan;
  lh::Volume next = *volume;
  next.metadata.finalizers.emplace_back(lh::kFinalizer);
  plan.update(volume, next);
  return plan;
}

// One look at a volume that has its objects. True: a move decided.
bool look_at(Family& family) {
  if (family.volume->status.restarts.count > 0 && restarts_in_a_row(family) == 0)
    family.status().restarts = {};
  lift_fault(family);
  const bool moves = follow_move(family);
  if (!moves) follow_table(family);
  clean_up_after_moves(family);
  tell_robustness(family, progress_of(family));
  return moves;
}

// A second look at the objects as the plan leaves them, which is cheaper than one at what was stored: when it
// finds nothing to add, the plan's own coming need not wake anybody. Moves go step by step, places are given
// out against what others take, and what is made or removed is known only when it is: they are looked at
// again.
void settle(Family& family, Plan& plan) {
  const bool updates = std::all_of(plan.writes.begin(), plan.writes.end(), [](const auto& write) {
    return write.type == registry::Mutation::Type::update;
  });
  if (plan.writes.empty() || !updates || family.other || !family.ledgers.empty()) return;
  const int edits = family.edits();
  family.plan = {};
  const bool moves = look_at(family);
  plan.settled = !moves && family.edits() == edits && family.plan.writes.empty();
  if (family.plan.again_after) plan.again(*family.plan.again_after);
}

// What tickets ask for comes by way of the volume's spec. Only moves, and restarts that a new ticket
// forgives, look at the tickets themselves.
bool minds_tickets(const Family& family) {
  const lh::VolumeStatus& status = family.volume->status;
  return status.restarts.count > 0 || status.move || !status.current_migration_node_id.empty() ||
         attach::is_move_asked(*family.volume) || family.other;
}

class VolumeController final : public Controller {
 public:
  std::string_view name() const override { return "volume"; }

  std::vector<Wake> wakes() const override {
    return {{.kind = &kind_of<lh::Volume>(), .key = key_by_name, .begins = true},
            {.kind = &kind_of<lh::VolumeAttachment>(), .key = key_by_name, .digest = digest_life},
            {&kind_of<mr::Grant>(), key_by_name},
            {&kind_of<lh::Engine>(), key_by_volume_label},
            {&kind_of<lh::Replica>(), key_by_volume_label},
            {.kind = &kind_of<lh::Snapshot>(), .key = key_by_volume_label, .known_only = true},
            {&kind_of<lh::ShareManager>(), key_by_name}};
  }

  std::string_view successor() const override { return "volume-attachment"; }

  Plan reconcile(const View& view, const Key& key) const override {
    const auto volume = view.find<lh::Volume>(key.space, key.name);
    if (!volume) return {};
    Family family(view, volume);
    if (volume->metadata.is_being_deleted()) return reconcile_deletion(family);
    if (!volume->metadata.has_finalizer(lh::kFinalizer) && !MOOR_PLANT("control-volume-finalizer-lost"))
      return take_charge(volume);
    create_missing(family);
    place_replicas(family);
    const bool moves = look_at(family);
    Plan plan = family.finish();
    if (!moves) settle(family, plan);
    if (minds_tickets(family)) view.mind<lh::VolumeAttachment>(key.space, key.name, digest_wish);
    plan.unfinished = is_under_way(*family.volume);
    return plan;
  }
};

}  // namespace

std::unique_ptr<Controller> make_volume_controller() {
  return std::make_unique<VolumeController>();
}

}  // namespace moor::control
