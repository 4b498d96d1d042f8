// Takes connections from a listening socket, one after the other. Out of descriptors or memory it waits a
// moment and goes on: an overloaded process must not end up deaf.
#pragma once

#include <functional>

#include "block/io/address.h"
#include "block/io/loop.h"

namespace moor::block::io {

class Acceptor {
 public:
  Acceptor(Loop& loop, Descriptor listener, std::function<void(Descriptor)> accepted);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  class Core;
  Core* core_;
  Loop* loop_;
};

}  // namespace moor::block::io
