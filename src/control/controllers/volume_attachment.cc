// The attachment controller: gathers what is known about one volume into a Book, asks the attachment rules,
// and writes what they say. It decides nothing itself.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "attach/decide.h"
#include "attach/moves.h"
#include "attach/tickets.h"
#include "base/plant.h"
#include "control/controllers/controllers.h"
#include "control/controllers/family.h"
#include "model/core/node.h"
#include "model/kinds.h"

namespace moor::control {
namespace {

using attach::Book;
using attach::OwnerState;

std::uint64_t digest_text(const Json* part) {
  return part == nullptr ? 0 : std::hash<std::string>()(to_text(*part)) | 1;
}

std::uint64_t digest_holder(const Json* grant) {
  if (grant == nullptr) return 0;
  std::uint64_t digest = digest_text(grant->find_path({"spec", "active"})) + 2;
  digest = digest * 31 + digest_text(grant->find_path({"spec", "standby"}));
  // A move begins only while no member is being rebuilt.
  const Json* members = grant->find_path({"spec", "members"});
  for (std::size_t i = 0; members != nullptr && members->is_object() && i < members->size(); ++i)
    if (members->value_at(i).is_string() && members->value_at(i).as_string() == "WO")
      digest += 7919 * (i + 1);
  return digest;
}

std::uint64_t digest_engine_conditions(const Json* engine) {
  if (engine == nullptr) return 0;
  const Json* status = engine->find("status");
  const bool reachable = status != nullptr && status->get_int64("port").value_or(0) > 0;
  const bool leaving = engine->find_path({"metadata", "deletionTimestamp"}) != nullptr;
  return digest_text(engine->find_path({"status", "conditions"})) * 4 + (reachable ? 2 : 0) +
         (leaving ? 1 : 0) + 5;
}

std::uint64_t digest_cordon(const Json* node) {
  const Json* spec = node == nullptr ? nullptr : node->find("spec");
  return spec == nullptr ? 0 : spec->get_bool("unschedulable").value_or(false) ? 2 : 1;
}

std::uint64_t digest_uid(const Json* object) {
  return object == nullptr ? 0 : digest_text(object->find_path({"metadata", "uid"}));
}

// Volumes other than this one that are on the node or on their way there. The Ledger guards the count: every
// decision that adds to it writes the Ledger.
std::int64_t others_on(const View& view, const Key& key, const std::string& node) {
  std::set<Key> volumes;
  for (const char* field : {"spec.nodeID", "spec.migrationNodeID", "status.currentNodeID"})
    for (const auto& volume : view.by_field<lh::Volume>(field, node))
      volumes.insert({volume->metadata.space, volume->metadata.name});
  volumes.erase(key);
  return static_cast<std::int64_t>(volumes.size());
}

void look_up_node(const View& view, const Key& key, const std::string& name, Book& book) {
  if (name.empty() || book.nodes.contains(name)) return;
  const NodeLife life = node_life(view, name);
  if (!life.exists) return;
  const auto machine = view.find<model::core::Node>("", name, digest_cordon);
  attach::NodeFacts facts;
  facts.agent_reachable = life.ready || life.reason != "HeartbeatMissed";
  facts.ready = life.ready || !facts.agent_reachable;
  facts.cordoned = machine && machine->spec.unschedulable;
  facts.since = life.since;
  facts.reason = life.message;
  if (book.settings.node_attach_limit() > 0) facts.attachments = others_on(view, key, name);
  book.nodes.emplace(name, std::move(facts));
}

void look_up_nodes(const View& view, const Key& key, Book& book) {
  std::set<std::string> names{book.volume.spec.node_id, book.volume.spec.migration_node_id,
                              book.volume.status.current_node_id};
  for (const auto& [id, ticket] : book.attachment.spec.attachment_tickets) names.insert(ticket.node_id);
  for (const std::string& name : names) look_up_node(view, key, name, book);
}

void look_up_owners(const View& view, Book& book) {
  for (const auto& [id, ticket] : book.attachment.spec.attachment_tickets) {
    if (!ticket.owner) continue;
    const model::ObjectReference& owner = *ticket.owner;
    const model::KindInfo* kind = model::find_kind_by_name(owner.api_version, owner.kind);
    if (kind == nullptr) continue;  // not ours to judge
    const JsonPtr found = view.find_any(*kind, kind->namespaced ? owner.space : "", owner.name, digest_uid);
    const Json* uid = found == nullptr ? nullptr : found->find_path({"metadata", "uid"});
    const bool same =
        uid != nullptr && (owner.uid.empty() || (uid->is_string() && uid->as_string() == owner.uid));
    book.owners[attach::owner_key(ticket)] = same ? OwnerState::alive : OwnerState::gone;
  }
}

attach::EngineFacts engine_facts(const Book& book) {
  attach::EngineFacts facts;
  const lh::RestartStatus& restarts = book.volume.status.restarts;
  const bool serves = book.volume.status.robustness == lh::Robustness::healthy ||
                      book.volume.status.robustness == lh::Robustness::degraded;
  facts.restarts = restarts.count;
  facts.failing = restarts.count > 0 && !serves;
  facts.exhausted = facts.failing && restarts.count >= book.settings.engine_restart_limit();
  facts.error = restarts.cause;
  facts.since = restarts.last_at;
  return facts;
}

// Who holds the Grant, and whether its device is in anybody's hands.
void look_up_holder(const View& view, const Key& key, Book& book) {
  if (const auto grant = view.find<mr::Grant>(key.space, key.name, digest_holder)) book.grant = *grant;
  if (book.grant && book.grant->spec.active) look_up_node(view, key, book.grant->spec.active->node, book);
  const bool swapped = book.grant && book.grant->spec.active &&
                       book.grant->spec.active->engine == second_engine_name(key.name);
  const auto engine = view.find<lh::Engine>(
      key.space, swapped ? second_engine_name(key.name) : engine_name(key.name), digest_engine_conditions);
  const model::Condition* in_use =
      engine ? model::find_condition(engine->status.conditions, "DeviceInUse") : nullptr;
  if (in_use != nullptr && in_use->status == model::ConditionStatus::yes) {
    book.engine.device_in_use_by = in_use->message;
    book.engine.device_in_use_since = model::parse_rfc3339(in_use->last_transition_time);
  }
}

std::uint64_t digest_chain(const Json* engine) {
  return engine == nullptr ? 0 : digest_text(engine->find_path({"status", "snapshots"})) + 2;
}

// Snapshots by name with their parents: what both engines of a move must agree on (S24).
std::map<std::string, std::string> chain_of(const lh::Engine& engine) {
  std::map<std::string, std::string> chain;
  for (const auto& [name, info] : engine.status.snapshots) chain[name] = info.parent;
  return chain;
}

attach::MoveFacts move_facts(const View& view, const Key& key, const Book& book) {
  attach::MoveFacts facts;
  const std::string first = engine_name(key.name);
  const std::string second = second_engine_name(key.name);
  const bool asked = attach::is_move_asked(book.volume);
  if (!asked && book.attachment.spec.attachment_tickets.size() < 2) return facts;
  const auto& active = book.grant ? book.grant->spec.active : std::nullopt;
  const bool swapped = active && active->engine == second;
  if (!asked) {
    const auto engine = view.find<lh::Engine>(key.space, swapped ? second : first, digest_engine_conditions);
    const auto other = view.find<lh::Engine>(key.space, swapped ? first : second, digest_engine_conditions);
    facts.source_has_no_peer = engine && engine->status.port == 0;
    if (other) facts.slot_taken_on = other->spec.node_id.empty() ? key.name : other->spec.node_id;
    return facts;
  }
  const auto left = view.find<lh::Engine>(key.space, first, digest_chain);
  const auto right = view.find<lh::Engine>(key.space, second, digest_chain);
  const bool both =
      left && right && left->status.snapshots_reported_at && right->status.snapshots_reported_at;
  if (both && chain_of(*left) != chain_of(*right))
    facts.chains_differ = "the snapshot chains of the two engines differ";
  const auto& move = book.volume.status.move;
  if (move && move->failures > 0) facts.destination_error = move->message;
  return facts;
}

attach::StorageFacts storage_facts(const View& view, const Book& book) {
  attach::StorageFacts facts;
  const model::Condition* scheduled =
      model::find_condition(book.volume.status.conditions, lh::kVolumeScheduled);
  const bool refused = scheduled != nullptr && scheduled->status == model::ConditionStatus::no;
  const bool degraded_is_fine =
      book.settings.allow_degraded_creation() && book.grant && !book.grant->spec.members.empty();
  if (!refused || degraded_is_fine) return facts;
  const std::vector<DiskFacts> disks = all_disks(view);
  const Placement placement = place(wish_of(book.volume.spec, book.settings), disks, {}, book.settings);
  facts.insufficient_capacity = scheduled->reason == "InsufficientCapacity";
  facts.no_schedulable_disk = !facts.insufficient_capacity;
  facts.detail = scheduled->message;
  facts.needed_bytes = book.volume.spec.size;
  facts.largest_free_bytes = placement.largest_free;
  facts.since = model::parse_rfc3339(scheduled->last_transition_time);
  return facts;
}

// The place that the decision spends: the Ledger is written in the same transaction, and what no longer has a
// place there is swept out.
void take_place(const View& view, const Key& key, const std::string& node, Plan& plan) {
  Edit<mr::Ledger> ledger(view.find<mr::Ledger>("", node, digest_nothing));
  mr::Ledger& next = ledger.edit();
  next.metadata.name = node;
  std::set<std::string> here;
  for (const char* field : {"spec.nodeID", "spec.migrationNodeID", "status.currentNodeID"})
    for (const auto& volume : view.by_field<lh::Volume>(field, node))
      here.insert(key_in_ledger(volume->metadata.space, volume->metadata.name));
  std::erase_if(next.spec.attachments, [&](const auto& one) { return !here.contains(one.first); });
  next.spec.attachments[key_in_ledger(key.space, key.name)].since =
      std::chrono::floor<std::chrono::seconds>(view.now());
  ledger.write(plan);
}

// Decided while no limit was set: if one is set before this is written, it is decided again, with the Ledger.
void hold_while_unlimited(const View& view, Plan& plan) {
  constexpr const char* kLimit = "node-attach-limit";
  if (const auto limit = view.find<lh::Setting>(lh::kDefaultNamespace, kLimit)) {
    plan.guard(limit);
  } else {
    plan.guard_absent<lh::Setting>(std::string(lh::kDefaultNamespace), kLimit);
  }
}

bool waits_for_a_place(const attach::Decision& decision) {
  for (const auto& [id, status] : decision.statuses)
    for (const lh::Blocker& blocker : status.blockers)
      if (blocker.type == lh::BlockerType::node_attach_limit) return true;
  return false;
}

// What the volume controller notes for itself and for people: no ticket fares better or worse for it.
constexpr std::string_view kNotForTickets[] = {
    "epoch",          "conditions",         "exportID", "frontendDisabled",
    "lastDegradedAt", "remountRequestedAt", "ownerID",  "actualSize"};

const Json* scheduled_of(const Json& status) {
  const Json* conditions = status.find("conditions");
  for (std::size_t i = 0; conditions != nullptr && conditions->is_array() && i < conditions->size(); ++i)
    if (conditions->at(i).get_string("type") == lh::kVolumeScheduled) return &conditions->at(i);
  return nullptr;
}

bool is_equal(const Json* left, const Json* right) {
  return left == nullptr || right == nullptr ? left == right : *left == *right;
}

bool is_for_tickets(std::string_view field) {
  return std::find(std::begin(kNotForTickets), std::end(kNotForTickets), field) == std::end(kNotForTickets);
}

// A volume that is given to a node fares the same to its tickets whether it rests or begins to be opened.
bool is_not_closing(const Json& status) {
  const auto state = status.get_string("state").value_or("");
  return state == "detached" || state == "attaching";
}

// Whether nothing has changed that decides about tickets or is told to them. What is not named here counts.
bool same_to_tickets(const Json& before, const Json& after) {
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::string_view part = after.key_at(i);
    if (part == "status" || part == "metadata") continue;
    if (!is_equal(before.find(part), &after.value_at(i))) return false;
  }
  if (before.size() != after.size() || digest_wish(&before) != digest_wish(&after)) return false;
  const Json* was = before.find("status");
  const Json* is = after.find("status");
  if (was == nullptr || is == nullptr) return was == is;
  const Json* node = after.find_path({"spec", "nodeID"});
  const bool given = node != nullptr && node->is_string() && !node->as_string().empty();
  for (std::size_t i = 0; i < is->size(); ++i) {
    const std::string_view field = is->key_at(i);
    if (given && field == "state" && is_not_closing(*was) && is_not_closing(*is)) continue;
    if (is_for_tickets(field) && !is_equal(was->find(field), &is->value_at(i))) return false;
  }
  for (std::size_t i = 0; i < was->size(); ++i)
    if (is_for_tickets(was->key_at(i)) && !is->contains(was->key_at(i))) return false;
  // Whether anything was ever granted: an import is let be.
  const auto is_fresh = [](const Json& status) { return status.get_int64("epoch").value_or(0) == 0; };
  return is_fresh(*was) == is_fresh(*is) && is_equal(scheduled_of(*was), scheduled_of(*is));
}

class VolumeAttachmentController final : public Controller {
 public:
  std::string_view name() const override { return "volume-attachment"; }
  std::vector<Wake> wakes() const override {
    return {{.kind = &kind_of<lh::Volume>(), .key = key_by_name, .same = same_to_tickets},
            {.kind = &kind_of<lh::VolumeAttachment>(), .key = key_by_name, .begins = true}};
  }
  std::string_view successor() const override { return "volume"; }

