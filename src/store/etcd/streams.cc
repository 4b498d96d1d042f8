// The two streaming calls. A reactor's reactions run on gRPC's threads and do nothing but hand over.
#include <grpcpp/grpcpp.h>

#include "base/assert.h"
#include "store/etcd/calls.h"
#include "store/etcd/etcd.grpc.pb.h"

namespace moor::store::etcd {
namespace {
namespace pb = etcdserverpb;

WatchMessage to_message(pb::WatchResponse& response) {
  WatchMessage message;
  message.fragment = response.fragment();
  message.cancelled = response.canceled();
  message.compacted = response.compact_revision();
  message.reason = std::move(*response.mutable_cancel_reason());
  message.events.reserve(static_cast<std::size_t>(response.events_size()));
  for (pb::Event& event : *response.mutable_events()) {
    pb::KeyValue& kv = *event.mutable_kv();
    message.events.push_back({event.type() == pb::Event::PUT,
                              {std::move(*kv.mutable_key()), std::move(*kv.mutable_value()),
                               kv.create_revision(), kv.mod_revision(), static_cast<LeaseId>(kv.lease())}});
  }
  return message;
}

// Reads only when told to: what the reader has not asked for stays in etcd, held back by HTTP/2's flow
// control. The hold keeps the call open while no read is under way. The lock guards the few flags that both
// sides look at: the executor asks and cancels, gRPC's threads answer. The reactor owns itself until OnDone.
class WatchReactor final : public grpc::ClientBidiReactor<pb::WatchRequest, pb::WatchResponse>,
                           public WatchCall,
                           public std::enable_shared_from_this<WatchReactor> {
 public:
  WatchReactor(const CallEnv& env, WatchHandlers handlers)
      : executor_(env.executor),
        calls_(env.calls),
        handlers_(std::make_shared<WatchHandlers>(std::move(handlers))),
        stub_(pb::Watch::NewStub(env.channel)) {}

  void start(std::string key, std::string range_end, EtcdRevision from) {
    self_ = shared_from_this();
    context_.AddMetadata("hasleader", "true");
    pb::WatchCreateRequest& create = *request_.mutable_create_request();
    create.set_key(std::move(key));
    create.set_range_end(std::move(range_end));
    create.set_start_revision(from);
    create.set_fragment(true);
    reading_ = true;
    calls_->add(this, [self = shared_from_this()] { self->cancel(); });
    stub_->async()->Watch(&context_, this);
    AddHold();
    StartWrite(&request_);
    StartRead(&response_);
    StartCall();
  }
  void read_more() override {
    {
      const std::lock_guard lock(mutex_);
      if (reading_ || !held_) return;
      reading_ = true;
    }
    response_.Clear();
    StartRead(&response_);
  }
  void cancel() override {
    context_.TryCancel();
    bool release = false;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      release = !reading_ && std::exchange(held_, false);
    }
    if (release) RemoveHold();
  }

  void OnReadDone(bool ok) override {
    bool release = false;
    {
      const std::lock_guard lock(mutex_);
      reading_ = false;
      release = (!ok || cancelled_) && std::exchange(held_, false);
    }
    if (release) {
      RemoveHold();
      return;
    }
    auto message = std::make_shared<WatchMessage>(to_message(response_));
    executor_.post([message, handlers = handlers_] { handlers->on_message(std::move(*message)); });
  }
  void OnDone(const grpc::Status& status) override {
    CallError error = classify(static_cast<int>(status.error_code()), status.error_message());
    // The handlers go along: they belong to the executor's thread, their end too.
    executor_.post([error = std::move(error), handlers = std::move(handlers_)]() mutable {
      handlers->on_end(std::move(error));
    });
    const auto self = std::move(self_);
    calls_->remove(this);
  }

 private:
  Executor& executor_;
  std::shared_ptr<Calls> calls_;
  std::shared_ptr<WatchHandlers> handlers_;
  std::unique_ptr<pb::Watch::Stub> stub_;
  std::shared_ptr<WatchReactor> self_;
  grpc::ClientContext context_;
  pb::WatchRequest request_;
  pb::WatchResponse response_;
  std::mutex mutex_;
  bool reading_ = false;
  bool held_ = true;
  bool cancelled_ = false;
};

class KeepAliveReactor final
    : public grpc::ClientBidiReactor<pb::LeaseKeepAliveRequest, pb::LeaseKeepAliveResponse>,
      public std::enable_shared_from_this<KeepAliveReactor> {
 public:
  KeepAliveReactor(const CallEnv& env, Completion<CallResult<std::int64_t>> done)
      : executor_(env.executor),
        calls_(env.calls),
        done_(std::move(done)),
        stub_(pb::Lease::NewStub(env.channel)) {}

  void start(LeaseId lease, Duration timeout) {
    context_.AddMetadata("hasleader", "true");
    context_.set_deadline(deadline_after(executor_, timeout));
    request_.set_id(static_cast<std::int64_t>(lease));
    self_ = shared_from_this();
    calls_->add(this, [self = shared_from_this()] { self->context_.TryCancel(); });
    stub_->async()->LeaseKeepAlive(&context_, this);
    StartWrite(&request_);
    StartRead(&response_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    answered_ = ok;
    context_.TryCancel();  // one answer is all we want; the stream has no other end
  }
  void OnDone(const grpc::Status& status) override {
    if (answered_)
      done_.set(response_.ttl());
    else
      done_.set(tl::make_unexpected(classify(static_cast<int>(status.error_code()), status.error_message())));
    const auto self = std::move(self_);
    calls_->remove(this);
  }

 private:
  Executor& executor_;
  std::shared_ptr<Calls> calls_;
  Completion<CallResult<std::int64_t>> done_;
  std::unique_ptr<pb::Lease::Stub> stub_;
  std::shared_ptr<KeepAliveReactor> self_;
  grpc::ClientContext context_;
  pb::LeaseKeepAliveRequest request_;
  pb::LeaseKeepAliveResponse response_;
  bool answered_ = false;
};

}  // namespace

std::shared_ptr<WatchCall> start_watch(const CallEnv& env, std::string key, std::string range_end,
                                       EtcdRevision start, WatchHandlers handlers) {
  auto call = std::make_shared<WatchReactor>(env, std::move(handlers));
  call->start(std::move(key), std::move(range_end), start);
  return call;
}

void start_keep_alive(const CallEnv& env, LeaseId lease, Duration timeout,
                      Completion<CallResult<std::int64_t>> done) {
  std::make_shared<KeepAliveReactor>(env, std::move(done))->start(lease, timeout);
}

}  // namespace moor::store::etcd
