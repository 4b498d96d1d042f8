// moorblk ctl: speaks the control protocol (docs/control-protocol.md) to a running engine, replica or device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "base/json.h"
#include "base/units.h"
#include "block/io/control_client.h"
#include "cmd/moorblk/commands.h"

namespace moor::cmd {

namespace {

using block::io::ControlClient;

// What one subcommand of ctl sends. Filled in by CLI11, used after parsing.
struct Request {
  std::string path;
  std::string timeout = "30s";
  std::string op;
  std::string name;
  std::string address;
  std::string json;
  std::vector<std::string> labels;
  std::vector<std::string> events;
  std::uint64_t generation = 0;
  std::uint64_t epoch = 0;
  std::string message;
  std::string source;
  std::string on;
  bool force = false;
  bool once = false;
};

void print_event(const block::control::Event& event) {
  fmt::print("{} {}\n", event.name, to_text(event.data));
  std::fflush(stdout);
}

Result<Json> arguments_of(const Request& request) {
  if (request.op == "call") return parse_json(request.json.empty() ? "{}" : request.json);
  Json arguments = Json::object();
  if (!request.name.empty()) arguments.set("name", request.name);
  if (!request.address.empty()) arguments.set("address", request.address);
  if (request.generation != 0) arguments.set("generation", request.generation);
  if (request.force) arguments.set("force", true);
  if (request.epoch != 0) arguments.set("epoch", request.epoch);
  if (!request.message.empty()) arguments.set("message", request.message);
  if (!request.source.empty()) arguments.set("source", request.source);
  if (!request.on.empty()) arguments.set("on", request.on == "on");
  if (!request.labels.empty()) {
    Json labels = Json::object();
    for (const auto& label : request.labels) {
      const auto equals = label.find('=');
      if (equals == std::string::npos || equals == 0) {
        return make_error(Errc::invalid, fmt::format("\"{}\" is no KEY=VALUE", label));
      }
      labels.set(label.substr(0, equals), label.substr(equals + 1));
    }
    arguments.set("labels", std::move(labels));
  }
  return arguments;
}

Result<void> watch(ControlClient& client, const Request& request) {
  Json names = Json::array();
  for (const auto& name : request.events) names.push_back(name);
  if (request.events.empty()) names.push_back("*");
  TRY_VOID(client.call("subscribe", Json::object({{"events", std::move(names)}})));
  do {  // until the other side closes or the user stops it
    auto event = client.next_event(std::chrono::hours(1));
    if (event.is(Errc::timed_out)) continue;
    if (!event) return event.error();
    print_event(*event);
  } while (!request.once);
  return {};
}

Result<void> run(const Request& request) {
  TRY(const auto timeout, parse_duration(request.timeout));
  TRY(const auto arguments, arguments_of(request));
  TRY(auto client,
      ControlClient::connect(request.path, std::chrono::ceil<std::chrono::milliseconds>(timeout)));
  if (request.op == "watch") return watch(client, request);
  if (request.op == "hello") {
    fmt::print("{}\n", to_pretty_text(client.about()));
    return {};
  }
  ControlClient::OnEvent on_event;
  if (request.op == "snapshot.purge") {
    TRY_VOID(client.call("subscribe", Json::object({{"events", Json::array({"purge"})}})));
    on_event = print_event;
  }
  TRY(const auto result, client.call(request.op == "call" ? request.name : request.op, arguments, on_event));
  if (!result.empty() || !result.is_object()) fmt::print("{}\n", to_pretty_text(result));
  return {};
}

struct Adder {
  std::shared_ptr<Request> request;
  Chosen& chosen;

