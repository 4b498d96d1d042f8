// The engine's operations of the control protocol (docs/control-protocol.md).
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/timestamp.h"
#include "block/engine/host.h"

namespace moor::block {

namespace {

Error error_of(const engine::CommandDone& done) {
  Error error = errno_error(static_cast<int>(done.error), done.message.empty() ? "failed" : done.message);
  if (done.error == EALREADY || done.error == EAGAIN) error.code = Errc::unavailable;
  return error;
}

std::optional<std::string> text(const Json& arguments, std::string_view key) {
  const auto value = arguments.get_string(key);
  if (!value || value->empty()) return std::nullopt;
  return std::string(*value);
}

Json histogram_json(const engine::Histogram& histogram) {
  Json buckets = Json::array();
  std::size_t last = 0;
  for (std::size_t i = 0; i < engine::Histogram::kBuckets; ++i) {
    if (histogram.buckets()[i] != 0) last = i + 1;
  }
  for (std::size_t i = 0; i < last; ++i) buckets.push_back(histogram.buckets()[i]);
  return Json::object({{"count", histogram.count()},
                       {"sum_ns", histogram.sum_ns()},
                       {"p50_ns", static_cast<std::uint64_t>(histogram.quantile(0.5).count())},
                       {"p99_ns", static_cast<std::uint64_t>(histogram.quantile(0.99).count())},
                       {"log2_ns", std::move(buckets)}});
}

Json membership_json(const engine::Membership& membership) {
  Json members = Json::object();
  for (const auto& [name, mode] : membership.members) members.set(name, engine::to_string(mode));
  return Json::object({{"members", std::move(members)},
                       {"generation", membership.generation},
                       {"export_id", membership.export_id}});
}

Json chain_json(const std::vector<Layer>& chain) {
  Json layers = Json::array();
  for (const Layer& layer : chain) {
    Json labels = Json::object();
    for (const auto& [key, value] : layer.labels) labels.set(key, value);
    layers.push_back(Json::object({{"name", layer.snapshot},
                                   {"id", layer.id},
                                   {"parent", layer.parent},
                                   {"created", layer.created},
                                   {"labels", std::move(labels)},
                                   {"removed", layer.removed},
                                   {"user_created", layer.user_created},
                                   {"used_bytes", layer.used_bytes}}));
  }
  return layers;
}

}  // namespace

Json EngineHost::proposal_json(const engine::Propose& proposal) const {
  Json json = membership_json(proposal.next);
  json.set("proposal", proposal.proposal);
  json.set("base_generation", proposal.base);
  json.set("epoch", options_.config.epoch);
  json.set("reason", proposal.reason);
  return json;
}

Json EngineHost::status_json() const {
  const engine::Status status = engine_.status();
  Json members = Json::array();
  for (const engine::MemberStatus& member : status.members) {
    members.push_back(Json::object({{"name", member.config.name},
                                    {"address", member.config.address},
                                    {"mode", engine::to_string(member.mode)},
                                    {"connected", member.connected},
                                    {"leaving", member.leaving},
                                    {"problem", member.problem}}));
  }
  Json json = Json::object({{"volume", options_.config.volume},
                            {"epoch", options_.config.epoch},
                            {"engine", options_.config.engine},
                            {"state", engine::to_string(status.state)},
                            {"detail", status.detail},
                            {"frozen", status.frozen},
                            {"size", status.size},
                            {"generation", status.membership.generation},
                            {"export_id", status.membership.export_id},
                            {"members", std::move(members)},
                            {"chain", chain_json(status.chain)},
                            {"head_id", status.head_id},
                            {"resync_done_bytes", status.resync_done_bytes},
                            {"resync_total_bytes", status.resync_total_bytes},
                            {"operations", status.operations},
                            {"dirty_regions", status.dirty_regions},
                            {"connections", front_.connections()}});
  if (const engine::Propose* open = engine_.open_proposal()) json.set("proposal", proposal_json(*open));
  return json;
}

Json EngineHost::stats_json() const {
  const engine::Status status = engine_.status();
  const engine::EngineStats& stats = *status.stats;
  static constexpr const char* kNames[] = {"read", "write", "flush", "trim", "write_zeroes", "block_status"};
  Json ops = Json::object();
  for (std::size_t i = 0; i < stats.ops.size(); ++i) {
    ops.set(kNames[i], Json::object({{"latency", histogram_json(stats.ops[i].latency)},
                                     {"bytes", stats.ops[i].bytes},
                                     {"errors", stats.ops[i].errors}}));
  }
  Json members = Json::object();
  for (const engine::MemberStatus& member : status.members) {
    members.set(member.config.name, Json::object({{"read", histogram_json(member.stats->read)},
                                                  {"write", histogram_json(member.stats->write)},
                                                  {"flush", histogram_json(member.stats->flush)},
                                                  {"read_bytes", member.stats->read_bytes},
                                                  {"write_bytes", member.stats->write_bytes},
                                                  {"errors", member.stats->errors},
                                                  {"sessions", member.stats->sessions}}));
  }
  return Json::object({{"operations", std::move(ops)},
                       {"members", std::move(members)},
                       {"waits_for_overlap", stats.waits_for_overlap},
                       {"stalls", stats.stalls},
                       {"stall", histogram_json(stats.stall)},
                       {"regions_cleared", stats.regions_cleared},
                       {"resync_compared_bytes", stats.resync_compared_bytes},
                       {"resync_written_bytes", stats.resync_written_bytes},
                       {"loop_turns", loop_.statistics().turns}});
}

void EngineHost::command(engine::Command command, io::Responder responder) {
  // std::function wants to be copied; the responder cannot be, so it is shared with the one copy that is
  // kept.
  auto shared = std::make_shared<io::Responder>(std::move(responder));
  this->command(std::move(command), [shared](const engine::CommandDone& done) {
    if (done.error == 0) {
      shared->reply(Json::object());
    } else {
      shared->fail(error_of(done));
    }
  });
}

// Without a name: every snapshot that is marked removed, one after the other.
void EngineHost::purge_next(std::shared_ptr<io::Responder> responder) {
  for (const Layer& layer : engine_.status().chain) {
    if (!layer.removed) continue;
    if (control_ != nullptr) control_->publish("purge", Json::object({{"name", layer.snapshot}}));
    return command(engine::SnapshotPurge{layer.snapshot}, [this, responder](const engine::CommandDone& done) {
      if (done.error != 0) return responder->fail(error_of(done));
      purge_next(responder);
    });
  }
  responder->reply(Json::object());
}

void EngineHost::add_control(io::ControlServer& control) {
  control_ = &control;
  control.on("status", [this](const Json&, io::Responder responder) { responder.reply(status_json()); });
  control.on("stats", [this](const Json&, io::Responder responder) { responder.reply(stats_json()); });
  control.on("freeze", [this](const Json& arguments, io::Responder responder) {
    const auto limit = std::chrono::milliseconds(arguments.get_uint64("limit_ms").value_or(0));
    command(engine::Freeze{limit}, std::move(responder));
  });
  control.on("thaw",
             [this](const Json&, io::Responder responder) { command(engine::Thaw{}, std::move(responder)); });
  control.on("shutdown", [this](const Json& arguments, io::Responder responder) {
    responder.reply(Json::object());
    command(engine::Shutdown{arguments.get_bool("force").value_or(false)}, [](const engine::CommandDone&) {});
  });
  add_snapshot_control(control);
  add_member_control(control);
}

template <class Make>
void EngineHost::add_named(io::ControlServer& control, const char* op, Make make) {
  control.on(op, [this, make](const Json& arguments, io::Responder responder) {
    const auto name = text(arguments, "name");
    if (!name) return responder.fail(make_error(Errc::invalid, "\"name\" is missing"));
    command(make(*name, arguments), std::move(responder));
  });
}

void EngineHost::add_snapshot_control(io::ControlServer& control) {
  control.on("snapshot.list", [this](const Json&, io::Responder responder) {
    responder.reply(chain_json(engine_.status().chain));
  });
  add_named(control, "snapshot.create", [](const std::string& name, const Json& arguments) {
    engine::SnapshotCreate create{name, text(arguments, "created").value_or(""), {}, true};
    if (create.created.empty()) create.created = format_timestamp(RealClock().wall());
    if (const auto user = arguments.get_bool("user_created")) create.user_created = *user;
    if (const Json* labels = arguments.find("labels"); labels != nullptr && labels->is_object()) {
      for (std::size_t i = 0; i < labels->size(); ++i) {
        if (!labels->value_at(i).is_string()) continue;
        create.labels[std::string(labels->key_at(i))] = std::string(labels->value_at(i).as_string());
      }
    }
    return engine::Command(std::move(create));
  });
  add_named(control, "snapshot.remove", [](const std::string& name, const Json&) {
    return engine::Command(engine::SnapshotMarkRemoved{name});
  });
  add_named(control, "snapshot.revert", [](const std::string& name, const Json&) {
    return engine::Command(engine::SnapshotRevert{name});
  });
  control.on("snapshot.purge", [this](const Json& arguments, io::Responder responder) {
    if (const auto name = text(arguments, "name"))
      return command(engine::SnapshotPurge{*name}, std::move(responder));
    purge_next(std::make_shared<io::Responder>(std::move(responder)));
  });
}

void EngineHost::add_member_control(io::ControlServer& control) {
  add_named(control, "member.remove",
            [](const std::string& name, const Json&) { return engine::Command(engine::RemoveMember{name}); });
  control.on("member.add", [this](const Json& arguments, io::Responder responder) {
    const auto name = text(arguments, "name");
    const auto where = text(arguments, "address");
    if (!name || !where)
      return responder.fail(make_error(Errc::invalid, "\"name\" or \"address\" is missing"));
    for (const engine::MemberStatus& known : engine_.status().members) {
      if (known.config.name == *name) {
        return responder.fail(make_error(Errc::already_exists, "there is a member of that name"));
      }
    }
    auto address = io::parse_address(*where);
    if (!address) return responder.fail(address.error());
    engine::MemberConfig member;
    member.name = *name;
    member.address = *where;
    member.local = arguments.get_bool("local").value_or(false);
    addresses_[*name] = *std::move(address);
    command(engine::AddMember{std::move(member)}, std::move(responder));
  });
  control.on("member.confirm", [this](const Json& arguments, io::Responder responder) {
    const engine::Propose* open = engine_.open_proposal();
    const auto generation = arguments.get_uint64("generation");
    if (open == nullptr || !generation || *generation != open->next.generation) {
      return responder.fail(make_error(Errc::conflict, "no change with that generation waits"));
    }
    const std::uint64_t proposal = open->proposal;
    if (const auto refused = text(arguments, "refused")) {
      step(engine::MembershipRefused{proposal, *refused});
    } else {
      step(engine::MembershipConfirmed{proposal});
    }
    responder.reply(Json::object());
  });
  control.on("supersede", [this](const Json& arguments, io::Responder responder) {
    responder.reply(Json::object());
    step(engine::Superseded{text(arguments, "message").value_or("the Grant names another engine")});
  });
}

}  // namespace moor::block
