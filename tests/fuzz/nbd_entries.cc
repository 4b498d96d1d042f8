#include <cstring>

#include "base/assert.h"
#include "block/core/nbd_client.h"
#include "block/core/nbd_server.h"
#include "entries.h"

namespace moor::block::fuzz {

namespace {

// The first byte says how the rest is cut: streams never arrive as they were sent.
struct Cuts {
  std::uint8_t state;
  std::size_t next(std::size_t left) {
    if (state % 4 == 0) return left;
    state = static_cast<std::uint8_t>(state * 37 + 11);
    return std::min<std::size_t>(left, 1 + state % 61);
  }
};

void answer(nbd::Server& server, BufferPool& pool, const nbd::Request& request) {
  if (request.offset % 7 == 3) return server.reply_error(request.tag, nbd::kErrIo, "chance");
  if (request.is(nbd::Command::read)) {
    if (request.offset % 2 == 0) return server.reply_read(request.tag, {{request.length, {}}});
    // Large ones are answered with holes above, so that the fuzzer spends its time on the protocol.
    if (request.length > 1 << 20) return server.reply_error(request.tag, nbd::kErrNoMemory);
    return server.reply_read(request.tag, pool.allocate(request.length));
  }
  if (request.is(nbd::Command::block_status))
    return server.reply_block_status(request.tag, {{512, true, true}, {1ull << 40, false, false}});
  if (request.command == 0x8008) return server.reply_private(request.tag, request.payload.span());
  server.reply_done(request.tag);
}

void handle(nbd::Server& server, BufferPool& pool, nbd::ServerEvent& event) {
  if (const auto* request = std::get_if<nbd::Request>(&event)) return answer(server, pool, *request);
  if (std::holds_alternative<nbd::ListRequested>(event)) return server.list({{"a", "b"}});
  if (std::holds_alternative<nbd::TlsRequested>(event)) return server.tls_started();
  const auto* open = std::get_if<nbd::OpenRequested>(&event);
  if (open == nullptr) return;
  if (open->name.size() > 40) return server.refuse(nbd::OptionReply::error_unknown, open->name);
  nbd::ExportDescription description;
  description.size = 1ull << 30;
  description.fast_zero = true;
  description.private_commands = open->name.starts_with("p");
  description.read_only = open->name.starts_with("r");
  server.accept(std::move(description));
}

}  // namespace

void nbd_server(Input input) {
  if (input.empty()) return;
  Cuts cuts{input[0]};
  BufferPool pool;
  nbd::Server server(pool, input[0] & 0x80 ? nbd::TlsMode::offered : nbd::TlsMode::none,
                     {4, 1 << 20, 1 << 20});
  Bytes bytes = std::as_bytes(input.subspan(1));
  while (!bytes.empty()) {
    const auto part = cuts.next(bytes.size());
    const auto taken = server.feed(bytes.first(part));
    MOOR_ASSERT(taken <= part);
    auto events = server.take_events();
    for (auto& event : events) handle(server, pool, event);
    server.out().clear();
    MOOR_ASSERT(taken > 0 || !events.empty() || !server.paused(), "stuck");
    if (taken == 0 && events.empty()) {
      server.feed({});
      auto held = server.take_events();
      for (auto& event : held) handle(server, pool, event);
      if (held.empty()) return;
    }
    bytes = bytes.subspan(taken);
  }
}

void nbd_client(Input input) {
  if (input.empty()) return;
  Cuts cuts{input[0]};
  BufferPool pool;
  nbd::ClientOptions options;
  options.export_name = "disk";
  options.tls = (input[0] & 0x80) != 0;
  options.max_in_flight = 8;
  nbd::Client client(pool, options);
  Bytes bytes = std::as_bytes(input.subspan(1));
  std::uint64_t id = 0;
  while (!bytes.empty()) {
    const auto part = cuts.next(bytes.size());
    const auto taken = client.feed(bytes.first(part));
    for (auto& event : client.take_events()) {
      if (std::holds_alternative<nbd::TlsReady>(event)) client.tls_started();
    }
    while (client.can_send()) {
      nbd::ClientRequest request;
      request.id = id++;
      const std::uint16_t commands[] = {0, 1, 3, 7, 0x8008, 0, 7, 6};
      request.command = commands[request.id % 8];
      request.length = request.command == 3 ? 0 : 64;
      if (request.command == 1 || request.command == 0x8008) request.payload = pool.allocate(64);
      client.send(std::move(request));
    }
    client.out().clear();
    if (taken == 0 && !client.ended() && part > 0) {
      MOOR_ASSERT(client.feed(bytes.first(part)) > 0, "stuck");
      return;
    }
    bytes = bytes.subspan(taken);
  }
}

}  // namespace moor::block::fuzz