  CLI::App* operator()(CLI::App& to, const char* name, const char* op, const char* help) const {
    auto* command = to.add_subcommand(name, help);
    command->callback([shared = request, &out = chosen, op = std::string(op)] {
      shared->op = op;
      out = [shared] {
        const auto done = run(*shared);
        if (done) return 0;
        fmt::print(stderr, "moorblk ctl: {}\n", done.error().message);
        return 1;
      };
    });
    return command;
  }
};

void add_members(CLI::App& ctl, const Adder& add) {
  auto& request = *add.request;
  auto* member = ctl.add_subcommand("member", "The replicas of an engine")->require_subcommand(1);
  auto* added = add(*member, "add", "member.add", "Take a replica in; it starts as WO and is rebuilt");
  added->add_option("NAME", request.name, "name of the replica")->required();
  added->add_option("ADDRESS", request.address, "unix:PATH or tcp:HOST:PORT")->required();
  auto* moved =
      add(*member, "address", "member.address", "Tell the engine where a replica that it awaits listens now");
  moved->add_option("NAME", request.name, "name of the replica")->required();
  moved->add_option("ADDRESS", request.address, "unix:PATH or tcp:HOST:PORT")->required();
  auto* removed = add(*member, "remove", "member.remove", "Let a replica go");
  removed->add_option("NAME", request.name, "name of the replica")->required();
  auto* confirmed =
      add(*member, "confirm", "member.confirm", "Tell the engine that its member change is recorded");
  confirmed->add_option("GENERATION", request.generation, "the generation that the change was recorded with")
      ->required();
}

void add_moves(CLI::App& ctl, const Adder& add) {
  auto& request = *add.request;
  add(ctl, "activate", "activate", "Ask a standby to take over, as its first write would");
  add(ctl, "refuse", "activate.refuse", "Tell a standby that it never will: its clients get errors, it ends")
      ->add_option("MESSAGE", request.message, "why");
  auto* updated = add(ctl, "update", "standby.update", "Give a standby another epoch or another source");
  updated->add_option("--epoch", request.epoch, "of the Grant");
  updated->add_option("--source", request.source, "where the active engine listens for it");
  add(ctl, "hold", "hold", "Keep clients and their requests when superseded, or end with errors")
      ->add_option("ON", request.on, "on or off")
      ->required()
      ->check(CLI::IsMember({"on", "off"}));
  auto* epoch = ctl.add_subcommand("epoch", "The epoch of an engine")->require_subcommand(1);
  add(*epoch, "take", "epoch.take",
      "Roll back: go on under a new epoch (by hand; a controller sends members too)")
      ->add_option("EPOCH", request.epoch, "above every epoch granted so far")
      ->required();
}

void add_snapshots(CLI::App& ctl, const Adder& add) {
  auto& request = *add.request;
  auto* snapshot = ctl.add_subcommand("snapshot", "Snapshots")->require_subcommand(1);
  auto* created =
      add(*snapshot, "create", "snapshot.create", "Freeze, flush, snapshot on every member, thaw");
  created->add_option("NAME", request.name, "name of the snapshot")->required();
  created->add_option("--label", request.labels, "KEY=VALUE; may be given more than once");
  add(*snapshot, "list", "snapshot.list", "The chain, oldest first");
  add(*snapshot, "remove", "snapshot.remove", "Mark a snapshot as removed; purge takes its space back")
      ->add_option("NAME", request.name, "name of the snapshot")
      ->required();
  add(*snapshot, "purge", "snapshot.purge", "Merge removed snapshots away; shows progress");
  add(*snapshot, "revert", "snapshot.revert", "Make the volume what it was; what came since is lost")
      ->add_option("NAME", request.name, "name of the snapshot")
      ->required();
}

}  // namespace

void add_ctl(CLI::App& app, Chosen& chosen) {
  const Adder add{std::make_shared<Request>(), chosen};  // shared with the callbacks, which outlive this call
  auto& request = *add.request;
  auto* ctl =
      app.add_subcommand("ctl", "Talk to a running engine, replica or device over its control socket");
  ctl->add_option("PATH", request.path, "the control socket")->required();
  ctl->add_option("--timeout", request.timeout, "how long to wait for an answer")->capture_default_str();
  ctl->require_subcommand(1);
  add(*ctl, "hello", "hello", "Who serves there, and which version of the protocol");
  add(*ctl, "status", "status", "What it is and how it is");
  add(*ctl, "stats", "stats", "Counters and latencies");
  add(*ctl, "freeze", "freeze", "Hold writes back, after a flush");
  add(*ctl, "thaw", "thaw", "Let writes go on");
  add(*ctl, "shutdown", "shutdown", "Drain and end")->add_flag("--force", request.force, "do not drain");
  add_members(*ctl, add);
  add_moves(*ctl, add);
  add_snapshots(*ctl, add);
  auto* watched = add(*ctl, "watch", "watch", "Print events as they come");
  watched->add_option("EVENT", request.events, "names of events; all of them by default");
  watched->add_flag("--once", request.once, "end after the first");
  auto* called = add(*ctl, "call", "call", "Send any request: for what has no subcommand yet");
  called->add_option("OP", request.name, "the operation")->required();
  called->add_option("JSON", request.json, "its arguments, an object");
  ctl->footer(
      "Examples:\n"
      "  moorblk ctl /run/v1.ctl status\n"
      "  moorblk ctl /run/v1.ctl snapshot create monday --label reason=backup\n"
      "  moorblk ctl /run/v1.ctl watch purge");
}

}  // namespace moor::cmd
