#include "cli/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/tickets.h"

namespace moor::cli {
namespace {

namespace lh = model::longhorn;

std::string kind_text(attach::Explanation::Kind kind) {
  switch (kind) {
    case attach::Explanation::Kind::waiting: return "waiting";
    case attach::Explanation::Kind::satisfied: return "satisfied";
    case attach::Explanation::Kind::volume: return "volume";
  }
  return "";
}

void add_explanations(const WhyFacts& facts, model::Time now, std::vector<Reason>& reasons) {
  const lh::VolumeAttachment book = facts.attachment.value_or(lh::VolumeAttachment{});
  for (attach::Explanation& line : attach::explain_volume(facts.volume, book, facts.grant, now)) {
    Reason reason{kind_text(line.kind), line.ticket, "", line.text, line.blocker};
    if (line.blocker) reason.type = to_string(line.blocker->type);
    reasons.push_back(std::move(reason));
  }
}

// A ticket that waits without a blocker is being carried out: nothing stands in its way.
void add_under_way(const WhyFacts& facts, std::vector<Reason>& reasons) {
  if (!facts.attachment) return;
  for (const auto& [id, ticket] : facts.attachment->spec.attachment_tickets) {
    const bool told = std::any_of(reasons.begin(), reasons.end(),
                                  [&id](const Reason& reason) { return reason.ticket == id; });
    if (!told)
      reasons.push_back({"waiting", id, "UnderWay",
                         fmt::format("ticket {} is being carried out; nothing stands in its way", id)});
  }
}

bool is_bad(const model::Condition& condition) {
  // Most conditions say True when all is well; these say that something is the matter.
  constexpr std::array<std::string_view, 3> kTroubles = {"Failed", "DeviceInUse",
                                                         lh::kVolumeTooManySnapshots};
  const bool trouble = std::find(kTroubles.begin(), kTroubles.end(), condition.type) != kTroubles.end();
  return condition.status == (trouble ? model::ConditionStatus::yes : model::ConditionStatus::no);
}

void add_conditions(const std::string& about, const std::vector<model::Condition>& conditions,
                    model::Time now, std::vector<Reason>& reasons) {
  for (const model::Condition& condition : conditions) {
    // Without a message it is a note between controllers, not news for people.
    if (!is_bad(condition) || condition.message.empty()) continue;
    std::string text =
        fmt::format("{}: {}", about, condition.reason.empty() ? condition.type : condition.reason);
    text += ": " + condition.message;
    if (const auto since = model::parse_rfc3339(condition.last_transition_time))
      text += fmt::format("; since {}", model::human_duration(now - *since));
    reasons.push_back({"condition", "", condition.reason.empty() ? condition.type : condition.reason, text});
  }
}

void add_parts(const WhyFacts& facts, model::Time now, std::vector<Reason>& reasons) {
  add_conditions("volume " + facts.volume.metadata.name, facts.volume.status.conditions, now, reasons);
  for (const lh::Engine& engine : facts.engines)
    add_conditions("engine " + engine.metadata.name, engine.status.conditions, now, reasons);
  for (const lh::Replica& replica : facts.replicas)
    add_conditions(fmt::format("replica {} on {}", replica.metadata.name, replica.spec.node_id),
                   replica.status.conditions, now, reasons);
  for (const lh::Node& node : facts.nodes) {
    const bool concerned =
        node.metadata.name == facts.volume.spec.node_id ||
        std::any_of(facts.replicas.begin(), facts.replicas.end(),
                    [&](const lh::Replica& one) { return one.spec.node_id == node.metadata.name; });
    if (concerned) add_conditions("node " + node.metadata.name, node.status.conditions, now, reasons);
  }
}

}  // namespace

std::vector<Reason> reasons_for(const WhyFacts& facts, model::Time now) {
  std::vector<Reason> reasons;
  add_explanations(facts, now, reasons);
  add_under_way(facts, reasons);
  add_parts(facts, now, reasons);
  return reasons;
}

}  // namespace moor::cli
