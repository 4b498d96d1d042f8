#include "block/core/replica.h"

#include <fmt/format.h>

#include "base/plant.h"
#include "base/secret.h"
#include "block/core/nbd_protocol.h"

namespace moor::block {
namespace {

constexpr std::size_t kMaxStatusExtents = 2048;

// The one table from our errors to what NBD can say.
std::uint32_t nbd_error(Errc code) {
  switch (code) {
    case Errc::invalid:
    case Errc::not_found:
    case Errc::already_exists: return nbd::kErrInvalid;
    case Errc::forbidden:
    case Errc::unauthorized: return nbd::kErrPerm;
    case Errc::exhausted: return nbd::kErrNoSpace;
    case Errc::unsupported: return nbd::kErrNotSupported;
    case Errc::cancelled: return nbd::kErrShutdown;
    default: return nbd::kErrIo;
  }
}

bool is_private(PeerOp op) {
  return static_cast<std::uint16_t>(op) >= 0x8000;
}

}  // namespace

Replica::Replica(Disk& disk, BufferPool& pool, ReplicaSink& sink)
    : sink_(sink), store_(disk, tasks_, pool), drained_(tasks_) {}

Replica::~Replica() {
  // Tasks hold locks of the store: they go first.
  tasks_.drop_all();
}

void Replica::open() {
  tasks_.spawn(open_store());
}

Task<void> Replica::open_store() {
  const Result<void> outcome = co_await store_.open();
  opened_ = outcome.ok();
  if (opened_) promised_ = store_.meta().floor;
  sink_.opened(outcome);
}

void Replica::hello(PeerId peer, Hello hello) {
  tasks_.spawn(admit(peer, std::move(hello)));
}

void Replica::plain(PeerId peer) {
  if (!opened_ || stopping_) return sink_.refuse(peer, PeerRefusal::shutting_down, "not serving");
  if (store_.files().broken()) return sink_.refuse(peer, PeerRefusal::damaged, store_.files().why_broken());
  if (!store_.meta().token.empty()) {
    return sink_.refuse(peer, PeerRefusal::wrong_token,
                        "this replica serves only engines that know its token");
  }
  if (holder() || entering_ > 0) {
    return sink_.refuse(peer, PeerRefusal::other_engine, "an engine holds this replica");
  }
  connections_[peer].kind = Kind::plain;
  sink_.accept(peer, answer());
}

std::optional<Replica::Refusal> Replica::check(const Hello& hello) const {
  if (!opened_ || stopping_) return Refusal{PeerRefusal::shutting_down, "not serving"};
  if (store_.files().broken()) return Refusal{PeerRefusal::damaged, store_.files().why_broken()};
  const ReplicaMeta& meta = store_.meta();
  if (!meta.token.empty() && !is_same_secret(hello.token, meta.token)) {
    return Refusal{PeerRefusal::wrong_token, "the token is not this volume's"};
  }
  if (!meta.volume.empty() && hello.volume != meta.volume) {
    return Refusal{PeerRefusal::wrong_volume, "this replica belongs to volume " + meta.volume};
  }
  if (hello.mode == HelloMode::forward) return Refusal{PeerRefusal::none, "this is a replica and no engine"};
  if (hello.mode == HelloMode::inspect) return {};
  if (hello.epoch == 0 || (hello.epoch < promised_.epoch && !MOOR_PLANT("replica-takes-old-epoch"))) {
    return Refusal{PeerRefusal::old_epoch, fmt::format("epoch {} is below {}", hello.epoch, promised_.epoch)};
  }
  if (hello.epoch > promised_.epoch) return {};
  if (hello.engine != promised_.engine && !MOOR_PLANT("replica-takes-other-engine")) {
    return Refusal{PeerRefusal::other_engine,
                   fmt::format("epoch {} belongs to engine {}", hello.epoch, promised_.engine)};
  }
  if (hello.session <= promised_.session && !MOOR_PLANT("replica-forgets-session")) {
    return Refusal{PeerRefusal::old_session,
                   fmt::format("session {} is not above {}", hello.session, promised_.session)};
  }
  return {};
}

Task<void> Replica::admit(PeerId peer, Hello hello) {
  if (const auto refusal = check(hello)) co_return refuse(peer, refusal->reason, refusal->why);
  Connection& mine = connections_[peer];
  if (hello.mode == HelloMode::inspect) {
    mine.kind = Kind::inspect;
    sink_.accept(peer, answer());
    co_return;
  }
  const Floor floor{hello.epoch, hello.engine, hello.session};
  mine.identity = floor;
  ++mine.in_flight;  // keeps the record until we are done with it
  ++entering_;
  promised_ = floor;
  if (!MOOR_PLANT("replica-skips-fence")) fence_all_but(peer);
  while (!is_drained(peer) && !MOOR_PLANT("replica-skips-drain")) co_await drained_.wait();
  Result<void> stored;
  if (promised_ == floor) {
    stored = co_await store_.record([&](ReplicaMeta& meta) -> Result<void> {
      if (promised_ == floor && !MOOR_PLANT("replica-floor-not-stored")) meta.floor = floor;
      return {};
    });
  }
  --entering_;
  Connection& entered = connections_.at(peer);
  --entered.in_flight;
  if (promised_ != floor) {
    refuse(peer, PeerRefusal::superseded, "a newer engine or session came meanwhile");
  } else if (!stored.ok()) {
    // In memory the floor stays: who was fenced by it was drained for good.
    refuse(peer, PeerRefusal::damaged, "the floor could not be stored: " + stored.error().message);
  } else if (stopping_) {
    refuse(peer, PeerRefusal::shutting_down, "not serving");
  } else {
    close_fenced(floor);
    if (MOOR_PLANT("replica-served-by-hello")) served_ = floor.epoch;
    entered.kind = Kind::active;
    if (!entered.gone) sink_.accept(peer, answer());
  }
  drop_if_done(peer);
  drained_.notify_all();
}

void Replica::refuse(PeerId peer, PeerRefusal reason, const std::string& why) {
  const auto found = connections_.find(peer);
  const bool gone = found != connections_.end() && found->second.gone;
  if (found != connections_.end() && found->second.in_flight == 0) connections_.erase(found);
  if (!gone) sink_.refuse(peer, reason, why);
}

void Replica::fence_all_but(PeerId peer) {
  for (auto& [id, connection] : connections_) {
    if (id != peer && (connection.kind == Kind::active || connection.kind == Kind::plain))
      connection.fenced = true;
  }
}

// Those that are entering have nothing to drain. They would wait for each other for ever where a stop has
// fenced them all.
bool Replica::is_drained(PeerId except) const {
  for (const auto& [id, connection] : connections_) {
    const bool served = connection.kind != Kind::entering;
    if (id != except && served && connection.fenced && connection.in_flight > 0) return false;
  }
  return true;
}

void Replica::close_fenced(const Floor& winner) {
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto [id, connection] = *at;
    if (!connection.fenced) {
      ++at;
      continue;
    }
    at = connections_.erase(at);
    if (connection.gone) continue;
    // An engine that reconnects is not fenced for good, and must not take its own newer session for its end.
    const bool same =
        connection.identity.epoch == winner.epoch && connection.identity.engine == winner.engine;
    sink_.close(id, same ? PeerRefusal::old_session : PeerRefusal::superseded,
                fmt::format("epoch {} of engine {} took over", winner.epoch, winner.engine));
  }
}

