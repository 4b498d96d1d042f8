// The rules a second time, written from the design's sentences and without a look at the first: slow, and
// plain enough to be checked by eye.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "world.h"

namespace moor::attach::naive {

namespace {

int priority(const std::string& type) {
  if (type == "volume-restore-controller" || type == "volume-expansion-controller") return 2000;
  if (type == "longhorn-api") return 1000;
  if (type == "csi-attacher" || type == "share-manager-controller" || type == "salvage-controller")
    return 900;
  for (const char* one : {"snapshot-controller", "backup-controller", "volume-clone-controller",
                          "volume-eviction-controller", "bim-ds-controller", "volume-rebuilding-controller"})
    if (type == one) return 800;
  return 0;
}

bool is_user(const AttachmentTicket& ticket) {
  return ticket.type == "csi-attacher" || ticket.type == "longhorn-api" ||
         ticket.type == "share-manager-controller";
}

bool takes_part(const Book& book, const AttachmentTicket& ticket) {
  if (ticket.node_id.empty()) return false;
  if (ticket.expires_at && *ticket.expires_at <= book.now) return false;
  const bool files =
      book.volume.spec.access_mode == model::longhorn::AccessMode::rwx && !book.volume.spec.migratable;
  return !(files && ticket.type == "csi-attacher");
}

bool node_can_take(const Book& book, const std::string& node) {
  const auto found = book.nodes.find(node);
  if (found == book.nodes.end()) return false;
  const NodeFacts& facts = found->second;
  const std::int64_t limit = facts.attach_limit ? *facts.attach_limit : book.settings.node_attach_limit();
  return facts.ready && facts.agent_reachable && (limit == 0 || facts.attachments < limit);
}

const std::map<std::string, AttachmentTicket>& tickets_of(const Book& book) {
  return book.attachment.spec.attachment_tickets;
}

}  // namespace

std::vector<std::string> eligible(const Book& book) {
  using Key = std::tuple<int, Time, std::size_t, std::string>;
  std::vector<std::pair<Key, std::string>> found;
  const bool by_arrival = book.settings.text("attachment-tie-break") == "arrival";
  for (const auto& [id, ticket] : tickets_of(book)) {
    if (!takes_part(book, ticket) || !node_can_take(book, ticket.node_id)) continue;
    const Time arrival = by_arrival && ticket.requested_at ? ticket.requested_at->at : Time::min();
    const std::size_t length = by_arrival ? 0 : id.size();
    found.push_back({{-priority(ticket.type), arrival, length, id}, id});
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> ids;
  for (const auto& [key, id] : found) ids.push_back(id);
  return ids;
}

bool keeps(const Book& book, const AttachmentTicket& ticket, const std::string& node,
           bool frontend_disabled) {
  if (!takes_part(book, ticket) || ticket.node_id != node) return false;
  const auto found = ticket.parameters.find("disableFrontend");
  if (found == ticket.parameters.end() || found->second == "false") return !frontend_disabled;
  return found->second == "any" || frontend_disabled;
}

bool yields(const Book& book, const AttachmentTicket& ticket) {
  if (ticket.type == "volume-clone-controller")
    return book.volume.status.clone_status.state ==
           model::longhorn::CloneState::copy_completed_awaiting_healthy;
  return ticket.type == "snapshot-controller" || ticket.type == "backup-controller" ||
         ticket.type == "volume-rebuilding-controller";
}

std::string final_node(const Book& start) {
  const std::string& node = start.volume.spec.node_id;
  const std::vector<std::string> order = eligible(start);
  bool kept = false;
  bool all_yield = true;
  for (const auto& [id, ticket] : tickets_of(start)) {
    kept |= keeps(start, ticket, node, start.volume.spec.disable_frontend);
    if (takes_part(start, ticket) && ticket.node_id == node) all_yield &= yields(start, ticket);
  }
  const bool wanted_elsewhere = std::any_of(order.begin(), order.end(), [&](const std::string& id) {
    const AttachmentTicket& ticket = tickets_of(start).at(id);
    return is_user(ticket) && ticket.node_id != node;
  });
  if (!node.empty() && kept && !(all_yield && wanted_elsewhere)) return node;
  return order.empty() ? "" : tickets_of(start).at(order.front()).node_id;
}

std::vector<std::string> faults_at_rest(const World& world) {
  std::vector<std::string> faults = world.violations;
  const Volume& volume = world.book.volume;
  const auto expect = [&](bool fine, const std::string& what) {
    if (!fine) faults.push_back(what + "\n" + world.text());
  };
  const std::string& node = volume.spec.node_id;
  expect(volume.status.current_node_id == node, "current is not what is wanted");
  expect(volume.status.state == (node.empty() ? VolumeState::detached : VolumeState::attached), "state");
  expect(volume.spec.migration_node_id.empty() && volume.status.current_migration_node_id.empty(),
         "migration fields are left over");
  expect(!world.standby_runs, "a standby engine is left over");
  expect(node.empty() ? !world.engine : world.engine && world.engine->node == node,
         "the engine is not where it should be");
  expect(world.book.grant->spec.active.has_value() == !node.empty(), "the grant does not fit");
  const auto& statuses = world.book.attachment.status.attachment_ticket_statuses;
  expect(statuses.size() == tickets_of(world.book).size(), "a status for each ticket");
  for (const auto& [id, ticket] : tickets_of(world.book)) {
    const auto found = statuses.find(id);
    if (found == statuses.end()) continue;
    expect(found->second.generation == ticket.generation, "the status speaks of an old ticket " + id);
    expect(found->second.satisfied ==
               (!node.empty() && keeps(world.book, ticket, node, volume.spec.disable_frontend)),
           "satisfied: " + id);
    for (const Blocker& blocker : found->second.blockers)
      expect(!blocker.message.empty() && !blocker.cleared_by.empty() && blocker.since.has_value(),
             "a blocker says what, since when, and who can clear it: " + id);
  }
  return faults;
}

}  // namespace moor::attach::naive
