#include "sim/scenario/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/assert.h"
#include "model/longhorn/node.h"
#include "model/longhorn/volume.h"
#include "model/longhorn/volume_attachment.h"
#include "model/mooring/grant.h"
#include "sim/scenario/scenario.h"

namespace moor::sim {

namespace {

namespace lh = model::longhorn;
namespace mr = model::mooring;
using Words = std::vector<std::string>;

constexpr std::string_view kSpace = "longhorn-system";

std::optional<lh::Volume> volume(const Reality& reality, const std::string& word) {
  return reality.get<lh::Volume>(kSpace, volume_name(word));
}

std::optional<mr::Grant> grant(const Reality& reality, const std::string& word) {
  return reality.get<mr::Grant>(kSpace, volume_name(word));
}

std::optional<lh::AttachmentTicketStatus> ticket(const Reality& reality, const Words& words) {
  const auto book = reality.get<lh::VolumeAttachment>(kSpace, volume_name(words[1]));
  if (!book) return std::nullopt;
  const auto& statuses = book->status.attachment_ticket_statuses;
  const auto found = statuses.find(words[2]);
  if (found == statuses.end() || !book->spec.attachment_tickets.contains(words[2])) return std::nullopt;
  return found->second;
}

std::int64_t count(const std::string& word) {
  return static_cast<std::int64_t>(std::stoll(word));
}

// A condition about the Volume object, which must be there.
Condition of_volume(std::function<bool(const lh::Volume&, const Words&)> holds, Words words) {
  return [holds = std::move(holds), words = std::move(words)](const Reality& reality) {
    const auto found = volume(reality, words[1]);
    return found && holds(*found, words);
  };
}

Condition of_grant(std::function<bool(const mr::GrantSpec&, const Words&)> holds, Words words) {
  return [holds = std::move(holds), words = std::move(words)](const Reality& reality) {
    const auto found = grant(reality, words[1]);
    return found && holds(found->spec, words);
  };
}

Condition of_ticket(std::function<bool(const lh::AttachmentTicketStatus&, const Words&)> holds, Words words) {
  return [holds = std::move(holds), words = std::move(words)](const Reality& reality) {
    const auto found = ticket(reality, words);
    return found && holds(*found, words);
  };
}

Condition of_reality(std::function<bool(const Reality&, const Words&)> holds, Words words) {
  return [holds = std::move(holds), words = std::move(words)](const Reality& reality) {
    return holds(reality, words);
  };
}

bool is_attached(const lh::Volume& volume, const Words& words) {
  return volume.status.state == lh::VolumeState::attached && !volume.status.current_node_id.empty() &&
         (words.size() < 3 || volume.status.current_node_id == node_name(words[2]));
}

bool is_detached(const lh::Volume& volume, const Words&) {
  return volume.status.state == lh::VolumeState::detached && volume.status.current_node_id.empty();
}

bool has_member(const mr::GrantSpec& grant, const Words& words) {
  const std::string ending = "-r-" + words[2];
  const auto found = std::find_if(grant.members.begin(), grant.members.end(),
                                  [&](const auto& member) { return member.first.ends_with(ending); });
  return found != grant.members.end() && to_string(found->second) == words[3];
}

bool has_proof(const mr::GrantSpec& grant, const Words& words) {
  return std::any_of(grant.proofs.begin(), grant.proofs.end(),
                     [&](const mr::ReleaseProof& proof) { return to_string(proof.type) == words[2]; });
}

bool is_blocked(const lh::AttachmentTicketStatus& status, const Words& words) {
  return !status.satisfied &&
         std::any_of(status.blockers.begin(), status.blockers.end(),
                     [&](const lh::Blocker& blocker) { return to_string(blocker.type) == words[3]; });
}

std::int64_t engines_of(const Reality& reality, const std::string& volume, const std::string& node = {}) {
  const auto engines = reality.engines();
  return std::count_if(engines.begin(), engines.end(), [&](const EngineSight& engine) {
    return engine.volume == volume && (node.empty() || engine.node == node);
  });
}

const VolumeHistory* history(const Reality& reality, const std::string& word) {
  for (const auto& [uid, one] : reality.histories())
    if (one.volume == volume_name(word)) return &one;
  return nullptr;
}

// Reality, not what anybody believes: engines that would acknowledge a write now.
bool has_one_writer(const Reality& reality, const Words& words) {
  std::int64_t writers = 0;
  std::map<std::string, std::uint64_t> floors;
  for (const ReplicaSight& replica : reality.replicas())
    if (replica.volume == volume_name(words[1])) floors[replica.name] = replica.floor.epoch;
  for (const EngineSight& engine : reality.engines()) {
    if (engine.volume != volume_name(words[1]) || engine.core == nullptr) continue;
    const auto status = engine.core->status();
    if (status.state != block::engine::State::serving) continue;
    const bool fenced = std::any_of(status.members.begin(), status.members.end(), [&](const auto& member) {
      const auto floor = floors.find(member.config.name);
      return member.mode == block::MemberMode::rw && floor != floors.end() && floor->second > engine.epoch;
    });
    if (!fenced) ++writers;
  }
  return writers <= 1;
}

using Maker = Condition (*)(Words);
const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> table = {
      {"attached", [](Words w) { return of_volume(is_attached, std::move(w)); }},
      {"detached", [](Words w) { return of_volume(is_detached, std::move(w)); }},
      {"gone",
       [](Words w) {
         return of_reality([](const Reality& r, const Words& x) { return !volume(r, x[1]); }, std::move(w));
       }},
      {"state",
       [](Words w) {
         return of_volume(
             [](const lh::Volume& v, const Words& x) { return to_string(v.status.state) == x[2]; },
             std::move(w));
       }},
      {"robustness",
       [](Words w) {
         return of_volume(
             [](const lh::Volume& v, const Words& x) { return to_string(v.status.robustness) == x[2]; },
             std::move(w));
       }},
      {"given",
       [](Words w) {
         return of_volume(
             [](const lh::Volume& v, const Words& x) { return v.spec.node_id == node_name(x[2]); },
             std::move(w));
       }},
      {"satisfied",
       [](Words w) {
         return of_ticket([](const lh::AttachmentTicketStatus& t, const Words&) { return t.satisfied; },
                          std::move(w));
       }},
      {"waiting",
       [](Words w) {
         return of_ticket([](const lh::AttachmentTicketStatus& t, const Words&) { return !t.satisfied; },
                          std::move(w));
       }},
      {"blocked", [](Words w) { return of_ticket(is_blocked, std::move(w)); }},
      {"retired",
       [](Words w) {
         return of_reality(
             [](const Reality& r, const Words& x) {
               const auto book = r.get<lh::VolumeAttachment>(kSpace, volume_name(x[1]));
               return !book || !book->spec.attachment_tickets.contains(x[2]);
             },
             std::move(w));
       }},
      {"moving",
       [](Words w) {
         return of_volume([](const lh::Volume& v, const Words&) { return v.status.move.has_value(); },
                          std::move(w));
       }},
      {"move",
       [](Words w) {
         return of_volume(
             [](const lh::Volume& v, const Words& x) {
               return v.status.move && to_string(v.status.move->phase) == x[2];
             },
             std::move(w));
       }},
      {"member", [](Words w) { return of_grant(has_member, std::move(w)); }},
      {"epoch",
       [](Words w) {
         return of_grant([](const mr::GrantSpec& g, const Words& x) { return g.epoch >= count(x[2]); },
                         std::move(w));
       }},
      {"restarts",
       [](Words w) {
         return of_volume(
             [](const lh::Volume& v, const Words& x) { return v.status.restarts.count >= count(x[2]); },
             std::move(w));
       }},
      {"proof", [](Words w) { return of_grant(has_proof, std::move(w)); }},
      {"engine",
       [](Words w) {
         return of_reality(
             [](const Reality& r, const Words& x) {
               return engines_of(r, volume_name(x[1]), node_name(x[2])) > 0;
             },
             std::move(w));
       }},
      {"engines",
       [](Words w) {
         return of_reality(
             [](const Reality& r, const Words& x) { return engines_of(r, volume_name(x[1])) == count(x[2]); },
             std::move(w));
       }},
      {"device",
       [](Words w) {
         return of_reality(
             [](const Reality& r, const Words& x) {
               const auto devices = r.devices();
               return std::any_of(devices.begin(), devices.end(), [&](const DeviceSight& device) {
                 return device.volume == volume_name(x[1]) && device.node == node_name(x[2]);
               });
             },
             std::move(w));
       }},
      {"written",
       [](Words w) {
         return of_reality(
             [](const Reality& r, const Words& x) {
               const VolumeHistory* one = history(r, x[1]);
               return one != nullptr && static_cast<std::int64_t>(one->acknowledged_writes) >= count(x[2]);
             },
             std::move(w));
       }},
      {"lives",
       [](Words w) {
         return of_reality(
             [](const Reality& r, const Words& x) {
               const VolumeHistory* one = history(r, x[1]);
               return one != nullptr && static_cast<std::int64_t>(one->lives) >= count(x[2]);
             },
             std::move(w));
       }},
      {"ready",
       [](Words w) {
         return of_reality(
             [](const Reality& r, const Words& x) {
               const auto node = r.get<lh::Node>(kSpace, node_name(x[1]));
               return node && model::is_condition_true(node->status.conditions, lh::kNodeReady);
             },
             std::move(w));
       }},
      {"leader",
       [](Words w) {
         return of_reality(
             [](const Reality& r, const Words&) {
               const auto servers = r.servers();
               return std::any_of(servers.begin(), servers.end(),
                                  [](const ServerSight& s) { return s.up && s.leading && !s.paused; });
             },
             std::move(w));
       }},
      {"at-most-one-writer", [](Words w) { return of_reality(has_one_writer, std::move(w)); }},
  };
  return table;
}

}  // namespace

