// Serves the control protocol on a unix socket. A program registers what it can do; a handler answers through
// its Responder, at once or later. One loop; the server outlives nothing it was given.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"
#include "base/result.h"
#include "block/core/buffer.h"
#include "block/io/address.h"
#include "block/io/loop.h"

namespace moor::block::io {

class Acceptor;
class ControlServer;

// The duty to answer one call. Dropped without an answer it says `internal`, so that no client waits for
// ever. May outlive the connection and the server: the answer then goes nowhere.
class Responder {
 public:
  Responder(Responder&&) noexcept;
  Responder& operator=(Responder&&) noexcept;
  ~Responder();
  void reply(Json result);
  void fail(const Error& error);
  void finish(Result<Json> result);

 private:
  friend class ControlServer;
  Responder(std::weak_ptr<ControlServer*> server, std::uint64_t session, std::uint64_t call);
  std::weak_ptr<ControlServer*> server_;
  std::uint64_t session_ = 0;
  std::uint64_t call_ = 0;
  bool open_ = true;
};

class ControlServer {
 public:
  using Handler = std::function<void(const Json& arguments, Responder responder)>;

  // `about` goes to every client with hello.
  ControlServer(Loop& loop, BufferPool& pool, Json about);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Before listen(). An op that nobody registered is answered `unsupported`.
  void on(std::string op, Handler handler);
  Result<void> listen(const Address& address);
  // To every client that subscribed.
  void publish(std::string_view event, const Json& data);
  std::size_t sessions() const { return links_.size(); }

 private:
  friend class Responder;
  class Link;
  void accepted(Descriptor socket);
  void ended(std::uint64_t session);
  void answer(std::uint64_t session, std::uint64_t call, Result<Json> result);

  Loop& loop_;
  BufferPool& pool_;
  Json about_;
  std::map<std::string, Handler, std::less<>> handlers_;
  std::uint64_t next_ = 1;
  std::unordered_map<std::uint64_t, std::unique_ptr<Link>> links_;
  std::unique_ptr<Acceptor> acceptor_;
  std::shared_ptr<ControlServer*> self_;  // shared only to tell responders whether the server still lives
};

}  // namespace moor::block::io