HelloAnswer Replica::answer() const {
  const ReplicaMeta& meta = store_.meta();
  HelloAnswer result;
  result.size = meta.size;
  result.generation = meta.generation;
  result.served = served_;
  result.wrote = meta.wrote;
  result.clean = meta.clean;
  result.rebuilding = meta.rebuilding;
  result.dirty = store_.dirty_regions();
  result.chain = meta.chain();
  result.head_id = meta.head_id;
  return result;
}

std::optional<Floor> Replica::holder() const {
  for (const auto& [id, connection] : connections_) {
    if (connection.kind == Kind::active && !connection.gone && !connection.fenced) return connection.identity;
  }
  return {};
}

std::size_t Replica::in_flight() const {
  std::size_t sum = 0;
  for (const auto& [id, connection] : connections_) sum += connection.in_flight;
  return sum;
}

void Replica::request(PeerId peer, PeerRequest request, Slice payload) {
  const auto found = connections_.find(peer);
  if (found == connections_.end() || found->second.fenced || found->second.gone) return;
  if (found->second.kind == Kind::entering) return;  // not accepted yet: nothing it says counts
  if (request.op == PeerOp::disconnect) return;      // the driver closes when all is answered
  ++found->second.in_flight;
  tasks_.spawn(serve(peer, std::move(request), std::move(payload)));
}

