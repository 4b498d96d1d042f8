#include "block/core/engine_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace moor::block::engine {

namespace {

Error error_of(const CommandDone& done) {
  Error error = errno_error(static_cast<int>(done.error), done.message.empty() ? "failed" : done.message);
  if (done.error == EALREADY || done.error == EAGAIN) error.code = Errc::unavailable;
  if (done.error == ESTALE) error.code = Errc::conflict;
  return error;
}

std::optional<std::string> text(const Json& arguments, std::string_view key) {
  const auto value = arguments.get_string(key);
  if (!value || value->empty()) return std::nullopt;
  return std::string(*value);
}

Json histogram_json(const Histogram& histogram) {
  Json buckets = Json::array();
  std::size_t last = 0;
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
    if (histogram.buckets()[i] != 0) last = i + 1;
  }
  for (std::size_t i = 0; i < last; ++i) buckets.push_back(histogram.buckets()[i]);
  return Json::object({{"count", histogram.count()},
                       {"sum_ns", histogram.sum_ns()},
                       {"p50_ns", static_cast<std::uint64_t>(histogram.quantile(0.5).count())},
                       {"p99_ns", static_cast<std::uint64_t>(histogram.quantile(0.99).count())},
                       {"log2_ns", std::move(buckets)}});
}