  Plan reconcile(const View& view, const Key& key) const override {
    Plan plan;
    const auto volume = view.find<lh::Volume>(key.space, key.name);
    const auto attachment = view.find<lh::VolumeAttachment>(key.space, key.name);
    if (!attachment) return without_tickets(volume, plan);
    if (attachment->metadata.is_being_deleted()) return let_go(attachment, plan);
    if (!volume) return plan;
    plan.unfinished = is_under_way(*volume);
    if (attach::is_at_rest(*volume, *attachment)) return plan;
    const bool plain = attach::is_plain(*volume, *attachment);
    Book book = make_book({view, key}, volume, attachment, !plain);
    attach::Decision decision = attach::decide(book);
    if (plain && decision.volume.any()) {
      book = make_book({view, key}, volume, attachment, true);
      decision = attach::decide(book);
    }
    write(decision, volume, attachment, book, plan);
    plan.unfinished = plan.unfinished || decision.volume.any();
    if (plan.settled) look_ahead({view, key}, book);
    const bool limited = book.settings.node_attach_limit() > 0;
    if (limited && decision.takes_place_on && !MOOR_PLANT("control-ledger-not-written"))
      take_place(view, key, *decision.takes_place_on, plan);
    if (!limited && decision.takes_place_on && !plan.writes.empty()) hold_while_unlimited(view, plan);
    if (limited && waits_for_a_place(decision))
      for (const auto& [node, facts] : book.nodes) view.find<mr::Ledger>("", node);
    if (decision.again_at)
      plan.again(std::max<Duration>(*decision.again_at - view.now(), std::chrono::milliseconds(1)));
    for (const attach::Notice& notice : decision.notices)
      plan.note(volume, notice.warning ? "Warning" : "Normal", notice.reason, notice.message);
    return plan;
  }

