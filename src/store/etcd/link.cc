#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <array>

#include "base/assert.h"
#include "store/etcd/calls.h"
#include "store/etcd/etcd.grpc.pb.h"
#include "store/etcd/wire.h"

namespace moor::store::etcd {
namespace {
namespace pb = etcdserverpb;
// One object has at most 1 MiB; pages are sized to stay far below this, and halved when they do not.
constexpr int kReceiveLimitBytes = 64 << 20;
constexpr int kFirstReconnectMs = 50;
constexpr int kLongestReconnectMs = 1000;

int milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

struct Endpoint {
  std::string target;
  bool tls = false;
};

Result<Endpoint> parse_endpoint(const std::string& text, bool has_ca) {
  Endpoint endpoint{text, has_ca};
  if (text.rfind("https://", 0) == 0)
    endpoint = {text.substr(8), true};
  else if (text.rfind("http://", 0) == 0)
    endpoint = {text.substr(7), false};
  if (endpoint.tls != has_ca && has_ca)
    return make_error(Errc::invalid, fmt::format("etcd endpoint '{}' is http, but a CA is given", text));
  while (!endpoint.target.empty() && endpoint.target.back() == '/') endpoint.target.pop_back();
  if (endpoint.target.find(':') == std::string::npos)
    return make_error(Errc::invalid, fmt::format("etcd endpoint '{}' has no port", text));
  return endpoint;
}

std::shared_ptr<grpc::Channel> make_channel(const Endpoint& endpoint, const EtcdOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(options.keepalive_interval));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds(options.keepalive_timeout));
  // A silent watch is alive only as long as its pings are answered, so they must never run out.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kReceiveLimitBytes);
  arguments.SetMaxSendMessageSize(-1);  // etcd's own limit answers
  if (endpoint.target.rfind("unix:", 0) == 0) arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  if (!endpoint.tls)
    return grpc::CreateCustomChannel(endpoint.target, grpc::InsecureChannelCredentials(), arguments);
  if (!options.tls_server_name.empty()) arguments.SetSslTargetNameOverride(options.tls_server_name);
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = options.tls_ca;
  tls.pem_cert_chain = options.tls_certificate;
  tls.pem_private_key = options.tls_key;
  return grpc::CreateCustomChannel(endpoint.target, grpc::SslCredentials(tls), arguments);
}

// gRPC 1.51 stops its callback threads with the last channel that used them, and while it does, such a thread
// can touch the completion queue after its end: an abort in about every fourth process that opens and closes
// stores. One channel that is never closed keeps the threads for the life of the process; it connects to
// nothing.
void keep_callback_threads() {
  struct Keeper {
    std::shared_ptr<grpc::Channel> channel;
    grpc::ClientContext context;
    pb::RangeRequest request;
    pb::RangeResponse response;
  };
  [[maybe_unused]] static Keeper* const kept = [] {
    auto* keeper = new Keeper;
    keeper->channel = grpc::CreateChannel("unix:/nonexistent", grpc::InsecureChannelCredentials());
    keeper->context.TryCancel();
    pb::KV::NewStub(keeper->channel)
        ->async()
        ->Range(&keeper->context, &keeper->request, &keeper->response, [](const grpc::Status&) {});
    return keeper;
  }();
}

void fill(const RangeCall& call, pb::RangeRequest& request) {
  request.set_key(call.key);
  request.set_range_end(call.range_end);
  request.set_limit(call.limit);
  request.set_revision(call.revision);
  request.set_keys_only(call.keys_only);
  request.set_count_only(call.count_only);
}

RangeAnswer to_answer(pb::RangeResponse& response) {
  RangeAnswer answer;
  answer.more = response.more();
  answer.count = response.count();
  answer.kvs.reserve(static_cast<std::size_t>(response.kvs_size()));
  for (pb::KeyValue& kv : *response.mutable_kvs()) {
    answer.kvs.push_back({std::move(*kv.mutable_key()), std::move(*kv.mutable_value()), kv.create_revision(),
                          kv.mod_revision(), static_cast<LeaseId>(kv.lease())});
  }
  return answer;
}