Json membership_json(const Membership& membership) {
  Json members = Json::object();
  for (const auto& [name, mode] : membership.members) members.set(name, to_string(mode));
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

Json Control::proposal_json(const Propose& proposal) const {
  Json json = membership_json(proposal.next);
  json.set("proposal", proposal.proposal);
  json.set("base_generation", proposal.base);
  json.set("epoch", proposal.epoch);
  json.set("reason", proposal.reason);
  return json;
}

Json Control::status() const {
  const Status status = engine_.status();
  Json members = Json::array();
  for (const MemberStatus& member : status.members) {
    members.push_back(Json::object({{"name", member.config.name},
                                    {"address", member.config.address},
                                    {"mode", to_string(member.mode)},
                                    {"connected", member.connected},
                                    {"leaving", member.leaving},
                                    {"problem", member.problem}}));
  }
  Json json = Json::object({{"volume", config_.volume},
                            {"epoch", status.epoch},
                            {"engine", config_.engine},
                            {"state", to_string(status.state)},
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
                            {"connections", driver_.connections()}});
  json.set("holding", status.holding);
  if (driver_.peer_address) {
    json.set("peerAddress", driver_.peer_address());
    json.set("forwards", status.forwards);
  }
  if (status.standby) {
    json.set("ready", status.standby->ready);
    json.set("source",
             Json::object({{"address", status.standby->source}, {"problem", status.standby->problem}}));
    json.set("activation", Json::object({{"wanted", status.standby->activation.has_value()},
                                         {"reason", status.standby->activation.value_or("")}}));
  }
  if (const Propose* open = engine_.open_proposal()) json.set("proposal", proposal_json(*open));
  return json;
}

Json Control::stats() const {
  const Status status = engine_.status();
  const EngineStats& stats = *status.stats;
  static constexpr const char* kNames[] = {"read", "write", "flush", "trim", "write_zeroes", "block_status"};
  Json ops = Json::object();
  for (std::size_t i = 0; i < stats.ops.size(); ++i) {
    ops.set(kNames[i], Json::object({{"latency", histogram_json(stats.ops[i].latency)},
                                     {"bytes", stats.ops[i].bytes},
                                     {"errors", stats.ops[i].errors}}));
  }
  Json members = Json::object();
  for (const MemberStatus& member : status.members) {
    members.set(member.config.name, Json::object({{"read", histogram_json(member.stats->read)},
                                                  {"write", histogram_json(member.stats->write)},
                                                  {"flush", histogram_json(member.stats->flush)},
                                                  {"read_bytes", member.stats->read_bytes},
                                                  {"write_bytes", member.stats->write_bytes},
                                                  {"errors", member.stats->errors},
                                                  {"sessions", member.stats->sessions}}));
  }
  Json json = Json::object({{"operations", std::move(ops)},
                            {"members", std::move(members)},
                            {"waits_for_overlap", stats.waits_for_overlap},
                            {"stalls", stats.stalls},
                            {"stall", histogram_json(stats.stall)},
                            {"regions_cleared", stats.regions_cleared},
                            {"resync_compared_bytes", stats.resync_compared_bytes},
                            {"resync_written_bytes", stats.resync_written_bytes}});
  if (driver_.more_stats) driver_.more_stats(json);
  return json;
}

Result<MemberConfig> parse_member(const std::string& text) {
  MemberConfig member;
  std::size_t begin = text.find(',');
  member.address = text.substr(0, begin);
  member.name = member.address;
  while (begin != std::string::npos) {
    const std::size_t end = text.find(',', begin + 1);
    const std::string word = text.substr(begin + 1, end == std::string::npos ? end : end - begin - 1);
    begin = end;
    if (word.starts_with("name=")) {
      member.name = word.substr(5);
    } else if (word == "mode=rw" || word == "mode=wo" || word == "mode=err") {
      member.mode = word == "mode=rw" ? MemberMode::rw : word == "mode=wo" ? MemberMode::wo : MemberMode::err;
    } else if (word == "local") {
      member.local = true;
    } else if (word == "absent") {
      member.expected = false;
    } else {
      return make_error(Errc::invalid, fmt::format("\"{}\" in --replica {} is not known", word, text));
    }
  }
  if (member.name.empty()) return make_error(Errc::invalid, "a replica's name is empty");
  return member;
}

Control::Control(const Config& config, const Engine& engine, Driver driver)
    : config_(config), engine_(engine), driver_(std::move(driver)) {}

const std::vector<std::string>& Control::operations() {
  static const std::vector<std::string> all{
      "status",           "stats",           "freeze",          "thaw",
      "shutdown",         "snapshot.list",   "snapshot.create", "snapshot.remove",
      "snapshot.revert",  "snapshot.purge",  "member.remove",   "member.add",
      "member.address",   "member.confirm",  "supersede",       "activate",
      "activate.confirm", "activate.refuse", "standby.update",  "hold",
      "epoch.take"};
  return all;
}

void Control::command(Command command, Done done) {
  const std::uint64_t id = ++last_command_;
  commands_[id] = std::move(done);
  driver_.step(Commanded{id, std::move(command)});
}

void Control::answer_command(Command command, Answer answer) {
  this->command(std::move(command), [answer = std::move(answer)](const CommandDone& done) {
    if (done.error == 0) {
      answer(Json::object());
    } else {
      answer(error_of(done));
    }
  });
}

void Control::perform(const CommandDone& action) {
  auto node = commands_.extract(action.id);
  if (!node.empty()) node.mapped()(action);
}

void Control::perform(const Propose& action) {
  driver_.publish("members", proposal_json(action));
}

void Control::perform(const Serve&) {
  driver_.publish("state", status());
}

void Control::perform(const WantActivation& action) {
  driver_.publish("activation",
                  Json::object({{"wanted", true}, {"epoch", action.epoch}, {"reason", action.reason}}));
}

void Control::perform(const Exit& action) {
  driver_.publish("stopping",
                  Json::object({{"reason", to_string(action.reason)}, {"message", action.message}}));
}

void Control::call(std::string_view op, const Json& arguments, Answer answer) {
  if (op == "status") return answer(status());
  if (op == "stats") return answer(stats());
  if (op == "thaw") return answer_command(Thaw{}, std::move(answer));
  if (op == "freeze") {
    const auto limit = std::chrono::milliseconds(arguments.get_uint64("limit_ms").value_or(0));
    return answer_command(Freeze{limit}, std::move(answer));
  }
  if (op == "shutdown") {
    answer(Json::object());
    return command(Shutdown{arguments.get_bool("force").value_or(false)}, [](const CommandDone&) {});
  }
  if (op == "supersede") {
    answer(Json::object());
    return driver_.step(Superseded{text(arguments, "message").value_or("the Grant names another engine"),
                                   arguments.get_uint64("epoch").value_or(0)});
  }
  if (op == "member.add") return add_member(arguments, std::move(answer));
  if (op == "member.address") return move_member(arguments, std::move(answer));
  if (op == "member.confirm") return confirm(arguments, answer);
  if (op.starts_with("snapshot.")) return snapshot(op, arguments, std::move(answer));
  if (op == "member.remove") {
    const auto name = text(arguments, "name");
    if (!name) return answer(make_error(Errc::invalid, "\"name\" is missing"));
    return answer_command(RemoveMember{*name}, std::move(answer));
  }
  move(op, arguments, std::move(answer));
}

// The members as an object (name → mode) of those that are known here, or as an array of objects with `name`,
// `mode` and, for the others, `address`.
Result<std::optional<GrantView>> Control::grant_of(const Json& arguments) {
  const Json* members = arguments.find("members");
  const auto generation = arguments.get_uint64("generation");
  if (members == nullptr && !generation) return std::optional<GrantView>();
  if (members == nullptr || !generation || !(members->is_object() || members->is_array())) {
    return make_error(Errc::invalid, "\"members\" or \"generation\" is missing");
  }
  GrantView grant;
  grant.generation = *generation;
  grant.export_id = text(arguments, "export_id");
  for (std::size_t i = 0; i < members->size(); ++i) {
    MemberConfig member;
    std::string mode;
    if (members->is_object()) {
      member.name = std::string(members->key_at(i));
      if (members->value_at(i).is_string()) mode = std::string(members->value_at(i).as_string());
    } else {
      const Json& item = members->at(i);
      member.name = text(item, "name").value_or("");
      member.address = text(item, "address").value_or("");
      member.local = item.get_bool("local").value_or(false);
      member.expected = !item.get_bool("absent").value_or(false);
      mode = text(item, "mode").value_or("");
    }
    if (member.name.empty()) return make_error(Errc::invalid, "a member without a name");
    const auto named = [&](MemberMode m) { return mode == to_string(m); };
    if (!named(MemberMode::rw) && !named(MemberMode::wo) && !named(MemberMode::err)) {
      return make_error(Errc::invalid, fmt::format("{}: \"{}\" is none of RW, WO, ERR", member.name, mode));
    }
    member.mode = named(MemberMode::rw)   ? MemberMode::rw
                  : named(MemberMode::wo) ? MemberMode::wo
                                          : MemberMode::err;
    if (!member.address.empty()) TRY_VOID(driver_.know_address(member.name, member.address));
    grant.members.push_back(std::move(member));
  }
  return std::optional(std::move(grant));
}

void Control::move(std::string_view op, const Json& arguments, Answer answer) {
  if (op == "activate") return answer_command(Activate{}, std::move(answer));
  if (op == "activate.refuse") {
    return answer_command(ActivateRefuse{text(arguments, "message").value_or("refused")}, std::move(answer));
  }
  if (op == "hold") {
    const auto on = arguments.get_bool("on");
    if (!on) return answer(make_error(Errc::invalid, "\"on\" is missing"));
    return answer_command(HoldClients{*on}, std::move(answer));
  }
  const Epoch epoch = arguments.get_uint64("epoch").value_or(0);
  if (op == "standby.update") {
    const auto source = text(arguments, "source");
    if (epoch == 0 && !source) return answer(make_error(Errc::invalid, "\"epoch\" or \"source\" is needed"));
    if (source) {
      if (const auto known = driver_.know_address(std::string(kSourceName), *source); !known)
        return answer(known.error());
    }
    return answer_command(StandbyUpdate{epoch, source}, std::move(answer));
  }
  if (op != "activate.confirm" && op != "epoch.take")
    return answer(make_error(Errc::unsupported, std::string(op)));
  if (epoch == 0) return answer(make_error(Errc::invalid, "\"epoch\" is missing"));
  auto grant = grant_of(arguments);
  if (!grant) return answer(grant.error());
  if (op == "activate.confirm")
    return answer_command(ActivateConfirm{epoch, *std::move(grant)}, std::move(answer));
  answer_command(TakeEpoch{epoch, *std::move(grant), arguments.get_uint64("last_served").value_or(0)},
                 std::move(answer));
}

// Without a name: every snapshot that is marked removed, one after the other. One that branches hang on
// cannot go yet and keeps none of the others: what it waits for may be the next to go, so each success tries
// it again.
void Control::purge_next(Answer answer, std::map<std::string, std::string> kept) {
  for (const Layer& layer : engine_.status().chain) {
    if (!layer.removed || kept.contains(layer.snapshot)) continue;
    driver_.publish("purge", Json::object({{"name", layer.snapshot}}));
    return command(SnapshotPurge{layer.snapshot},
                   [this, answer, kept, name = layer.snapshot](const CommandDone& done) mutable {
                     if (done.error != 0 && done.error != EINVAL) return answer(error_of(done));
                     if (done.error == 0)
                       kept.clear();
                     else
                       kept.emplace(std::move(name), done.message);
                     purge_next(answer, std::move(kept));
                   });
  }
  Json why = Json::object();
  for (auto& [name, reason] : kept) why.set(name, std::move(reason));
  answer(kept.empty() ? Json::object() : Json::object({{"kept", std::move(why)}}));
}

void Control::snapshot(std::string_view op, const Json& arguments, Answer answer) {
  const auto name = text(arguments, "name");
  if (op == "snapshot.list") return answer(chain_json(engine_.status().chain));
  if (op == "snapshot.purge" && !name) return purge_next(std::move(answer), {});
  if (!name) return answer(make_error(Errc::invalid, "\"name\" is missing"));
  if (op == "snapshot.purge") return answer_command(SnapshotPurge{*name}, std::move(answer));
  if (op == "snapshot.remove") return answer_command(SnapshotMarkRemoved{*name}, std::move(answer));
  if (op == "snapshot.revert") return answer_command(SnapshotRevert{*name}, std::move(answer));
  if (op != "snapshot.create") return answer(make_error(Errc::unsupported, std::string(op)));
  SnapshotCreate create{*name, text(arguments, "created").value_or(""), {}, true};
  if (create.created.empty()) create.created = driver_.timestamp();
  if (const auto user = arguments.get_bool("user_created")) create.user_created = *user;
  if (const Json* labels = arguments.find("labels"); labels != nullptr && labels->is_object()) {
    for (std::size_t i = 0; i < labels->size(); ++i) {
      if (!labels->value_at(i).is_string()) continue;
      create.labels[std::string(labels->key_at(i))] = std::string(labels->value_at(i).as_string());
    }
  }
  answer_command(std::move(create), std::move(answer));
}

void Control::add_member(const Json& arguments, Answer answer) {
  const auto name = text(arguments, "name");
  const auto where = text(arguments, "address");
  if (!name || !where) return answer(make_error(Errc::invalid, "\"name\" or \"address\" is missing"));
  for (const MemberStatus& known : engine_.status().members) {
    if (known.config.name == *name)
      return answer(make_error(Errc::already_exists, "there is a member of that name"));
  }
  if (const auto address = driver_.know_address(*name, *where); !address) return answer(address.error());
  MemberConfig member;
  member.name = *name;
  member.address = *where;
  member.local = arguments.get_bool("local").value_or(false);
  answer_command(AddMember{std::move(member)}, std::move(answer));
}

void Control::move_member(const Json& arguments, Answer answer) {
  const auto name = text(arguments, "name");
  const auto where = text(arguments, "address");
  if (!name || !where) return answer(make_error(Errc::invalid, "\"name\" or \"address\" is missing"));
  const auto members = engine_.status().members;
  if (std::none_of(members.begin(), members.end(),
                   [&](const MemberStatus& known) { return known.config.name == *name; }))
    return answer(make_error(Errc::not_found, "there is no member of that name"));
  if (const auto address = driver_.know_address(*name, *where); !address) return answer(address.error());
  answer_command(MemberMoved{*name, *where}, std::move(answer));
}

void Control::confirm(const Json& arguments, const Answer& answer) {
  const Propose* open = engine_.open_proposal();
  const auto generation = arguments.get_uint64("generation");
  if (open == nullptr || !generation || *generation != open->next.generation)
    return answer(make_error(Errc::conflict, "no change with that generation waits"));
  const std::uint64_t proposal = open->proposal;
  if (const auto refused = text(arguments, "refused")) {
    driver_.step(MembershipRefused{proposal, *refused});
  } else {
    driver_.step(MembershipConfirmed{proposal});
  }
  answer(Json::object());
}

}  // namespace moor::block::engine
