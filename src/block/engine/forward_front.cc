#include "block/engine/forward_front.h"

#include "base/log.h"
#include "block/core/peer_wire.h"

namespace moor::block {

ForwardFront::ForwardFront(io::Loop& loop, BufferPool& pool, std::string volume, OnEvent on_event,
                           std::function<bool()> wants_requests)
    : volume_(std::move(volume)),
      report_(std::move(on_event)),
      wants_requests_(std::move(wants_requests)),
      front_(loop, pool, *this) {}

void ForwardFront::open(io::ConnectionId connection, const nbd::OpenRequested& request) {
  auto hello = decode_hello(request.name);
  // Only GO opens a session; there is nothing here to look at.
  if (!hello.ok() || !request.go) {
    return front_.server(connection)
        ->refuse(nbd::OptionReply::error_policy, "only standby engines connect here");
  }
  log_info("a standby says hello", {{"connection", connection}, {"peer", describe(*hello)}});
  report_(engine::ForwardOpened{connection, *std::move(hello)});
}

void ForwardFront::accept(engine::ForwardAccept& action) {
  nbd::Server* server = front_.server(action.connection);
  if (server == nullptr) return;
  auto bytes = encode_hello_answer(action.answer);
  if (!bytes) {
    log_error("cannot answer a standby", {{"error", bytes.error()}});
    return server->refuse(nbd::OptionReply::error_platform, bytes.error().message);
  }
  nbd::ExportDescription description;
  description.size = action.answer.size;
  description.read_only = true;
  description.name = volume_;
  description.export_id = action.export_id;
  description.private_commands = true;
  description.private_infos.emplace_back(nbd::Info::hello_answer, *std::move(bytes));
  server->accept(std::move(description));
}

void ForwardFront::refuse(const engine::ForwardRefuse& action) {
  nbd::Server* server = front_.server(action.connection);
  if (server == nullptr) return;
  server->refuse(refusal_reply(action.reason), encode_refusal({action.reason, action.message}));
}

void ForwardFront::request(io::ConnectionId connection, nbd::Request request) {
  const std::uint64_t id = ++last_request_;
  auto decoded = decode_request(request, id);
  if (!decoded.ok()) {
    return front_.server(connection)->reply_error(request.tag, nbd::kErrInvalid, decoded.error().message);
  }
  request.payload = {};
  waiting_.emplace(id, Waiting{connection, std::move(request)});
  report_(engine::ForwardRequested{connection, *std::move(decoded)});
}

void ForwardFront::reply(engine::ForwardReply& action) {
  const auto node = waiting_.extract(action.reply.id);
  nbd::Server* server = node.empty() ? nullptr : front_.server(action.connection);
  if (server == nullptr) return;
  const nbd::Request& request = node.mapped().request;
  if (action.reply.error == 0 && action.op == PeerOp::read) {
    return server->reply_read(request.tag, std::move(action.payload));
  }
  if (const auto sent = send_reply(*server, request, action.reply); !sent) {
    log_warn("cannot answer a standby", {{"error", sent.error()}});
  }
}

void ForwardFront::end(const engine::ForwardEnd& action) {
  std::erase_if(waiting_, [&](const auto& item) { return item.second.connection == action.connection; });
  front_.drop(action.connection, encode_refusal({action.reason, action.message}));
}

void ForwardFront::closed(io::ConnectionId connection) {
  std::erase_if(waiting_, [&](const auto& item) { return item.second.connection == connection; });
  report_(engine::ForwardClosed{connection});
}

}  // namespace moor::block
