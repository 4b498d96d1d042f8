// A fixture for tests of the two engines of a move: members answer a start at once and data requests when
// told to; the source of a standby does everything when told to.
#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>

#include "block/core/engine.h"

namespace moor::block::engine {

namespace test_move {

using std::chrono::milliseconds;
inline constexpr std::uint64_t kSize = 64 << 20;

struct Sent {
  MemberIndex member = 0;
  SessionId session = 0;
  PeerRequest request;
};

class Move : public ::testing::Test {
 protected:
  Move() {
    config_.volume = "v";
    config_.epoch = 7;
    config_.engine = "e";
    config_.token = "secret";
    config_.fresh_export_id = "v-7";
    config_.export_id = "x";
    config_.clear_interval = Instant(0);
    for (const char* name : {"a", "b"}) {
      MemberConfig member;
      member.name = name;
      config_.members.push_back(member);
    }
    answer_.size = kSize;
    answer_.served = 3;
    answer_.wrote = 3;
    answers_ = {{0, answer_}, {1, answer_}, {2, answer_}};
  }
  void begin() {
    engine_.emplace(config_, pool_);
    feed(Started{});
  }
  void begin_standby() {
    config_.standby = true;
    config_.source = "tcp:s:1";
    begin();
  }
  void feed(Event event) {
    Actions actions;
    engine_->step(std::move(event), now_, actions);
    for (Action& action : actions) perform(action);
    while (!later_.empty()) {
      Event next = std::move(later_.front());
      later_.pop_front();
      feed(std::move(next));
    }
  }
  void perform(Action& action) {
    if (auto* connect = std::get_if<Connect>(&action)) {
      EXPECT_GT(connect->hello.session, sessions_[connect->member]);
      sessions_[connect->member] = connect->hello.session;
      hellos_[connect->member] = connect->hello;
      ++connects_[connect->member];
      if (connect->member == kSourceLink) return;
      serving_ = false;
      if (silent_.contains(connect->member)) return;
      later_.push_back(PeerConnected{connect->member, connect->hello.session, answers_[connect->member], ""});
    } else if (auto* send = std::get_if<SendPeer>(&action)) {
      const bool data = static_cast<std::uint16_t>(send->request.op) < 0x8000;
      if (send->request.op == PeerOp::unsettled && !source_is_slow_) {
        PeerReplied replied{send->member, send->session, {}, {}};
        replied.reply.id = send->request.id;
        replied.reply.error = handover_ ? 0 : EINVAL;
        replied.reply.unsettled = handover_;
        return later_.push_back(std::move(replied));
      }
      if (send->member == kSourceLink || (data && serving_)) {
        return sent_.push_back({send->member, send->session, send->request});
      }
      if (send->request.op == PeerOp::write || send->request.op == PeerOp::write_zeroes) {
        ++resync_writes_;
        EXPECT_TRUE(send->request.copy) << "a resync that looks like a client's write";
      }
      if (send->request.op == PeerOp::store_wrote) stored_wrote_[send->member] = send->request.argument;
      PeerReplied replied{send->member, send->session, {}, {}};
      replied.reply.id = send->request.id;
      if (send->request.op == PeerOp::read) {
        compared_[send->member].push_back({send->request.offset, send->request.length});
        replied.payload = pool_.allocate(send->request.length);
        std::fill(replied.payload.span().begin(), replied.payload.span().end(), std::byte(send->member));
      }
      later_.push_back(std::move(replied));
    } else if (auto* cut = std::get_if<Disconnect>(&action)) {
      std::erase_if(sent_, [&](const Sent& s) { return s.member == cut->member; });
      ++cuts_[cut->member];
    } else if (auto* propose = std::get_if<Propose>(&action)) {
      proposals_.push_back(*propose);
      if (confirms_) later_.push_back(MembershipConfirmed{propose->proposal});
    } else if (auto* reply = std::get_if<ReplyClient>(&action)) {
      EXPECT_FALSE(replies_.contains(reply->reply.cookie)) << "answered twice";
      order_.push_back(reply->reply.cookie);
      replies_[reply->reply.cookie] = reply->reply.error;
    } else if (auto* serve = std::get_if<Serve>(&action)) {
      serves_.push_back(*serve);
      serving_ = !serve->standby;
    } else if (auto* end = std::get_if<EndSessions>(&action)) {
      ends_.push_back(end->reopen);
    } else if (auto* exit = std::get_if<Exit>(&action)) {
      exit_ = *exit;
    } else if (auto* want = std::get_if<WantActivation>(&action)) {
      wants_.push_back(*want);
    } else if (auto* done = std::get_if<CommandDone>(&action)) {
      done_[done->id] = *done;
    } else if (auto* accept = std::get_if<ForwardAccept>(&action)) {
      accepted_.push_back(*accept);
    } else if (auto* refuse = std::get_if<ForwardRefuse>(&action)) {
      refused_.push_back(*refuse);
    } else if (auto* forward = std::get_if<ForwardReply>(&action)) {
      forward_replies_.push_back(std::move(*forward));
    } else if (auto* ended = std::get_if<ForwardEnd>(&action)) {
      forward_ends_.push_back(*ended);
    }
  }
  void client(ClientOp op, std::uint64_t offset, std::uint32_t length, std::uint64_t cookie) {
    ClientRequest request;
    request.connection = 1;
    request.cookie = cookie;
    request.op = op;
    request.offset = offset;
    request.length = length;
    if (op == ClientOp::write) request.payload = pool_.allocate(length);
    feed(ClientRequested{std::move(request)});
  }
  // The error of a command, 0 when it was done.
  std::uint32_t command(Command command) {
    const std::uint64_t id = ++last_command_;
    feed(Commanded{id, std::move(command)});
    EXPECT_TRUE(done_.contains(id)) << "not answered at once";
    return done_[id].error;
  }
  GrantView grant(Generation generation = 4) const {
    GrantView view;
    view.generation = generation;
    for (const MemberConfig& member : config_.members) view.members.push_back(member);
    return view;
  }
  void source_up(const std::string& export_id = "x", std::uint64_t size = kSize) {
    HelloAnswer answer;
    answer.size = size;
    answer.head_id = "head";
    Layer layer;
    layer.id = "l1";
    answer.chain = {layer};
    feed(PeerConnected{kSourceLink, sessions_[kSourceLink], answer, export_id});
  }
  void source_lost() {
    std::erase_if(sent_, [&](const Sent& s) { return s.member == kSourceLink; });
    feed(PeerLost{kSourceLink, sessions_[kSourceLink], PeerRefusal::none, ""});
  }
  std::vector<Sent> sent_to(MemberIndex member) const {
    std::vector<Sent> found;
    std::copy_if(sent_.begin(), sent_.end(), std::back_inserter(found),
                 [&](const Sent& s) { return s.member == member; });
    return found;
  }
  void answer(MemberIndex member, std::uint32_t error = 0) {
    const auto found =
        std::find_if(sent_.begin(), sent_.end(), [&](const Sent& s) { return s.member == member; });
    ASSERT_NE(found, sent_.end()) << "nothing was sent to " << member;
    const Sent sent = *found;
    sent_.erase(found);
    PeerReplied replied{sent.member, sent.session, {}, {}};
    replied.reply.id = sent.request.id;
    replied.reply.error = error;
    if (sent.request.op == PeerOp::read) replied.payload = pool_.allocate(sent.request.length);
    feed(std::move(replied));
  }
  void answer_all() {
    while (!sent_.empty()) answer(sent_.front().member);
  }
  bool is_answered(std::uint64_t cookie, std::uint32_t error = 0) const {
    const auto found = replies_.find(cookie);
    return found != replies_.end() && found->second == error;
  }
  void supersede() { feed(PeerLost{0, sessions_[0], PeerRefusal::superseded, ""}); }
  State state() const { return engine_->status().state; }