void fill(const Condition& condition, pb::Compare& compare) {
  compare.set_key(condition.key);
  switch (condition.kind) {
    case Condition::Kind::mod_equals:
      compare.set_target(pb::Compare::MOD);
      compare.set_result(pb::Compare::EQUAL);
      compare.set_mod_revision(condition.revision);
      return;
    case Condition::Kind::exists:
      compare.set_target(pb::Compare::CREATE);
      compare.set_result(pb::Compare::GREATER);
      compare.set_create_revision(0);
      return;
    case Condition::Kind::value_greater:
    case Condition::Kind::value_less:
      compare.set_target(pb::Compare::VALUE);
      compare.set_result(condition.kind == Condition::Kind::value_less ? pb::Compare::LESS
                                                                       : pb::Compare::GREATER);
      compare.set_value(condition.value);
      return;
  }
}

void fill(const CommitCall& call, pb::TxnRequest& request) {
  for (const Condition& condition : call.conditions) fill(condition, *request.add_compare());
  for (const Change& change : call.changes) {
    pb::RequestOp& operation = *request.add_success();
    if (!change.value) {
      operation.mutable_request_delete_range()->set_key(change.key);
      continue;
    }
    pb::PutRequest& put = *operation.mutable_request_put();
    put.set_key(change.key);
    put.set_value(*change.value);
    put.set_lease(static_cast<std::int64_t>(change.lease));
  }
}

}  // namespace

void Calls::add(const void* call, std::function<void()> cancel) {
  {
    const std::lock_guard lock(mutex_);
    running_.emplace(call, cancel);
    if (!closed_) return;
  }
  cancel();
}

void Calls::remove(const void* call) {
  const std::lock_guard lock(mutex_);
  running_.erase(call);
  if (running_.empty()) empty_.notify_all();
}

// Outside the lock, because a cancelled call may end, and remove itself, at once.
void Calls::close() {
  std::vector<std::function<void()>> cancels;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    for (const auto& [call, cancel] : running_) cancels.push_back(cancel);
  }
  for (const auto& cancel : cancels) cancel();
}

void Calls::wait_until_empty() {
  std::unique_lock lock(mutex_);
  empty_.wait(lock, [this] { return running_.empty(); });
}

bool Calls::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

struct Link::Inside {
  explicit Inside(Executor& target) : executor(target) {}
  Executor& executor;
  std::shared_ptr<Calls> calls = std::make_shared<Calls>();
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  std::size_t current = 0;

  void leave(std::size_t endpoint) {
    if (current == endpoint) current = (current + 1) % channels.size();
  }
  CallEnv env() { return {executor, calls, channels[current]}; }

  CallError failed(std::size_t endpoint, int code, const std::string& message) {
    if (calls->is_closed())
      return {make_error(Errc::cancelled, "the store was closed"), false, false, false, code};
    CallError error = classify(code, message);
    if (error.retry) leave(endpoint);
    return error;
  }

  template <class Request, class Response>
  struct Call {
    grpc::ClientContext context;
    Request request;
    Response response;
  };

  // `start` gets (channel, context, request, response, callback) and hands them to a stub; `done` runs on a
  // thread of gRPC's with (call, status).
  template <class Request, class Response, class Start, class Done>
  void send(Request request, Duration timeout, Start start, Done done) {
    const auto call = std::make_shared<Call<Request, Response>>();
    call->request = std::move(request);
    call->context.set_deadline(deadline_after(executor, timeout));
    // A member without a leader refuses at once and certainly, instead of keeping the call until it times
    // out.
    call->context.AddMetadata("hasleader", "true");
    calls->add(call.get(), [call] { call->context.TryCancel(); });
    start(channels[current], &call->context, &call->request, &call->response,
          [call, done, calls = calls](grpc::Status status) {
            done(call, std::move(status));
            calls->remove(call.get());
          });
  }

  template <class Request, class Response, class Start>
  static Task<CallResult<Response>> unary(std::shared_ptr<Inside> inside, Request request, Duration timeout,
                                          Start start) {
    if (inside->calls->is_closed()) co_return tl::make_unexpected(inside->failed(inside->current, 0, ""));
    const std::size_t endpoint = inside->current;
    const Completion<CallResult<Response>> done(inside->executor);
    inside->send<Request, Response>(
        std::move(request), timeout, start, [done](const auto& call, grpc::Status status) {
          if (status.ok())
            done.set(std::move(call->response));
          else
            done.set(tl::make_unexpected(CallError{make_error(Errc::internal, status.error_message()), false,
                                                   false, false, static_cast<int>(status.error_code())}));
        });
    auto answer = co_await done;
    if (!answer)
      co_return tl::make_unexpected(
          inside->failed(endpoint, answer.error().status_code, answer.error().error.message));
    co_return std::move(*answer);
  }
};

