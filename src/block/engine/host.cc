#include "block/engine/host.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace moor::block {

namespace {

// How long replies and goodbyes may take to leave before the process ends all the same.
constexpr std::chrono::seconds kGoodbye{2};

std::uint64_t cookie_of(nbd::RequestTag tag) {
  return std::uint64_t{tag.generation} << 32 | tag.slot;
}
nbd::RequestTag tag_of(std::uint64_t cookie) {
  return {static_cast<std::uint32_t>(cookie), static_cast<std::uint32_t>(cookie >> 32)};
}

std::optional<engine::ClientOp> op_of(std::uint16_t command) {
  switch (static_cast<nbd::Command>(command)) {
    case nbd::Command::read: return engine::ClientOp::read;
    case nbd::Command::write: return engine::ClientOp::write;
    case nbd::Command::flush: return engine::ClientOp::flush;
    case nbd::Command::trim: return engine::ClientOp::trim;
    case nbd::Command::write_zeroes: return engine::ClientOp::write_zeroes;
    case nbd::Command::block_status: return engine::ClientOp::block_status;
    default: return std::nullopt;
  }
}

}  // namespace

Result<std::unique_ptr<EngineHost>> EngineHost::create(io::Loop& loop, BufferPool& pool,
                                                       EngineHostOptions options) {
  std::map<std::string, io::Address> addresses;
  for (const engine::MemberConfig& member : options.config.members) {
    TRY(auto address, io::parse_address(member.address));
    addresses[member.name] = std::move(address);
  }
  if (options.config.standby) {
    TRY(addresses[std::string(engine::kSourceName)], io::parse_address(options.config.source));
  }
  return std::unique_ptr<EngineHost>(new EngineHost(loop, pool, std::move(options), std::move(addresses)));
}

EngineHost::EngineHost(io::Loop& loop, BufferPool& pool, EngineHostOptions options,
                       std::map<std::string, io::Address> addresses)
    : loop_(loop),
      pool_(pool),
      options_(std::move(options)),
      addresses_(std::move(addresses)),
      engine_(options_.config, pool),
      operations_(options_.config, engine_, control_driver()),
      front_(loop, pool, *this),
      forwards_(
          loop, pool, options_.config.volume, [this](engine::Event event) { step(std::move(event)); },
          [this] { return wants_requests_; }),
      timer_(loop,
             [this] {
               armed_.reset();
               step(engine::Tick{});
             }),
      end_timer_(loop, [this] { loop_.stop(); }) {}

EngineHost::~EngineHost() = default;

void EngineHost::start() {
  step(engine::Started{});
}

void EngineHost::ask_to_end() {
  const bool again = std::exchange(asked_to_end_, true);
  operations_.command(engine::Shutdown{again}, [](const engine::CommandDone&) {});
}

// What an action brings about may be an event again (a link that fails at once): it waits for its turn.
void EngineHost::step(engine::Event event) {
  events_.push_back(std::move(event));
  if (std::exchange(stepping_, true)) return;
  while (!events_.empty()) {
    engine::Event next = std::move(events_.front());
    events_.pop_front();
    actions_.clear();
    engine_.step(std::move(next), loop_.now().time_since_epoch(), actions_);
    for (engine::Action& action : actions_) perform(action);
  }
  stepping_ = false;
  if (const bool wanted = std::exchange(wants_requests_, engine_.wants_requests());
      !wanted && wants_requests_) {
    front_.stir();
    forwards_.stir();
  }
  arm_timer();
}

// An early tick does no harm, so the timer moves only when it would be late.
void EngineHost::arm_timer() {
  const auto wake = engine_.next_wake();
  if (!wake || (armed_ && *armed_ <= *wake)) return;
  armed_ = *wake;
  const engine::Instant now = loop_.now().time_since_epoch();
  timer_.start(std::max(*wake - now, engine::Instant(0)));
}

void EngineHost::perform(engine::Action& action) {
  std::visit([this](auto& alternative) { perform(alternative); }, action);
}

void EngineHost::perform(engine::Connect& action) {
  const io::Address& address = addresses_.at(engine_.member(action.member).name);
  log_debug("connects", {{"member", address.text}, {"hello", describe(action.hello)}});
  links_[action.member] = std::make_unique<MemberLink>(
      loop_, pool_, address, action.member, action.hello,
      [this](engine::Event event) { step(std::move(event)); },
      [this](MemberLink* link) { link_closed(link); });
}

void EngineHost::perform(engine::SendPeer& action) {
  const auto found = links_.find(action.member);
  if (found == links_.end()) return;
  if (action.request.op != PeerOp::disconnect)
    return found->second->send(action.request, std::move(action.payload));
  found->second->leave();
  leaving_.push_back(std::move(found->second));
  links_.erase(found);
}

void EngineHost::perform(engine::Disconnect& action) {
  links_.erase(action.member);
}

void EngineHost::link_closed(MemberLink* link) {
  std::erase_if(leaving_, [&](const auto& owned) { return owned.get() == link; });
  end_when_quiet();
}

