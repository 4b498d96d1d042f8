// The server's side of one NBD connection (fixed newstyle) as a step machine without I/O. The owner feeds the
// bytes that arrive, looks at the events, answers them in any order, and sends what is in out().
//
//   consumed = server.feed(bytes);  for (auto& event : server.take_events()) …;  send(server.out());
//
// One thread. feed() takes all bytes unless the machine is paused (an answer of the owner is due, too much is
// in flight, or the client does not read its replies): then the owner keeps the rest and feeds it again once
// paused() is false (also when no byte is left: a request may be held inside). That is the back-pressure:
// nothing here grows beyond ServerLimits. Malformed bytes end the connection (Failed) and nothing else; a
// wrong request whose length is known gets an error reply and the stream goes on. Input never trips an
// assertion; answering a request twice does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "block/core/buffer.h"
#include "block/core/nbd_bytes.h"
#include "block/core/nbd_protocol.h"
#include "block/core/peer.h"
#include "block/core/types.h"

namespace moor::block::nbd {

// What the backend offers. Every flag is told to the client as it stands here: set only what holds.
struct ExportDescription {
  std::uint64_t size = 0;
  bool read_only = false;
  bool flush = true;
  bool fua = true;
  bool trim = true;
  bool write_zeroes = true;
  bool fast_zero = false;  // the backend answers ENOTSUP at once where zeroing is no faster than writing
  bool multi_conn = true;  // a flush on one connection covers answered writes of all others
  bool rotational = false;
  bool block_status = true;
  std::uint32_t minimum_block = 1;
  std::uint32_t preferred_block = kBlockSize;
  std::uint32_t maximum_payload = kMaxRequestBytes;
  std::string name;         // canonical; told when the client asks for it
  std::string description;  // likewise
  std::string export_id;    // ours, likewise: told to clients that ask, when there is one
  bool standby = false;     // ours, likewise
  bool private_commands = false;
  std::vector<std::pair<Info, std::vector<std::byte>>> private_infos;
};

enum class TlsMode : std::uint8_t { none, offered, required };

struct ServerLimits {
  std::uint32_t requests = 256;                           // in flight
  std::uint64_t request_bytes = 2ull * kMaxRequestBytes;  // their payloads; one request always passes
  std::uint64_t out_bytes = 8u << 20;  // replies not yet sent, beyond which nothing more is read
};

// Identifies a request on its connection until it is answered.
struct RequestTag {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  bool operator==(const RequestTag&) const = default;
};

struct Request {
  RequestTag tag;
  std::uint16_t command = 0;  // a Command or a private one
  std::uint16_t flags = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  Slice payload;  // write: the data; private command: its body

  bool has(std::uint16_t flag) const { return (flags & flag) != 0; }
  bool is(Command which) const { return command == static_cast<std::uint16_t>(which); }
};

// Answer with list().
struct ListRequested {};
// Answer with accept() or refuse(), now or later. `go`: the client wants to use it, not only to ask.
struct OpenRequested {
  std::string name;
  bool go = false;
};
// Bytes after the ones consumed belong to TLS. Send out() first, in the clear; then call tls_started().
struct TlsRequested {};
// The client left in good order and every request of it has been answered. Send out(), then close.
struct Disconnected {};
// The stream is of no use any more. Requests in flight may still be answered, to nobody. Close.
struct Failed {
  std::string why;
};
using ServerEvent = std::variant<Request, ListRequested, OpenRequested, TlsRequested, Disconnected, Failed>;

struct ReadPiece {
  std::uint32_t length = 0;
  Slice data;  // empty: these bytes are zeros
};

class Server {
 public:
  Server(BufferPool& pool, TlsMode tls = TlsMode::none, ServerLimits limits = {});

  std::size_t feed(Bytes bytes);
  // A large payload under way: the owner may receive straight into it instead of feeding copies.
  Slice direct_space() const;
  void direct_filled(std::size_t bytes);
  bool paused() const;
  std::vector<ServerEvent> take_events() { return std::exchange(events_, {}); }
  // Gives the vector back after use, so that the busy path does not allocate.
  void swap_events(std::vector<ServerEvent>& events) { events_.swap(events); }
  OutQueue& out() { return out_; }