Link::Link(std::shared_ptr<Inside> inside) : inside_(std::move(inside)) {}

Link::~Link() {
  close();
}

void Link::close() {
  inside_->calls->close();
  inside_->calls->wait_until_empty();
}

Result<std::unique_ptr<Link>> Link::make(Executor& executor, const EtcdOptions& options) {
  if (options.endpoints.empty()) return make_error(Errc::invalid, "etcd needs at least one endpoint");
  if (options.tls_certificate.empty() != options.tls_key.empty())
    return make_error(Errc::invalid, "a TLS certificate and its key go together");
  keep_callback_threads();
  auto inside = std::make_shared<Inside>(executor);
  for (const std::string& text : options.endpoints) {
    TRY(const Endpoint endpoint, parse_endpoint(text, !options.tls_ca.empty()));
    inside->channels.push_back(make_channel(endpoint, options));
  }
  return std::unique_ptr<Link>(new Link(std::move(inside)));
}

bool Link::is_connected() {
  return inside_->channels[inside_->current]->GetState(true) == GRPC_CHANNEL_READY;
}

// The coroutines below are static in spirit: they hold what they need by value, because the link may be
// destroyed while they wait.
#define MOOR_STUB_CALL(Service, Method)                                                      \
  [](const auto& to_channel, auto* with_context, auto* question, auto* answer, auto then) {  \
    pb::Service::NewStub(to_channel)->async()->Method(with_context, question, answer, then); \
  }

namespace {
Task<CallResult<ReadAnswer>> to_read_answer(Task<CallResult<pb::TxnResponse>> pending) {
  auto response = co_await std::move(pending);
  if (!response) co_return tl::make_unexpected(std::move(response.error()));
  ReadAnswer answer;
  answer.revision = response->header().revision();
  for (pb::ResponseOp& operation : *response->mutable_responses())
    answer.ranges.push_back(to_answer(*operation.mutable_response_range()));
  co_return answer;
}

Task<CallResult<CommitAnswer>> to_commit_answer(Task<CallResult<pb::TxnResponse>> pending) {
  auto response = co_await std::move(pending);
  if (!response) co_return tl::make_unexpected(std::move(response.error()));
  co_return CommitAnswer{response->succeeded(), response->header().revision()};
}

template <class Response>
Task<CallResult<bool>> to_done(Task<CallResult<Response>> pending) {
  auto response = co_await std::move(pending);
  if (!response) co_return tl::make_unexpected(std::move(response.error()));
  co_return true;
}

Task<CallResult<LeaseId>> to_lease(Task<CallResult<pb::LeaseGrantResponse>> pending) {
  auto response = co_await std::move(pending);
  if (!response) co_return tl::make_unexpected(std::move(response.error()));
  co_return static_cast<LeaseId>(response->id());
}

MemberStatus to_status(const pb::StatusResponse& response) {
  MemberStatus status;
  status.bytes =
      static_cast<std::uint64_t>(response.dbsizeinuse() > 0 ? response.dbsizeinuse() : response.dbsize());
  status.member = response.header().member_id();
  status.leader = response.leader();
  for (const std::string& error : response.errors()) status.alarms.push_back(error);
  return status;
}
}  // namespace

Task<CallResult<ReadAnswer>> Link::read(std::vector<RangeCall> ranges, Duration timeout) {
  MOOR_ASSERT(ranges.size() <= kMaxOperations);
  pb::TxnRequest request;
  for (const RangeCall& range : ranges) fill(range, *request.add_success()->mutable_request_range());
  return to_read_answer(Inside::unary<pb::TxnRequest, pb::TxnResponse>(inside_, std::move(request), timeout,
                                                                       MOOR_STUB_CALL(KV, Txn)));
}

Task<CallResult<CommitAnswer>> Link::commit(const CommitCall& call, Duration timeout) {
  MOOR_ASSERT(call.changes.size() <= kMaxOperations && call.conditions.size() <= kMaxOperations);
  pb::TxnRequest request;
  fill(call, request);
  return to_commit_answer(Inside::unary<pb::TxnRequest, pb::TxnResponse>(inside_, std::move(request), timeout,
                                                                         MOOR_STUB_CALL(KV, Txn)));
}

