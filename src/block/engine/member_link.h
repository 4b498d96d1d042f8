// One connection of an engine to a replica: HELLO on the way in, peer messages both ways, the replica's last
// word at the end. Turns NBD events into the engine's events and decides nothing. Made for one session; a new
// session is a new link. May be destroyed at any time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "block/core/engine.h"
#include "block/core/peer_wire.h"
#include "block/io/nbd_link.h"

namespace moor::block {

class MemberLink final : public io::NbdLinkHandler {
 public:
  using OnEvent = std::function<void(engine::Event)>;
  // Null: the engine was told of the end just now, and has let the link go.
  using OnClosed = std::function<void(MemberLink*)>;

  // `on_closed` follows the last event; it may destroy the link. So may every event.
  MemberLink(io::Loop& loop, BufferPool& pool, const io::Address& address, engine::MemberIndex member,
             const Hello& hello, OnEvent on_event, OnClosed on_closed);

  void send(const PeerRequest& request, Slice payload);
  // Sends what is queued and goodbye; nothing more is reported but on_closed.
  void leave();

 private:
  void on_event(nbd::ClientEvent event) override;
  void on_closed(std::optional<Error> why) override;
  void on_ready(const nbd::Ready& ready);
  void on_reply(nbd::ClientReply reply);
  void end(PeerRefusal reason, std::string message);

  BufferPool& pool_;
  engine::MemberIndex member_;
  SessionId session_;
  OnEvent report_;
  OnClosed closed_;
  std::unordered_map<std::uint64_t, PeerOp> private_ops_;  // in flight; data replies need no decoding
  Refusal last_word_;
  bool ready_ = false;
  bool ended_ = false;  // the engine has been told
  std::unique_ptr<io::NbdLink> link_;
};

}  // namespace moor::block
