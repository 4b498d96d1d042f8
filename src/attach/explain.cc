#include "attach/explain.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "attach/blockers.h"

namespace moor::attach {

using model::longhorn::AttachmentTicket;
using model::longhorn::BlockerType;
using model::longhorn::Robustness;
using model::mooring::MemberMode;

namespace {

std::string ticket_text(const AttachmentTicket& ticket) {
  std::string text = fmt::format("ticket {}", ticket_name(ticket));
  text += ticket.node_id.empty() ? ", a reservation" : fmt::format(" for node {}", ticket.node_id);
  return text;
}

std::string age_text(Time since, Time now) {
  return now >= since ? fmt::format("since {}", model::human_duration(now - since)) : "since now";
}

// Tickets whose status was not written yet, or speaks of an older form of the ticket.
std::string unseen_text(const AttachmentTicket& ticket) {
  return fmt::format("{} has not been looked at yet; cleared by: the attachment controller",
                     ticket_text(ticket));
}

void explain_tickets(const VolumeAttachment& attachment, Time now, std::vector<Explanation>& waiting,
                     std::vector<Explanation>& satisfied) {
  for (const auto& [id, ticket] : attachment.spec.attachment_tickets) {
    const auto found = attachment.status.attachment_ticket_statuses.find(id);
    if (found == attachment.status.attachment_ticket_statuses.end() ||
        found->second.generation != ticket.generation) {
      waiting.push_back({.kind = Explanation::Kind::waiting, .ticket = id, .text = unseen_text(ticket)});
      continue;
    }
    if (found->second.satisfied) {
      satisfied.push_back({.kind = Explanation::Kind::satisfied,
                           .ticket = id,
                           .text = fmt::format("{} has what it asks for", ticket_text(ticket))});
      continue;
    }
    for (const Blocker& blocker : found->second.blockers)
      waiting.push_back(
          {.kind = Explanation::Kind::waiting,
           .ticket = id,
           .blocker = blocker,
           .text = fmt::format("{} waits: {}", ticket_text(ticket), explain_blocker(blocker, now))});
  }
}

void explain_state(const Volume& volume, const std::optional<Grant>& grant, Time now,
                   std::vector<Explanation>& lines) {
  const std::string& name = volume.metadata.name;
  const auto say = [&](std::string text) {
    lines.push_back({.kind = Explanation::Kind::volume, .text = std::move(text)});
  };
  if (volume.metadata.deletion_timestamp) {
    std::string text = fmt::format("volume {} is being deleted, {}", name,
                                   age_text(*volume.metadata.deletion_timestamp, now));
    if (!volume.status.current_node_id.empty())
      text += fmt::format("; it is still attached to node {}", volume.status.current_node_id);
    say(std::move(text));
  }
  if (volume.status.robustness == Robustness::faulted)
    say(fmt::format("volume {} is faulted: no replica that holds all its data can serve", name));
  if (!grant) return;
  if (grant->spec.unproven)
    say(
        fmt::format("the grant of volume {} was restored from a backup: it starts once every replica has "
                    "answered",
                    name));
  for (const auto& [replica, mode] : grant->spec.members) {
    if (mode == MemberMode::err)
      say(fmt::format("replica {} has missed writes (ERR): it serves again only after a rebuild", replica));
    else if (mode == MemberMode::wo)
      say(fmt::format("replica {} is being rebuilt (WO)", replica));
  }
}

// Blockers whose holder is a ticket.
bool names_ticket(const Blocker& blocker) {
  switch (blocker.type) {
    case BlockerType::attached_elsewhere:
    case BlockerType::incompatible_parameters:
    case BlockerType::reserved:
    case BlockerType::moving:
    case BlockerType::share_manager: return true;
    default: return false;
  }
}

using Graph = std::map<std::string, std::set<std::string>>;

Graph waiting_graph(const VolumeAttachment& attachment) {
  Graph graph;
  const auto& tickets = attachment.spec.attachment_tickets;
  for (const auto& [id, status] : attachment.status.attachment_ticket_statuses)
    for (const Blocker& blocker : status.blockers) {
      const auto holder = tickets.find(blocker.holder);
      if (names_ticket(blocker) && holder != tickets.end() && holder->second.type == blocker.holder_type)
        graph[id].insert(blocker.holder);
    }
  return graph;
}

// Depth first; `path` is the way from the root. Depth is bounded by the number of tickets.
bool find_cycle(const Graph& graph, const std::string& at, std::vector<std::string>& path,
                std::set<std::string>& done) {
  for (std::size_t i = 0; i < path.size(); ++i)
    if (path[i] == at) {
      path.erase(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
  if (done.contains(at)) return false;
  path.push_back(at);
  if (const auto found = graph.find(at); found != graph.end())
    for (const std::string& next : found->second)
      if (find_cycle(graph, next, path, done)) return true;
  path.pop_back();
  done.insert(at);
  return false;
}

}  // namespace

std::string explain_blocker(const Blocker& blocker, Time now) {
  std::string text = fmt::format("{}: {}", to_string(blocker.type), blocker.message);
  if (blocker.since) text += fmt::format("; {}", age_text(*blocker.since, now));
  if (!blocker.cleared_by.empty()) text += fmt::format("; cleared by: {}", blocker.cleared_by);
  return text;
}

std::vector<Explanation> explain_volume(const Volume& volume, const VolumeAttachment& attachment,
                                        const std::optional<Grant>& grant, Time now) {
  std::vector<Explanation> lines;
  std::vector<Explanation> satisfied;
  explain_tickets(attachment, now, lines, satisfied);
  lines.insert(lines.end(), satisfied.begin(), satisfied.end());
  if (attachment.spec.attachment_tickets.empty())
    lines.push_back(
        {.kind = Explanation::Kind::volume,
         .text = fmt::format("nobody asks for volume {}: it has no tickets", volume.metadata.name)});
  if (const auto cycle = waiting_cycle(attachment); !cycle.empty())
    lines.push_back(
        {.kind = Explanation::Kind::volume,
         .text = fmt::format("deadlock: tickets wait for each other: {}", fmt::join(cycle, " -> "))});
  explain_state(volume, grant, now, lines);
  return lines;
}

std::vector<std::string> waiting_cycle(const VolumeAttachment& attachment) {
  const Graph graph = waiting_graph(attachment);
  std::set<std::string> done;
  for (const auto& [id, holders] : graph) {
    std::vector<std::string> path;
    if (find_cycle(graph, id, path, done)) return path;
  }
  return {};
}

}  // namespace moor::attach
