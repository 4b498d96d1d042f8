// One accepted connection: reads a request, lets the handler answer it, writes the answer, again and again.
// One task per connection runs all of that; the server's tick looks at the deadline from outside. Private to
// src/http.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "http/server_inside.h"

namespace moor::http {

class Connection final : private Transport::Monitor, private StreamWriter {
 public:
  Connection(Server::Inside& server, std::shared_ptr<Transport> transport, std::string peer_address);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  static Task<Result<void>> serve(std::unique_ptr<Connection> connection);
  // From the server's tick: acts if what the connection is at has taken too long.
  void check_deadline(TimePoint now);
  // The server stops: idle connections close, streams end, others finish their request and then close.
  void begin_stop();
  // The patience with what is under way has ended.
  void end_patience();

 private:
  enum class Phase { handshake, idle, head, body, handling, streaming, writing, closing };
  enum class Next { go_on, close, linger };
  enum class Push { done, blocked, dead };

  // What belongs to one request.
  struct Exchange {
    explicit Exchange(ServerStats& counted) : stats(counted) {}
    ~Exchange();
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    ServerStats& stats;
    RequestHead head;
    Request request;
    std::optional<Refusal> refusal;
    std::optional<Lane> lane;  // once it counts as in flight
    std::size_t charged = 0;   // bytes of body that count as held
    bool skipped_blank = false;
  };

  Task<bool> run();
  Task<bool> shake_hands();
  // Both: true when there is something to answer (a request or a refusal), false when the connection ends.
  Task<bool> read_head(Exchange& exchange);
  Task<bool> read_body(Exchange& exchange);
  Task<Next> answer(Exchange& exchange);
  Task<Next> handle(Exchange& exchange);
  Task<Next> send(Exchange& exchange, Response response, bool close);
  Task<Next> send_stream(Exchange& exchange, Response response);
  Task<Next> refuse(Exchange& exchange);
  Task<bool> linger();

  bool take_head(Exchange& exchange);
  bool take_body(Exchange& exchange, BodyDecoder& decoder, std::string_view data, std::size_t& used);
  bool admit(Exchange& exchange);
  Transport::Outcome fill();
  bool render_head(const Exchange& exchange, const Response& response, bool close, std::string& out);
  // Writes what the kernel takes now; `first` moves past what is done.
  Push push(std::vector<Slice>& slices, std::size_t& first);
  Task<bool> write_all(std::vector<Slice> slices, Phase phase);
  Task<Result<void>> write_chunk(std::vector<Slice> parts);
  void enter(Phase phase, Duration timeout);
  void client_left();
  Error gone() const;

  bool on_readable() override;
  Task<Result<void>> write(std::string chunk) override;
  Task<Result<void>> write(SharedText chunk) override;
  Task<Result<void>> write(std::vector<SharedText> parts) override;

  Server::Inside& server_;
  std::shared_ptr<Transport> transport_;
  std::list<Connection*>::iterator place_;
  Peer peer_;
  std::string input_;  // read and not yet used
  std::size_t scanned_ = 0;
  Phase phase_ = Phase::handshake;
  TimePoint deadline_ = TimePoint::never();
  bool timed_out_ = false;
  bool overdue_ = false;  // the handler was told to stop and has not
  bool peer_gone_ = false;
  bool chunked_ = false;
  std::unique_ptr<CancelSource> cancel_;  // of the request under way
};

}  // namespace moor::http