 private:
  // No book is an empty book: nobody asks for the volume.
  static Plan without_tickets(const Object<lh::Volume>& volume, Plan plan) {
    if (!volume || volume->spec.node_id.empty() || volume->status.state == lh::VolumeState::none) return plan;
    lh::Volume next = *volume;
    // A volume from before there were tickets has no Grant of ours yet: its import comes first (S41).
    if (volume->status.epoch == 0) return plan;
    next.spec.node_id.clear();
    next.spec.migration_node_id.clear();
    plan.update(volume, next);
    return plan;
  }

  static Plan let_go(const Object<lh::VolumeAttachment>& attachment, Plan plan) {
    if (!attachment->metadata.has_finalizer(lh::kFinalizer)) return plan;
    lh::VolumeAttachment next = *attachment;
    std::erase(next.metadata.finalizers, std::string(lh::kFinalizer));
    plan.update(attachment, next);
    return plan;
  }

  struct Where {
    const View& view;
    const Key& key;
  };
  static Book make_book(const Where& where, const Object<lh::Volume>& volume,
                        const Object<lh::VolumeAttachment>& attachment, bool with_holder) {
    const auto& [view, key] = where;
    Book book;
    book.volume = *volume;
    book.attachment = *attachment;
    book.settings = view.settings();
    book.now = view.now();
    look_up_nodes(view, key, book);
    look_up_owners(view, book);
    book.engine = engine_facts(book);
    if (with_holder) look_up_holder(view, key, book);
    book.storage = storage_facts(view, book);
    book.move = move_facts(view, key, book);
    return book;
  }

