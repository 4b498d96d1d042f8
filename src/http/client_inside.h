// The client's connections and their pool. Private to src/http.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/pool.h"
#include "http/client.h"
#include "http/sockets.h"
#include "http/transport.h"

namespace moor::http {

// What the connections of one client have in common; it outlives them.
struct ClientShared {
  std::size_t connections = 0;
  std::string scratch = std::string(64 * 1024, '\0');  // read into by whichever connection is at it
};

// One connection to the endpoint. Used by one exchange at a time.
class ClientConnection {
 public:
  ClientConnection(std::shared_ptr<Transport> transport, ClientShared& shared)
      : transport_(std::move(transport)), shared_(shared) {
    ++shared_.connections;
  }
  ~ClientConnection();
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  Transport& transport() { return *transport_; }
  std::shared_ptr<Transport> share() const { return transport_; }
  // Nothing to read: neither an end nor bytes that belong to no request.
  bool is_quiet();

  struct Sent {
    Result<void> result;
    std::size_t bytes = 0;
  };
  Task<Sent> send(std::vector<Slice> slices);
  // The head of the answer, interim ones (1xx) left out.
  Task<Result<ResponseHead>> read_head(Method method, const HeadLimits& limits);
  // Feeds the decoder until it gives something or ends.
  Task<Result<void>> read_body(BodyDecoder& decoder, std::string& out);

  bool answered = false;  // a byte of the answer has come
  bool reused = false;
  TimePoint idle_since;

 private:
  // Bytes read; 0: the peer has closed.
  Task<Result<std::size_t>> fill();

  std::shared_ptr<Transport> transport_;
  ClientShared& shared_;
  std::string input_;
};

class Client::Inside : public std::enable_shared_from_this<Client::Inside> {
 public:
  Inside(Loop& loop, ClientOptions options, std::shared_ptr<const TlsContext> tls)
      : loop_(loop), options_(std::move(options)), tls_(std::move(tls)) {}
  ~Inside();

  struct Opened {
    std::unique_ptr<ClientConnection> connection;
    ResponseHead head;
  };
  Task<Result<Opened>> exchange(Request request, CancelToken token);
  void give_back(std::unique_ptr<ClientConnection> connection);
  void close_all();

  Loop& loop() { return loop_; }
  const ClientOptions& options() const { return options_; }
  std::size_t connections() const { return shared_.connections; }
  std::size_t idle() const { return idle_.size(); }

 private:
  struct Attempt {
    Result<Opened> result;
    bool may_retry = false;
  };
  // By reference: exchange() awaits it and holds both.
  Task<Attempt> attempt(const Request& request, const std::string& head, bool fresh, CancelToken token);
  Task<Result<std::unique_ptr<ClientConnection>>> connect(CancelToken token);
  Task<Result<std::unique_ptr<ClientConnection>>> connect_to(SocketAddress address, CancelToken token);
  Task<Result<std::vector<SocketAddress>>> addresses();
  std::unique_ptr<ClientConnection> take_idle();
  void drop_old();
  Result<std::string> render_head(const Request& request) const;

  Loop& loop_;
  ClientOptions options_;
  std::shared_ptr<const TlsContext> tls_;
  std::unique_ptr<Pool> resolver_;  // made when the first name must be looked up
  ClientShared shared_;
  std::deque<std::unique_ptr<ClientConnection>> idle_;  // the longest idle first
  Executor::TimerId timer_ = 0;
  bool timer_runs_ = false;
  bool closed_ = false;
};

}  // namespace moor::http