void Replica::closed(PeerId peer) {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return;
  found->second.gone = true;
  drop_if_done(peer);
}

void Replica::drop_if_done(PeerId peer) {
  const auto found = connections_.find(peer);
  if (found == connections_.end() || !found->second.gone || found->second.in_flight > 0) return;
  connections_.erase(found);
}

std::optional<Error> Replica::check_right(Kind kind, const PeerRequest& request) const {
  if (kind == Kind::active) return {};
  if (kind == Kind::inspect && request.op == PeerOp::chain) return {};
  if (kind == Kind::plain && !is_private(request.op)) return {};
  return make_error(Errc::forbidden, "only the engine that holds this replica may do that");
}

Task<void> Replica::serve(PeerId peer, PeerRequest request, Slice payload) {
  const Connection& before = connections_.at(peer);
  const Epoch epoch = before.identity.epoch;
  PeerReply reply;
  reply.id = request.id;
  Slice data;
  Result<void> outcome;
  if (const auto denied = check_right(before.kind, request)) {
    outcome = *denied;
  } else if (is_private(request.op)) {
    outcome = co_await perform_private(request, epoch, reply);
  } else {
    outcome = co_await perform(request, std::move(payload), epoch, reply, data);
  }
  if (!outcome.ok()) {
    reply.error = nbd_error(outcome.error().code);
    reply.message = outcome.error().message;
    data = {};
  }
  Connection& connection = connections_.at(peer);
  --connection.in_flight;
  if (!connection.gone) sink_.reply(peer, std::move(reply), std::move(data));
  drop_if_done(peer);
  drained_.notify_all();
}

Task<Result<void>> Replica::perform(const PeerRequest& request, Slice payload, Epoch epoch, PeerReply& reply,
                                    Slice& data) {
  const Extent extent{request.offset, request.length};
  MutateOptions options;
  options.fua = request.fua;
  options.epoch = request.copy ? 0 : epoch;
  switch (request.op) {
    case PeerOp::read: {
      CO_TRY(data, co_await store_.read(extent));
      co_return Result<void>{};
    }
    case PeerOp::write: co_return co_await store_.write(extent, std::move(payload), options);
    case PeerOp::flush: co_return co_await store_.flush();
    case PeerOp::trim: co_return co_await store_.zero(extent, options);
    case PeerOp::write_zeroes:
      options.no_hole = request.no_hole;
      if (request.no_hole && request.fast_zero) {
        co_return make_error(Errc::unsupported, "zeros that take space are not faster than writing them");
      }
      co_return co_await store_.zero(extent, options);
    case PeerOp::block_status:
      reply.extents = store_.status(extent, kMaxStatusExtents);
      if (reply.extents.empty()) co_return make_error(Errc::invalid, "request beyond the end of the volume");
      co_return Result<void>{};
    default: co_return make_error(Errc::invalid, "unknown command");
  }
}

