#include "block/engine/member_link.h"

#include <utility>

namespace moor::block {

namespace {
// Above what an engine admits, so that it never has to queue here.
constexpr std::uint32_t kMaxInFlight = 1u << 16;

bool is_private(PeerOp op) {
  return static_cast<std::uint16_t>(op) >= nbd::kFirstPrivateCommand;
}
}  // namespace

MemberLink::MemberLink(io::Loop& loop, BufferPool& pool, const io::Address& address,
                       engine::MemberIndex member, const Hello& hello, OnEvent on_event, OnClosed on_closed)
    : pool_(pool),
      member_(member),
      session_(hello.session),
      report_(std::move(on_event)),
      closed_(std::move(on_closed)) {
  io::NbdLinkOptions options;
  // A HELLO that cannot be said (a token too long) is a name that every replica refuses.
  options.client.export_name = encode_hello(hello).value_or("moor-hello/0");
  options.client.max_in_flight = kMaxInFlight;
  link_ = std::make_unique<io::NbdLink>(loop, pool, address, std::move(options), *this);
}

void MemberLink::send(const PeerRequest& request, Slice payload) {
  if (ended_) return;
  auto encoded = encode_request(request, std::move(payload), pool_);
  if (!encoded || !link_->can_send()) {
    return end(PeerRefusal::none, encoded ? "too many requests in flight" : encoded.error().message);
  }
  if (is_private(request.op)) private_ops_[request.id] = request.op;
  link_->send(*std::move(encoded));
}

void MemberLink::leave() {
  ended_ = true;
  link_->disconnect();
}

void MemberLink::on_event(nbd::ClientEvent event) {
  if (auto* reply = std::get_if<nbd::ClientReply>(&event)) return on_reply(std::move(*reply));
  if (const auto* ready = std::get_if<nbd::Ready>(&event)) return on_ready(*ready);
  if (const auto* refused = std::get_if<nbd::Refused>(&event)) {
    Refusal refusal = decode_refusal(refused->message);
    return end(refusal.reason, std::move(refusal.message));
  }
  if (const auto* farewell = std::get_if<nbd::Farewell>(&event))
    last_word_ = decode_refusal(farewell->message);
  if (const auto* failed = std::get_if<nbd::ClientFailed>(&event)) end(last_word_.reason, failed->why);
}

void MemberLink::on_ready(const nbd::Ready& ready) {
  auto answer = decode_hello_answer(ready.remote.hello_answer);
  if (!answer) return end(PeerRefusal::damaged, "no replica: " + answer.error().message);
  ready_ = true;
  report_(engine::PeerConnected{member_, session_, *std::move(answer), ready.remote.export_id});
}

void MemberLink::on_reply(nbd::ClientReply reply) {
  if (ended_) return;
  engine::PeerReplied replied;
  replied.member = member_;
  replied.session = session_;
  const auto found = private_ops_.find(reply.id);
  if (found == private_ops_.end()) {
    replied.reply.id = reply.id;
    replied.reply.error = reply.error;
    replied.reply.message = std::move(reply.message);
    replied.reply.extents = std::move(reply.extents);
    replied.payload = std::move(reply.data);
  } else {
    auto decoded = decode_reply(found->second, reply);
    private_ops_.erase(found);
    if (!decoded) return end(PeerRefusal::none, decoded.error().message);
    replied.reply = *std::move(decoded);
    replied.reply.id = reply.id;
  }
  report_(std::move(replied));
}

void MemberLink::on_closed(std::optional<Error> why) {
  OnClosed closed = closed_;
  if (!ended_) {
    end(last_word_.reason, !last_word_.message.empty() ? last_word_.message
                           : why                       ? why->message
                                                       : "connection closed");
    return closed(nullptr);
  }
  closed(this);
}

// Who hears of the end lets this link go: nothing of it may be touched afterwards.
void MemberLink::end(PeerRefusal reason, std::string message) {
  if (std::exchange(ended_, true)) return;
  const OnEvent report = report_;
  if (ready_) {
    report(engine::PeerLost{member_, session_, reason, std::move(message)});
  } else {
    report(engine::PeerRefused{member_, session_, reason, std::move(message)});
  }
}

}  // namespace moor::block