Task<CallResult<bool>> Link::compact(EtcdRevision revision, Duration timeout) {
  pb::CompactionRequest request;
  request.set_revision(revision);
  return to_done(Inside::unary<pb::CompactionRequest, pb::CompactionResponse>(
      inside_, std::move(request), timeout, MOOR_STUB_CALL(KV, Compact)));
}

Task<CallResult<LeaseId>> Link::grant_lease(std::int64_t seconds, Duration timeout) {
  pb::LeaseGrantRequest request;
  request.set_ttl(seconds);
  return to_lease(Inside::unary<pb::LeaseGrantRequest, pb::LeaseGrantResponse>(
      inside_, std::move(request), timeout, MOOR_STUB_CALL(Lease, LeaseGrant)));
}

Task<CallResult<bool>> Link::revoke_lease(LeaseId lease, Duration timeout) {
  pb::LeaseRevokeRequest request;
  request.set_id(static_cast<std::int64_t>(lease));
  return to_done(Inside::unary<pb::LeaseRevokeRequest, pb::LeaseRevokeResponse>(
      inside_, std::move(request), timeout, MOOR_STUB_CALL(Lease, LeaseRevoke)));
}

// With callbacks instead of a task: health is looked after in the background, where no task waits for it.
void Link::check(std::string key, Duration timeout, std::function<void(CallResult<MemberStatus>)> done) {
  const auto inside = inside_;
  if (inside->calls->is_closed()) return done(tl::make_unexpected(inside->failed(inside->current, 0, "")));
  const std::size_t endpoint = inside->current;
  const auto fail = [inside, endpoint, done](const grpc::Status& status) {
    inside->executor.post([inside, endpoint, done, status] {
      done(tl::make_unexpected(
          inside->failed(endpoint, static_cast<int>(status.error_code()), status.error_message())));
    });
  };
  const auto got_status = [inside, key = std::move(key), timeout, done, fail](const auto& call,
                                                                              const grpc::Status& status) {
    if (!status.ok()) return fail(status);
    // A linearizable read needs a quorum, as a commit does.
    inside->executor.post([inside, key, timeout, done, fail, member = to_status(call->response)] {
      if (inside->calls->is_closed())
        return done(tl::make_unexpected(inside->failed(inside->current, 0, "")));
      pb::RangeRequest request;
      request.set_key(key);
      request.set_keys_only(true);
      inside->send<pb::RangeRequest, pb::RangeResponse>(
          std::move(request), timeout, MOOR_STUB_CALL(KV, Range),
          [inside, done, fail, member](const auto&, const grpc::Status& read) {
            if (!read.ok()) return fail(read);
            inside->executor.post([done, member] { done(member); });
          });
    });
  };
  inside->send<pb::StatusRequest, pb::StatusResponse>(pb::StatusRequest(), timeout,
                                                      MOOR_STUB_CALL(Maintenance, Status), got_status);
}

namespace {
Task<CallResult<bool>> to_alive(Completion<CallResult<std::int64_t>> done,
                                std::function<CallError(CallError)> failed) {
  const auto seconds = co_await done;
  if (!seconds) co_return tl::make_unexpected(failed(seconds.error()));
  co_return *seconds > 0;
}
}  // namespace

Task<CallResult<bool>> Link::keep_alive(LeaseId lease, Duration timeout) {
  const Completion<CallResult<std::int64_t>> done(inside_->executor);
  if (inside_->calls->is_closed()) done.set(tl::make_unexpected(inside_->failed(inside_->current, 0, "")));
  const std::size_t endpoint = inside_->current;
  if (!inside_->calls->is_closed()) start_keep_alive(inside_->env(), lease, timeout, done);
  return to_alive(done, [inside = inside_, endpoint](CallError error) {
    if (inside->calls->is_closed()) return inside->failed(endpoint, 0, "");
    if (error.retry) inside->leave(endpoint);
    return error;
  });
}

std::shared_ptr<WatchCall> Link::watch(std::string key, std::string range_end, EtcdRevision start,
                                       WatchHandlers handlers) {
  const std::size_t endpoint = inside_->current;
  // The link moves on when a watch breaks, as it does for every other call.
  handlers.on_end = [inside = inside_, endpoint, on_end = std::move(handlers.on_end)](CallError error) {
    inside->leave(endpoint);
    on_end(std::move(error));
  };
  return start_watch(inside_->env(), std::move(key), std::move(range_end), start, std::move(handlers));
}

}  // namespace moor::store::etcd