void EngineHost::perform(engine::ReplyClient& action) {
  engine::ClientReply& reply = action.reply;
  nbd::Server* server = front_.server(reply.connection);
  if (server == nullptr) return;
  const nbd::RequestTag tag = tag_of(reply.cookie);
  if (reply.error != 0) return server->reply_error(tag, reply.error);
  if (reply.op == engine::ClientOp::read) return server->reply_read(tag, std::move(reply.payload));
  if (reply.op == engine::ClientOp::block_status) return server->reply_block_status(tag, reply.extents);
  server->reply_done(tag);
}

void EngineHost::perform(engine::Propose& action) {
  log_info("proposes a change of members",
           {{"generation", action.next.generation}, {"reason", action.reason}});
  if (options_.confirm_itself) return step(engine::MembershipConfirmed{action.proposal});
  operations_.perform(action);
}

// A standby lets clients in before it is activated; then, or when it begins again, what they are told
// changes.
void EngineHost::perform(engine::Serve& action) {
  serving_ = action;
  if (!action.standby) {
    for (const io::ConnectionId connection : std::exchange(watchers_, {})) {
      front_.drop(connection, "moor:activated: what was read before may be old");
    }
  }
  if (std::exchange(listening_, true)) return operations_.perform(action);
  const auto bound = front_.listen(options_.listen);
  if (!bound) {
    log_error("cannot listen", {{"address", options_.listen.text}, {"error", bound.error()}});
    return operations_.command(engine::Shutdown{true}, [](const engine::CommandDone&) {});
  }
  operations_.perform(action);
  if (options_.on_serving) options_.on_serving(bound->text);
}

Result<void> EngineHost::listen_for_peers() {
  if (!options_.peer_listen) return {};
  TRY(const auto bound, forwards_.listen(*options_.peer_listen));
  peer_address_ = bound.text;
  return {};
}

void EngineHost::perform(engine::WantActivation& action) {
  operations_.perform(action);
  if (!options_.confirm_itself) return;
  operations_.command(engine::ActivateConfirm{action.epoch, std::nullopt}, [](const engine::CommandDone&) {});
}

void EngineHost::perform(engine::EndSessions& action) {
  if (!action.reopen) front_.stop_listening();
  watchers_.clear();
  for (const io::ConnectionId connection : std::exchange(clients_, {}))
    front_.drop(connection, "the engine ends");
}

void EngineHost::perform(engine::CommandDone& action) {
  operations_.perform(action);
}

void EngineHost::perform(engine::Exit& action) {
  exit_ = action;
  log_info("ends", {{"reason", std::string(engine::to_string(action.reason))}, {"message", action.message}});
  operations_.perform(action);
  end_timer_.start(kGoodbye);
  end_when_quiet();
}

void EngineHost::end_when_quiet() {
  if (exit_ && leaving_.empty() && front_.connections() == 0) end_timer_.start(std::chrono::milliseconds(0));
}

void EngineHost::perform(engine::Note& action) {
  if (action.warning) {
    log_warn(action.text);
  } else {
    log_info(action.text);
  }
}

std::vector<nbd::Server::ListedExport> EngineHost::list() {
  return {{options_.config.volume, "a Mooring volume"}};
}

// The export id as a name lets a client insist on the session it knows; the volume's name takes whatever is
// there.
void EngineHost::open(io::ConnectionId connection, const nbd::OpenRequested& request) {
  nbd::Server* server = front_.server(connection);
  if (server == nullptr) return;
  if (!serving_ || exit_)
    return server->refuse(nbd::OptionReply::error_shutdown, "the engine does not serve");
  if (!request.name.empty() && request.name != options_.config.volume &&
      request.name != serving_->export_id) {
    return server->refuse(nbd::OptionReply::error_unknown, "no such export, or one that has ended");
  }
  nbd::ExportDescription description;
  description.size = serving_->size;
  description.fast_zero = true;
  description.name = options_.config.volume;
  description.description = serving_->export_id;
  description.export_id = serving_->export_id;
  description.standby = serving_->standby;
  const bool watches = server->asked_for(nbd::Info::standby);
  server->accept(std::move(description));
  if (!request.go) return;
  clients_.push_back(connection);
  if (serving_->standby && watches) watchers_.push_back(connection);
}

void EngineHost::request(io::ConnectionId connection, nbd::Request request) {
  const auto op = op_of(request.command);
  if (!op) {
    if (nbd::Server* server = front_.server(connection))
      server->reply_error(request.tag, EINVAL, "unknown command");
    return;
  }
  engine::ClientRequest out;
  out.connection = connection;
  out.cookie = cookie_of(request.tag);
  out.op = *op;
  out.fua = request.has(nbd::kFlagFua);
  out.no_hole = request.has(nbd::kFlagNoHole);
  out.fast_zero = request.has(nbd::kFlagFastZero);
  out.offset = request.offset;
  out.length = request.length;
  out.payload = std::move(request.payload);
  step(engine::ClientRequested{std::move(out)});
}

void EngineHost::closed(io::ConnectionId connection) {
  std::erase(clients_, connection);
  std::erase(watchers_, connection);
  step(engine::ClientClosed{connection});
  end_when_quiet();
}

}  // namespace moor::block
