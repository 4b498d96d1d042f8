#include "block/store/replica_server.h"

#include <fmt/format.h>

#include "base/log.h"
#include "block/core/peer_wire.h"
#include "block/core/replica_report.h"

namespace moor::block {

ReplicaServer::ReplicaServer(io::Loop& loop, BufferPool& pool, Directory& directory,
                             io::NbdFrontOptions options, Events events)
    : disk_(loop, directory, [this] { replica_.run(); }),
      replica_(disk_, pool, *this),
      front_(loop, pool, *this, options),
      events_(std::move(events)) {}

ReplicaServer::~ReplicaServer() = default;

void ReplicaServer::open() {
  replica_.open();
  replica_.run();
}

Result<io::Address> ReplicaServer::listen(const io::Address& address) {
  return front_.listen(address);
}

void ReplicaServer::stop() {
  front_.stop_listening();
  replica_.stop();
  replica_.run();
}

std::vector<nbd::Server::ListedExport> ReplicaServer::list() {
  return {{"", "a replica of one volume"}};
}

void ReplicaServer::open(io::ConnectionId connection, const nbd::OpenRequested& request) {
  auto hello = decode_hello(request.name);
  if (!hello.ok() && !hello.is(Errc::not_found)) {
    front_.server(connection)->refuse(nbd::OptionReply::error_invalid, hello.error().message);
    return;
  }
  said_hello_[connection] = hello.ok();
  if (!request.go && hello.ok()) {
    // To look must not fence anybody.
    hello->mode = HelloMode::inspect;
  }
  if (hello.ok()) {
    log_info("hello", {{"connection", connection}, {"peer", describe(*hello)}});
    replica_.hello(connection, std::move(*hello));
  } else {
    replica_.plain(connection);
  }
  replica_.run();
}

void ReplicaServer::request(io::ConnectionId connection, nbd::Request request) {
  const std::uint64_t id = next_request_++;
  auto decoded = decode_request(request, id);
  if (!decoded.ok()) {
    front_.server(connection)->reply_error(request.tag, nbd::kErrInvalid, decoded.error().message);
    return;
  }
  count(*decoded);
  Slice payload = std::move(request.payload);
  request.payload = {};
  waiting_.emplace(id, Waiting{connection, std::move(request)});
  replica_.request(connection, std::move(*decoded), std::move(payload));
  replica_.run();
}

void ReplicaServer::count(const PeerRequest& request) {
  switch (request.op) {
    case PeerOp::read:
      ++counters_.reads;
      counters_.read_bytes += request.length;
      break;
    case PeerOp::write:
      ++counters_.writes;
      counters_.written_bytes += request.length;
      break;
    case PeerOp::trim:
    case PeerOp::write_zeroes: ++counters_.zeroes; break;
    case PeerOp::flush: ++counters_.flushes; break;
    default: break;
  }
}

void ReplicaServer::closed(io::ConnectionId connection) {
  // Requests that the machine ignored, because the connection was fenced, are answered to nobody.
  std::erase_if(waiting_, [&](const auto& entry) { return entry.second.connection == connection; });
  said_hello_.erase(connection);
  replica_.closed(connection);
  replica_.run();
}

void ReplicaServer::opened(const Result<void>& outcome) {
  events_.opened(outcome);
}

void ReplicaServer::accept(PeerId peer, const HelloAnswer& answer) {
  nbd::Server* server = front_.server(peer);
  if (server == nullptr) return;
  nbd::ExportDescription description;
  description.size = answer.size;
  description.description = "a replica of one volume";
  description.fast_zero = true;
  if (said_hello_[peer]) {
    auto bytes = encode_hello_answer(answer);
    if (!bytes.ok()) {
      server->refuse(nbd::OptionReply::error_too_big, bytes.error().message);
      return;
    }
    description.private_commands = true;
    description.private_infos.emplace_back(nbd::Info::hello_answer, std::move(*bytes));
  }
  server->accept(std::move(description));
}

void ReplicaServer::refuse(PeerId peer, PeerRefusal reason, const std::string& why) {
  ++counters_.refusals;
  log_info("connection refused", {{"connection", peer}, {"reason", to_string(reason)}, {"why", why}});
  nbd::Server* server = front_.server(peer);
  if (server == nullptr) return;
  server->refuse(refusal_reply(reason), encode_refusal({reason, why}));
}

void ReplicaServer::reply(PeerId peer, PeerReply reply, Slice data) {
  auto node = waiting_.extract(reply.id);
  nbd::Server* server = node.empty() ? nullptr : front_.server(peer);
  if (server == nullptr) return;
  const nbd::Request& request = node.mapped().request;
  if (reply.error != 0) {
    ++counters_.errors;
    log_warn("request failed",
             {{"connection", peer}, {"command", request.command}, {"error", reply.message}});
  }
  if (request.command == static_cast<std::uint16_t>(PeerOp::expand) && reply.error == 0) {
    server->resize(replica_.store().meta().size);
  }
  if (request.is(nbd::Command::read) && reply.error == 0) {
    server->reply_read(request.tag, std::move(data));
    return;
  }
  const Result<void> sent = send_reply(*server, request, reply);
  if (!sent.ok()) front_.drop(peer, sent.error().message);
}

void ReplicaServer::close(PeerId peer, PeerRefusal reason, const std::string& why) {
  log_info("connection closed", {{"connection", peer}, {"reason", to_string(reason)}, {"why", why}});
  front_.drop(peer, encode_refusal({reason, why}));
}

void ReplicaServer::stopped(const Result<void>& outcome) {
  events_.stopped(outcome);
}

Json ReplicaServer::stats() const {
  return Json::object({{"reads", counters_.reads},
                       {"writes", counters_.writes},
                       {"zeroes", counters_.zeroes},
                       {"flushes", counters_.flushes},
                       {"readBytes", counters_.read_bytes},
                       {"writtenBytes", counters_.written_bytes},
                       {"errors", counters_.errors},
                       {"refusals", counters_.refusals},
                       {"connections", front_.connections()}});
}

void ReplicaServer::register_control(io::ControlServer& control) {
  control.on("status",
             [this](const Json&, io::Responder responder) { responder.reply(replica_status(replica_)); });
  control.on("stats", [this](const Json&, io::Responder responder) { responder.reply(stats()); });
  control.on("snapshot.list",
             [this](const Json&, io::Responder responder) { responder.reply(replica_snapshots(replica_)); });
  control.on("shutdown", [this](const Json&, io::Responder responder) {
    responder.reply(Json::object());
    stop();
  });
}

}  // namespace moor::block
