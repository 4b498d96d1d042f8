#include "cli/why.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/tickets.h"

namespace moor::cli {
namespace {

namespace lh = model::longhorn;

Reason reason_of(const std::string& about, const lh::AttachmentTicket& ticket, const lh::Blocker& blocker) {
  return {about,           ticket.id,      std::string(to_string(blocker.type)),
          blocker.message, blocker.holder, blocker.holder_type,
          blocker.node_id, blocker.since,  blocker.cleared_by};
}

void add_tickets(const WhyFacts& facts, std::vector<Reason>& reasons) {
  if (!facts.attachment) return;
  const auto& statuses = facts.attachment->status.attachment_ticket_statuses;
  for (const auto& [id, ticket] : facts.attachment->spec.attachment_tickets) {
    if (is_satisfied(*facts.attachment, id)) continue;
    const std::string about = fmt::format("ticket {} ({}, {})", id, ticket.type,
                                          ticket.node_id.empty() ? "a reservation" : ticket.node_id);
    const auto status = statuses.find(id);
    const bool answered = status != statuses.end() && status->second.generation == ticket.generation;
    if (answered && !status->second.blockers.empty()) {
      for (const lh::Blocker& blocker : status->second.blockers)
        reasons.push_back(reason_of(about, ticket, blocker));
      continue;
    }
    Reason pending{about, id, answered ? "UnderWay" : "NotLookedAt",
                   answered ? "nothing stands in the way; it is being carried out"
                            : "the attachment controller has not answered it yet"};
    if (ticket.requested_at) pending.since = ticket.requested_at->at;
    reasons.push_back(std::move(pending));
  }
}

// Conditions say True when all is well; one that does not, and says something, is worth a line.
void add_conditions(const std::string& about, const std::vector<model::Condition>& conditions,
                    std::vector<Reason>& reasons) {
  for (const model::Condition& condition : conditions) {
    if (condition.status != model::ConditionStatus::no || condition.message.empty()) continue;
    Reason reason{about, "", condition.reason.empty() ? condition.type : condition.reason, condition.message};
    reason.since = model::parse_rfc3339(condition.last_transition_time);
    reasons.push_back(std::move(reason));
  }
}

void add_volume(const WhyFacts& facts, std::vector<Reason>& reasons) {
  const lh::Volume& volume = facts.volume;
  const std::string about = "volume " + volume.metadata.name;
  if (volume.metadata.is_being_deleted()) {
    Reason reason{about, "", "Deleting",
                  fmt::format("it goes when its parts are gone; held by {}",
                              fmt::join(volume.metadata.finalizers, ", "))};
    reason.since = volume.metadata.deletion_timestamp;
    reasons.push_back(std::move(reason));
  }
  if (volume.status.robustness == lh::Robustness::faulted)
    reasons.push_back({about, "", "Faulted", "no replica in step can be reached"});
  if (volume.status.robustness == lh::Robustness::degraded) {
    Reason reason{about, "", "Degraded",
                  fmt::format("fewer than {} replicas are in step", volume.spec.number_of_replicas)};
    reason.since = model::parse_rfc3339(volume.status.last_degraded_at);
    reasons.push_back(std::move(reason));
  }
  add_conditions(about, volume.status.conditions, reasons);
}

void add_members(const WhyFacts& facts, std::vector<Reason>& reasons) {
  if (!facts.grant) return;
  for (const auto& [name, mode] : facts.grant->spec.members) {
    if (mode == model::mooring::MemberMode::rw) continue;
    Reason reason{"replica " + name, "", fmt::format("Member{}", to_string(mode)), ""};
    const auto replica =
        std::find_if(facts.replicas.begin(), facts.replicas.end(),
                     [&name = name](const lh::Replica& one) { return one.metadata.name == name; });
    if (replica != facts.replicas.end()) reason.node = replica->spec.node_id;
    reason.message = mode == model::mooring::MemberMode::err
                         ? "it missed writes and stays out (ERR) until it is rebuilt"
                         : "it is being brought up to date (WO)";
    if (mode == model::mooring::MemberMode::err)
      reason.cleared_by = "rebuilding, which this version does not do yet; the others go on serving";
    reasons.push_back(std::move(reason));
  }
}

void add_parts(const WhyFacts& facts, std::vector<Reason>& reasons) {
  for (const lh::Engine& engine : facts.engines) {
    const std::string about = "engine " + engine.metadata.name;
    if (engine.status.current_state == lh::InstanceState::error)
      reasons.push_back({about, "", "Error", "its process ended with an error", "", "", engine.spec.node_id});
    add_conditions(about, engine.status.conditions, reasons);
  }
  for (const lh::Replica& replica : facts.replicas) {
    const std::string about = "replica " + replica.metadata.name;
    if (replica.status.current_state == lh::InstanceState::error)
      reasons.push_back(
          {about, "", "Error", "its process ended with an error", "", "", replica.spec.node_id});
    add_conditions(about, replica.status.conditions, reasons);
  }
  for (const lh::Node& node : facts.nodes) {
    const bool concerned =
        node.metadata.name == facts.volume.spec.node_id ||
        std::any_of(facts.replicas.begin(), facts.replicas.end(),
                    [&](const lh::Replica& one) { return one.spec.node_id == node.metadata.name; });
    if (concerned) add_conditions("node " + node.metadata.name, node.status.conditions, reasons);
  }
}

}  // namespace

std::vector<Reason> reasons_for(const WhyFacts& facts) {
  std::vector<Reason> reasons;
  add_tickets(facts, reasons);
  add_volume(facts, reasons);
  add_members(facts, reasons);
  add_parts(facts, reasons);
  return reasons;
}

std::string to_sentence(const Reason& reason, model::Time now) {
  std::string text = fmt::format("{}: {}", reason.about, reason.type);
  if (!reason.message.empty()) text += ": " + reason.message;
  if (!reason.holder.empty())
    text += fmt::format("; held by {}{}{}", reason.holder_type, reason.holder_type.empty() ? "" : " ",
                        reason.holder);
  if (!reason.node.empty() && reason.node != reason.holder) text += fmt::format(" on {}", reason.node);
  if (reason.since) text += fmt::format("; since {}", model::human_duration(now - *reason.since));
  if (!reason.cleared_by.empty()) text += fmt::format("; cleared by {}", reason.cleared_by);
  return text;
}

}  // namespace moor::cli