Task<Result<void>> Replica::perform_private(const PeerRequest& request, Epoch epoch, PeerReply& reply) {
  if (store_.files().broken()) co_return store_.files().broken_error();
  const std::uint64_t argument = request.argument;
  switch (request.op) {
    case PeerOp::store_generation:
      co_return co_await store_.record([argument](ReplicaMeta& meta) -> Result<void> {
        if (argument < meta.generation) {
          return make_error(Errc::invalid, fmt::format("generation {} is older than the stored {}", argument,
                                                       meta.generation));
        }
        if (!MOOR_PLANT("replica-generation-not-stored")) meta.generation = argument;
        return {};
      });
    case PeerOp::store_wrote:
      if (argument > epoch) co_return make_error(Errc::invalid, "an epoch that nobody has been given");
      co_return co_await store_.record([argument](ReplicaMeta& meta) -> Result<void> {
        meta.wrote = std::max<Epoch>(meta.wrote, argument);
        return {};
      });
    case PeerOp::mark_served:
      if (argument != epoch) co_return make_error(Errc::invalid, "an engine vouches for its own epoch only");
      served_ = epoch;
      co_return Result<void>{};
    case PeerOp::clear_dirty: co_return co_await store_.clear_dirty(request.regions);
    case PeerOp::snapshot_create: co_return co_await store_.create_snapshot(request.snapshot);
    case PeerOp::snapshot_mark_removed: co_return co_await store_.mark_removed(request.snapshot);
    case PeerOp::snapshot_purge: co_return co_await store_.start_purge(request.snapshot);
    case PeerOp::snapshot_revert: co_return co_await store_.revert(request.snapshot);
    case PeerOp::chain: reply.state = answer(); co_return Result<void>{};
    case PeerOp::set_rebuilding:
      co_return co_await store_.record([argument](ReplicaMeta& meta) -> Result<void> {
        meta.rebuilding = argument != 0;
        return {};
      });
    case PeerOp::expand: co_return co_await store_.expand(argument);
    default: co_return make_error(Errc::invalid, "unknown command");
  }
}

void Replica::stop() {
  if (stopping_) return;
  stopping_ = true;
  tasks_.spawn(stop_all());
}

Task<void> Replica::stop_all() {
  for (auto& [id, connection] : connections_) connection.fenced = true;
  while (in_flight() > 0) co_await drained_.wait();
  Result<void> outcome;
  if (opened_) {
    outcome = co_await store_.stop();
    co_await store_.background_end();
  }
  const auto connections = std::exchange(connections_, {});
  for (const auto& [id, connection] : connections) {
    if (connection.gone) continue;
    if (connection.kind == Kind::entering) {
      sink_.refuse(id, PeerRefusal::shutting_down, "the replica stops");
    } else {
      sink_.close(id, PeerRefusal::shutting_down, "the replica stops");
    }
  }
  tell_stopped(outcome);
}

void Replica::tell_stopped(const Result<void>& outcome) {
  if (!std::exchange(told_stopped_, true)) sink_.stopped(outcome);
}

void Replica::run() {
  tasks_.run();
  if (!store_.files().broken() || told_broken_) return;
  // Everyone hears of it at once: an engine must count this member as failed before it relies on it again.
  told_broken_ = true;
  for (auto& [id, connection] : connections_) {
    if (connection.gone || connection.fenced || connection.kind == Kind::entering) continue;
    connection.fenced = true;
    sink_.close(id, PeerRefusal::damaged, store_.files().why_broken());
    connection.gone = true;
  }
  std::erase_if(connections_,
                [](const auto& entry) { return entry.second.gone && entry.second.in_flight == 0; });
  // Only a new process reads what is truly there. One that stayed would refuse every engine for ever, and
  // look alive.
  if (opened_) tell_stopped(store_.files().broken_error());
}

}  // namespace moor::block
