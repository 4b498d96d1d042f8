// The client's side of one NBD connection as a step machine without I/O: engine to replica, device to engine.
// The owner feeds what arrives, looks at the events and sends what is in out().
//
// One thread. feed() takes all bytes, except at TlsReady, where those behind belong to TLS. Requests may be
// sent once Ready was seen; replies come in any order, each with the id that the owner gave. Whatever does
// not belong into the stream (wrong magic, unknown cookie, a range outside the request, a read that was not
// covered byte for byte) ends it with ClientFailed: then nothing is known of the requests that were not
// answered. Input never trips an assertion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "block/core/buffer.h"
#include "block/core/nbd_bytes.h"
#include "block/core/nbd_protocol.h"
#include "block/core/peer.h"
#include "block/core/types.h"

namespace moor::block::nbd {

struct ClientOptions {
  std::string export_name;
  bool tls = false;          // ask for STARTTLS first, and go no further without it
  bool block_status = true;  // ask for base:allocation; a server may lack it
  std::uint32_t max_in_flight = 1024;
  bool watch_standby = false;  // ask whether the engine is a standby; it hangs up when that ends
};

// The export as the server told it.
struct RemoteExport {
  std::uint64_t size = 0;
  std::uint16_t flags = 0;
  bool structured = false;
  bool block_status = false;
  std::uint32_t minimum_block = 1;
  std::uint32_t preferred_block = 4096;
  std::uint32_t maximum_payload = kMaxRequestBytes;
  std::vector<std::byte> hello_answer;  // the private information, if there was one
  std::string export_id;                // likewise; empty: a server that is none of ours
  bool standby = false;                 // likewise, when asked for

  bool has(std::uint16_t flag) const { return (flags & flag) != 0; }
};

struct ClientRequest {
  std::uint64_t id = 0;  // of the owner; given back with the reply
  std::uint16_t command = 0;
  std::uint16_t flags = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;  // of a private command: the size of its body
  Slice payload;             // write: the data; private command: the body; read: where to, or empty
};

struct ClientReply {
  std::uint64_t id = 0;
  std::uint32_t error = 0;  // 0: done
  std::string message;
  Slice data;                        // read: all of it
  std::vector<BlockStatus> extents;  // block_status
  std::vector<std::byte> body;       // private command
};

struct TlsReady {};  // the server agreed; bytes behind are TLS. Then call tls_started().
struct Ready {
  RemoteExport remote;
};
struct Refused {
  OptionReply error = OptionReply::error_unsupported;
  std::string message;
};
// The server's last word before it closes (see peer_wire.h).
struct Farewell {
  std::string message;
};
struct ClientFailed {
  std::string why;
};
using ClientEvent = std::variant<ClientReply, TlsReady, Ready, Refused, Farewell, ClientFailed>;

class Client {
 public:
  Client(BufferPool& pool, ClientOptions options);

  std::size_t feed(Bytes bytes);
  Slice direct_space() const;
  void direct_filled(std::size_t bytes);
  std::vector<ClientEvent> take_events() { return std::exchange(events_, {}); }
  void swap_events(std::vector<ClientEvent>& events) { events_.swap(events); }
  OutQueue& out() { return out_; }

  // After Ready, and only while can_send(); asserted.
  void send(ClientRequest request);
  bool can_send() const { return is_ready() && in_flight_ < options_.max_in_flight; }
  // Tells the server in good order; no reply will come.
  void disconnect();
  void tls_started();

  bool is_ready() const { return phase_ >= Phase::reply_start && phase_ <= Phase::data; }
  bool ended() const { return phase_ == Phase::ended; }
  std::uint32_t in_flight() const { return in_flight_; }

 private:
  enum class Phase : std::uint8_t {
    greeting,
    option_header,
    option_body,
    tls,
    reply_start,  // the first 16 bytes, by which simple and structured replies are told apart
    chunk_rest,   // the last 4 of a chunk's header
    chunk_body,   // small bodies
    read_offset,  // the 8 bytes before data
    data,
    ended,
  };
  struct Slot {
    ClientRequest request;
    std::uint32_t generation = 0;
    bool busy = false;
    std::uint32_t chunks = 0;
    std::uint32_t error = 0;
    std::string message;
    std::vector<Extent> covered;
    std::vector<BlockStatus> extents;
    std::vector<std::byte> body;
  };

  void step(Bytes whole);
  void fail(std::string why);
  std::size_t needed() const;

  void on_greeting(Bytes whole);
  void send_option(Option option, Bytes body);
  void send_next_option();
  void send_go();
  void on_option_header(Bytes whole);
  void on_option_reply(Bytes body);
  void on_option_error(OptionReply type, std::string_view message);
  void on_info(Bytes body);
  void become_ready();

  Slot* find(std::uint64_t cookie);
  void on_reply_start(Bytes whole);
  void on_simple(std::uint32_t error);
  void on_chunk_header();
  void on_chunk_body(Bytes body);
  void on_error_chunk(Bytes body);
  void on_extents_chunk(Bytes body);
  bool cover(Slot& slot, const Extent& extent);
  bool is_covered(Slot& slot) const;
  void on_read_offset(std::uint64_t offset);
  void feed_data(Bytes& bytes);
  void data_complete();
  void end_chunk();
  void finish(Slot& slot);

  BufferPool* pool_;
  ClientOptions options_;
  OutQueue out_;
  std::vector<ClientEvent> events_;
  std::vector<std::byte> head_;
  Phase phase_ = Phase::greeting;

  Option option_ = Option::go;
  OptionReply option_reply_ = OptionReply::ack;
  std::uint32_t option_bytes_ = 0;
  std::uint32_t option_replies_ = 0;
  bool secured_ = false;
  std::uint32_t context_id_ = 0;
  bool has_size_ = false;
  RemoteExport remote_;

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t in_flight_ = 0;
  std::uint64_t cookie_ = 0;
  std::uint16_t chunk_flags_ = 0;
  std::uint16_t chunk_type_ = 0;
  std::uint32_t chunk_bytes_ = 0;
  std::uint32_t current_ = 0;  // slot of the chunk being read
  std::size_t data_at_ = 0;    // where the data goes, in the request's buffer
  std::size_t data_left_ = 0;
};

}  // namespace moor::block::nbd
