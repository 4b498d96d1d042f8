#include <fmt/format.h>

#include <charconv>

#include "agent/core/facts.h"

namespace moor::agent {
namespace {

using model::mooring::MemberMode;

std::string text_of(const Json& json, std::string_view key) {
  return std::string(json.get_string(key).value_or(""));
}

// "tcp:10.0.0.1:4711" → 4711; 0: none.
std::int32_t port_of(const std::string& address) {
  std::int32_t port = 0;
  const char* begin = address.data() + address.rfind(':') + 1;
  std::from_chars(begin, address.data() + address.size(), port);
  return port;
}

Result<MemberMode> mode_of(std::string_view word) {
  const auto mode = model::enum_from<MemberMode>(word);
  if (!mode) return make_error(Errc::corrupt, fmt::format("an engine names the mode \"{}\"", word));
  return *mode;
}

LayerReport read_layer(const Json& json) {
  LayerReport layer{text_of(json, "name"),
                    text_of(json, "id"),
                    text_of(json, "parent"),
                    text_of(json, "created"),
                    {},
                    false,
                    false,
                    0};
  if (const Json* labels = json.find("labels"); labels != nullptr && labels->is_object())
    for (std::size_t i = 0; i < labels->size(); ++i)
      if (labels->value_at(i).is_string())
        layer.labels[std::string(labels->key_at(i))] = std::string(labels->value_at(i).as_string());
  layer.removed = json.get_bool("removed").value_or(false);
  layer.user_created = json.get_bool("user_created").value_or(false);
  layer.used_bytes = json.get_int64("used_bytes").value_or(0);
  return layer;
}

}  // namespace

Result<Proposal> read_proposal(const Json& event) {
  Proposal proposal;
  const auto number = event.get_uint64("proposal");
  const auto generation = event.get_int64("generation");
  const auto base = event.get_int64("base_generation");
  const auto epoch = event.get_int64("epoch");
  const Json* members = event.find("members");
  if (!number || !generation || !base || !epoch || members == nullptr || !members->is_object())
    return make_error(Errc::corrupt, "a proposal lacks a number, a generation, an epoch or its members");
  proposal.number = *number;
  proposal.generation = *generation;
  proposal.base = *base;
  proposal.epoch = *epoch;
  proposal.export_id = text_of(event, "export_id");
  proposal.reason = text_of(event, "reason");
  for (std::size_t i = 0; i < members->size(); ++i) {
    const Json& mode = members->value_at(i);
    TRY(proposal.members[std::string(members->key_at(i))],
        mode_of(mode.is_string() ? mode.as_string() : std::string_view()));
  }
  return proposal;
}

Result<EngineReport> read_engine_report(const Json& status) {
  EngineReport report;
  const auto epoch = status.get_int64("epoch");
  const Json* members = status.find("members");
  if (!epoch || members == nullptr || !members->is_array())
    return make_error(Errc::corrupt, "an engine's status lacks its epoch or its members");
  report.epoch = *epoch;
  report.state = text_of(status, "state");
  report.detail = text_of(status, "detail");
  report.size = status.get_int64("size").value_or(0);
  report.generation = status.get_int64("generation").value_or(0);
  report.export_id = text_of(status, "export_id");
  for (std::size_t i = 0; i < members->size(); ++i) {
    const Json& member = members->at(i);
    TRY(const MemberMode mode, mode_of(member.get_string("mode").value_or("")));
    report.members.push_back({text_of(member, "name"), text_of(member, "address"), mode});
  }
  if (const Json* chain = status.find("chain"); chain != nullptr && chain->is_array())
    for (std::size_t i = 0; i < chain->size(); ++i) report.chain.push_back(read_layer(chain->at(i)));
  if (const Json* proposal = status.find("proposal"); proposal != nullptr && proposal->is_object()) {
    TRY(report.proposal, read_proposal(*proposal));
  }
  report.holding = status.get_bool("holding").value_or(false);
  report.peer_port = port_of(text_of(status, "peerAddress"));
  report.ready = status.get_bool("ready").value_or(false);
  if (const Json* source = status.find("source"); source != nullptr && source->is_object())
    report.source = text_of(*source, "address");
  if (const Json* activation = status.find("activation"); activation != nullptr && activation->is_object())
    report.activation_wanted = activation->get_bool("wanted").value_or(false);
  return report;
}

DeviceReport read_device_report(const Json& status) {
  return {text_of(status, "state"), text_of(status, "device"), text_of(status, "export_id"),
          text_of(status, "message")};
}

}  // namespace moor::agent