  Config config_;
  BufferPool pool_;
  std::optional<Engine> engine_;
  Instant now_{milliseconds(1)};
  HelloAnswer answer_;
  std::map<MemberIndex, HelloAnswer> answers_;
  std::map<MemberIndex, bool> silent_;
  std::map<MemberIndex, SessionId> sessions_;
  std::map<MemberIndex, Hello> hellos_;
  std::map<MemberIndex, int> connects_;
  std::map<MemberIndex, int> cuts_;
  std::deque<Event> later_;
  std::deque<Sent> sent_;
  std::vector<Propose> proposals_;
  std::map<std::uint64_t, std::uint32_t> replies_;
  std::vector<std::uint64_t> order_;
  std::vector<Serve> serves_;
  std::vector<bool> ends_;
  std::vector<WantActivation> wants_;
  std::map<std::uint64_t, CommandDone> done_;
  std::vector<ForwardAccept> accepted_;
  std::vector<ForwardRefuse> refused_;
  std::vector<ForwardReply> forward_replies_;
  std::vector<ForwardEnd> forward_ends_;
  std::optional<Exit> exit_;
  std::uint64_t last_command_ = 100;
  int resync_writes_ = 0;
  std::map<MemberIndex, std::vector<Extent>> compared_;  // by the resync of a start
  std::optional<Unsettled> handover_;                    // what the source says; none: it does not know
  bool source_is_slow_ = false;
  std::map<MemberIndex, Epoch> stored_wrote_;
  bool confirms_ = true;
  bool serving_ = false;
};

}  // namespace test_move

}  // namespace moor::block::engine
