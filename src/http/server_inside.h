// What the server and its connections share. Private to src/http.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/task_group.h"
#include "http/server.h"
#include "http/transport.h"

namespace moor::http {

class Connection;

struct Server::Inside {
  Inside(Loop& on, Handler& to, ServerOptions with)
      : loop(on), handler(to), options(std::move(with)), group(on), scratch(64 * 1024, '\0') {}

  struct Listener {
    std::shared_ptr<Transport> transport;
    std::shared_ptr<const TlsContext> tls;
    std::string unix_path;  // removed at the end
  };

  Task<Result<void>> accept_loop(Listener* listener);
  // False: pause, descriptors have run out.
  bool accept_waiting(Listener& listener);
  void start_tick();
  void tick();
  const std::string& date_line();
  Response render(const Refusal& refusal) const;

  Loop& loop;
  Handler& handler;
  ServerOptions options;
  ServerStats stats;
  TaskGroup group;
  std::list<Listener> listeners;
  std::list<Connection*> connections;  // each removes itself at its end
  // Read into by whichever connection is at it: no connection keeps a buffer of its own while idle.
  std::string scratch;
  std::string date;
  std::int64_t date_second = -1;
  Executor::TimerId tick_timer = 0;
  bool ticking = false;
  bool stopping = false;
  bool stopped = false;
};

}  // namespace moor::http