  // Negotiation. Each answers the one event that is open; asserted.
  struct ListedExport {
    std::string name;
    std::string description;
  };
  void list(const std::vector<ListedExport>& exports);
  // While an open waits for its answer: the client wants to be told this.
  bool asked_for(Info type) const;
  void accept(ExportDescription description);
  void refuse(OptionReply error, std::string_view message);
  void tls_started();

  // Transmission. Each takes the tag out of flight.
  void reply_done(RequestTag tag);
  void reply_error(RequestTag tag, std::uint32_t error, std::string_view message = {});
  // The pieces follow each other and cover the request exactly; asserted.
  void reply_read(RequestTag tag, std::vector<ReadPiece> pieces);
  void reply_read(RequestTag tag, Slice data);
  // At least one extent, from the request's offset on; what lies beyond the request is cut.
  void reply_block_status(RequestTag tag, const std::vector<BlockStatus>& extents);
  void reply_private(RequestTag tag, Bytes body);
  // The last word: why this connection ends (see peer_wire.h). Then close.
  void farewell(std::string_view message);
  // The size has grown; later requests are checked against the new one.
  void resize(std::uint64_t size) { export_.size = size; }

  bool in_transmission() const { return phase_ >= Phase::request_header && phase_ <= Phase::skip; }
  bool structured() const { return structured_; }
  std::uint32_t in_flight() const { return in_flight_; }
  bool ended() const { return phase_ == Phase::ended; }

 private:
  enum class Phase : std::uint8_t {
    client_flags,
    option_header,
    option_body,
    waiting,  // for list(), accept(), refuse() or tls_started()
    request_header,
    payload,
    skip,
    draining,  // DISC seen, requests in flight
    ended,
  };
  struct Slot {
    std::uint64_t cookie = 0;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    std::uint32_t generation = 0;
    std::uint16_t command = 0;
    std::uint16_t flags = 0;
    bool busy = false;
  };
  struct Refusal {
    std::uint32_t error;
    std::string_view message;
  };

  void send_greeting();
  void fail(std::string why);
  void step_header(Bytes whole);

  void on_client_flags(Bytes whole);
  void on_option_header(Bytes whole);
  void on_option(Bytes body);
  void on_export_name(Bytes body);
  void on_start_tls(Bytes body);
  void on_info_or_go(Bytes body);
  void on_meta_context(Bytes body);
  void option_reply(OptionReply type, Bytes body = {});
  void option_error(OptionReply type, std::string_view message);
  void info_replies();
  void end_option();

  void on_request_header(Bytes whole);
  std::optional<Refusal> check(const Request& request) const;
  std::optional<Refusal> check_flags(const Request& request) const;
  void begin_skip(const Request& request, std::uint64_t cookie, const Refusal& refusal);
  void feed_payload(Bytes& bytes);
  void feed_skip(Bytes& bytes);
  void payload_complete();
  bool has_room_for(std::uint32_t length) const;
  std::uint64_t charge_of(const Slot& slot) const;
  RequestTag occupy(const Request& request, std::uint64_t cookie);
  Slot release(RequestTag tag);
  void write_error(std::uint64_t cookie, std::uint32_t error, std::string_view message);
  std::byte* chunk(const Slot& slot, ReplyType type, std::uint32_t length, std::size_t extra, bool done);
  void simple_reply(std::uint64_t cookie, std::uint32_t error);
  std::uint16_t transmission_flags() const;

  BufferPool* pool_;
  TlsMode tls_;
  ServerLimits limits_;
  OutQueue out_;
  std::vector<ServerEvent> events_;
  std::vector<std::byte> head_;  // a header that came in parts
  Phase phase_ = Phase::client_flags;

  std::uint32_t option_ = 0;
  std::uint32_t option_bytes_ = 0;
  bool no_zeroes_ = false;
  bool secured_ = false;
  bool structured_ = false;
  std::optional<std::string> context_export_;  // base:allocation was chosen for this export name
  bool allocation_ = false;                    // …and that export is the one in use
  std::string open_name_;
  std::vector<Info> wanted_infos_;
  ExportDescription export_;

  Request incoming_;
  std::uint64_t incoming_cookie_ = 0;
  std::size_t payload_filled_ = 0;
  std::uint64_t skip_left_ = 0;
  Refusal skip_refusal_{};
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t in_flight_ = 0;
  std::uint64_t in_flight_bytes_ = 0;
  bool blocked_ = false;  // a request header is kept in head_ until there is room for its bytes
  std::uint32_t blocked_bytes_ = 0;
};

}  // namespace moor::block::nbd