  // One ticket has nothing to be weighed against, and none has nothing to want. A volume that is taken from
  // its node is chosen for again, at once if it had not moved yet.
  static bool is_settled(const attach::Decision& decision, const lh::Volume& before,
                         const lh::VolumeAttachment& next) {
    const bool moves = attach::is_move_asked(before) || !before.status.current_migration_node_id.empty() ||
                       decision.volume.migration_node_id;
    const std::size_t tickets = next.spec.attachment_tickets.size();
    const bool taken_away = decision.volume.node_id && decision.volume.node_id->empty();
    return decision.retire.empty() && !moves && (tickets == 0 || (tickets == 1 && !taken_away));
  }

  // The next look is at what this plan leaves, and may have no use for what this one had to read.
  static void look_ahead(const Where& where, const Book& after) {
    const auto& [view, key] = where;
    if (attach::is_at_rest(after.volume, after.attachment)) return view.disregard_all();
    if (!attach::is_plain(after.volume, after.attachment)) return;
    view.disregard<mr::Grant>(key.space, key.name);
    view.disregard<lh::Engine>(key.space, engine_name(key.name));
    view.disregard<lh::Engine>(key.space, second_engine_name(key.name));
  }

  // The book becomes what the decision leaves.
  static void write(const attach::Decision& decision, const Object<lh::Volume>& volume,
                    const Object<lh::VolumeAttachment>& attachment, Book& book, Plan& plan) {
    const attach::Applied applied = attach::apply_decision(decision, book.volume, book.attachment);
    const lh::VolumeAttachment& next = book.attachment;
    if (applied.volume) plan.update(volume, book.volume);
    // Tickets and their statuses are one object: the tickets first, the statuses at the next look.
    if (applied.attachment_spec) {
      plan.update(attachment, next);
    } else if (applied.attachment_status) {
      if (const auto until = attach::untold_until(decision, *attachment, book.now))
        plan.again(std::max<Duration>(*until - book.now, std::chrono::milliseconds(1)));
      else
        plan.update_status(attachment, next);
    }
    // Each was decided on the other.
    if (plan.writes.empty()) return;
    plan.settled = is_settled(decision, *volume, next);
    if (!MOOR_PLANT("control-decision-unguarded")) plan.guard(volume);
    plan.guard(attachment);
  }
};

}  // namespace

std::unique_ptr<Controller> make_volume_attachment_controller() {
  return std::make_unique<VolumeAttachmentController>();
}

}  // namespace moor::control