std::string volume_name(std::string_view word) {
  return fmt::format("volume-{}", number_of(word));
}

std::string node_name(std::string_view word) {
  return fmt::format("node-{}", number_of(word));
}

Condition make_condition(const Words& words) {
  const auto maker = makers().find(words.at(0));
  MOOR_ASSERT(maker != makers().end(), "the parser lets through only conditions that exist");
  return maker->second(words);
}

std::string describe_now(const Reality& reality, const Words& words) {
  if (words.size() < 2 || !words[1].starts_with('v')) return "";
  const auto found = volume(reality, words[1]);
  if (!found) return fmt::format("{} is not there", words[1]);
  std::string text =
      fmt::format("{} is {}, given to \"{}\", at \"{}\", {}", words[1], to_string(found->status.state),
                  found->spec.node_id, found->status.current_node_id, to_string(found->status.robustness));
  const auto book = reality.get<lh::VolumeAttachment>(kSpace, volume_name(words[1]));
  if (!book) return text;
  for (const auto& [id, status] : book->status.attachment_ticket_statuses) {
    text += fmt::format("; ticket {} {}", id, status.satisfied ? "satisfied" : "waits");
    for (const lh::Blocker& blocker : status.blockers) text += fmt::format(" ({})", blocker.message);
  }
  return text;
}

}  // namespace moor::sim
