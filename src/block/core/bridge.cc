#include "block/core/bridge.h"

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/plant.h"

namespace moor::block::bridge {

namespace {

bool is_change(Op op) {
  return op == Op::write || op == Op::write_zeroes;
}

bool overlap(const Request& a, const Request& b) {
  return a.offset < b.offset + b.length && b.offset < a.offset + a.length;
}

nbd::Command command_of(Op op) {
  switch (op) {
    case Op::read: return nbd::Command::read;
    case Op::write: return nbd::Command::write;
    case Op::flush: return nbd::Command::flush;
    case Op::write_zeroes: return nbd::Command::write_zeroes;
  }
  MOOR_UNREACHABLE("an op without a command");
}

}  // namespace

void Bridge::step(Event event, Actions& actions) {
  actions_ = &actions;
  std::visit([this](auto& alternative) { on(alternative); }, event);
  actions_ = nullptr;
}

// What the export cannot do is said at once; before the first connection nothing is known.
int Bridge::refusal(const Request& request) const {
  if (state_ == State::ended) return EIO;
  if (state_ == State::starting) return EAGAIN;
  if (request.op == Op::flush) return 0;
  if (request.offset > remote_.size || request.length > remote_.size - request.offset) return EINVAL;
  if (is_change(request.op) && remote_.has(nbd::kReadOnly)) return EPERM;
  if (request.op == Op::write_zeroes) return remote_.has(nbd::kSendWriteZeroes) ? 0 : EOPNOTSUPP;
  return request.length > std::min(remote_.maximum_payload, kMaxRequestBytes) ? EINVAL : 0;
}

void Bridge::on(Submit& event) {
  MOOR_ASSERT(has_room());
  const Number number = ++last_;
  const auto open = open_.emplace(number, Open{std::move(event.request)}).first;
  const Request& request = open->second.request;
  if (const int error = refusal(request); error != 0) return answer(open, error, {});
  // A server without FLUSH keeps nothing back; an empty range is done.
  const bool nothing_to_do = request.op == Op::flush ? !remote_.has(nbd::kSendFlush) : request.length == 0;
  if (nothing_to_do || (request.op == Op::flush && MOOR_PLANT("bridge-flush-lies")))
    return answer(open, 0, {});
  if (must_wait(number, open->second)) {
    ++waiting_;
    ++statistics_.waited;
    return;
  }
  if (state_ == State::up) send(number, open->second);
}

// Earlier changes only: a change need not wait for a read under way, which may see either value.
bool Bridge::must_wait(Number number, const Open& open) const {
  if (open.request.op == Op::flush) return false;
  for (const auto& [earlier, other] : open_) {
    if (earlier >= number) return false;
    if (is_change(other.request.op) && overlap(other.request, open.request)) return true;
  }
  return false;
}

void Bridge::send(Number number, Open& open) {
  nbd::ClientRequest out;
  out.id = number;
  out.command = static_cast<std::uint16_t>(command_of(open.request.op));
  if (open.request.no_hole) out.flags |= nbd::kFlagNoHole;
  if (open.request.op != Op::flush) {
    out.offset = open.request.offset + open.done;
    out.length = static_cast<std::uint32_t>(std::min(open.request.length - open.done, kMaxRangeBytes));
  }
  out.payload = open.request.payload;
  statistics_.resent += open.was_sent && !open.sent ? 1 : 0;
  open.sent = open.was_sent = true;
  actions_->emplace_back(Send{std::move(out)});
}

// In the order of arrival, so that of several waiters for one range the first goes first.
void Bridge::send_waiting() {
  if (waiting_ == 0 || state_ != State::up) return;
  for (auto& [number, open] : open_) {
    if (open.sent || must_wait(number, open)) continue;
    MOOR_ASSERT(waiting_ > 0);
    --waiting_;
    send(number, open);
  }
}

void Bridge::on(Up& event) {
  if (state_ == State::ended) return;
  MOOR_ASSERT(state_ != State::up && event.connection > connection_);
  const bool first = state_ == State::starting;
  if (!first) {
    if (event.remote.export_id.empty()) return end("the server tells no export id, so nothing is proven");
    if (event.remote.export_id != remote_.export_id && !MOOR_PLANT("bridge-ignores-export-id")) {
      return end("the export id has changed from " + remote_.export_id + " to " + event.remote.export_id);
    }
    if (event.remote.size < remote_.size) return end("the volume has become smaller");
    // A flag that is gone would turn a promise already made (a flush that means something) into a lie.
    if ((remote_.flags & ~event.remote.flags) != 0) return end("the export has lost an ability");
  }
  const bool grown = !first && event.remote.size > remote_.size;
  remote_ = std::move(event.remote);
  remote_.hello_answer = {};
  connection_ = event.connection;
  state_ = State::up;
  ++statistics_.connections;
  if (grown) actions_->emplace_back(Resized{remote_.size});
  waiting_ = 0;
  for (auto& [number, open] : open_) {
    if (must_wait(number, open)) {
      ++waiting_;
    } else if (!open.was_sent || !MOOR_PLANT("bridge-does-not-resend")) {
      send(number, open);
    }
  }
}

void Bridge::on(Down& event) {
  if (event.connection != connection_ || state_ != State::up) return;
  state_ = State::down;
  for (auto& [number, open] : open_) open.sent = false;
}

void Bridge::on(Replied& event) {
  if (event.connection != connection_ || state_ != State::up) return;  // of a connection given up
  const auto found = open_.find(event.reply.id);
  if (found == open_.end() || !found->second.sent) return;
  Open& open = found->second;
  if (event.reply.error == nbd::kErrShutdown) {
    // An engine that drains has not done this. The one that follows will.
    actions_->emplace_back(DropConnection{});
    return;
  }
  if (event.reply.error != 0) return answer(found, static_cast<int>(event.reply.error), {});
  if (open.request.op == Op::write_zeroes) {
    open.done += std::min(open.request.length - open.done, kMaxRangeBytes);
    if (open.done < open.request.length) return send(found->first, open);
  }
  answer(found, 0, std::move(event.reply.data));
}

void Bridge::on(Abort& event) {
  end(std::move(event.why));
}

// Another id found this way is no reason to end: the connection that clients use still stands.
void Bridge::on(Looked& event) {
  const bool known = state_ == State::up || state_ == State::down;
  if (!known || event.remote.export_id.empty() || event.remote.export_id != remote_.export_id) return;
  if (event.remote.size <= remote_.size) return;
  remote_.size = event.remote.size;
  actions_->emplace_back(Resized{remote_.size});
}

void Bridge::answer(std::map<Number, Open>::iterator open, int error, Slice data) {
  const Request& request = open->second.request;
  switch (request.op) {
    case Op::read:
      ++statistics_.reads;
      statistics_.read_bytes += error == 0 ? request.length : 0;
      break;
    case Op::write:
      ++statistics_.writes;
      statistics_.written_bytes += error == 0 ? request.length : 0;
      break;
    case Op::flush: ++statistics_.flushes; break;
    case Op::write_zeroes: ++statistics_.zeroes; break;
  }
  statistics_.failed += error != 0 ? 1 : 0;
  const bool frees = is_change(request.op);
  actions_->emplace_back(Answer{request.id, request.op, request.length, error, std::move(data)});
  open_.erase(open);
  if (frees) send_waiting();
}

void Bridge::end(std::string why) {
  if (state_ == State::ended) return;
  state_ = State::ended;
  why_ended_ = std::move(why);
  waiting_ = 0;
  while (!open_.empty()) answer(open_.begin(), EIO, {});
  actions_->emplace_back(Ended{why_ended_});
}

}  // namespace moor::block::bridge
