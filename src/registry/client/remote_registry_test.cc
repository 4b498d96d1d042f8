// The remote registry against a server on loopback that answers from a real registry, in the words of the
// Kubernetes API. (The kube door's own tests drive it with real clients.)
#include "registry/client/remote_registry.h"

#include <fmt/format.h>

#include "http/server.h"
#include "model/kinds.h"
#include "registry/client/informer.h"
#include "registry/client/wire.h"
#include "registry/local_registry.h"
#include "registry/namespaces.h"
#include "registry/prepare.h"
#include "store/memory/memory_store.h"

namespace moor::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Wire, TargetsAreThoseOfKubernetes) {
  const auto* volume = model::find_kind("longhorn.io", "v1beta2", "volumes");
  const auto* node = model::find_kind("", "v1", "nodes");
  EXPECT_EQ(path_of({volume, "ns", "v1", "status"}),
            "/apis/longhorn.io/v1beta2/namespaces/ns/volumes/v1/status");
  EXPECT_EQ(path_of({volume, "", "", ""}), "/apis/longhorn.io/v1beta2/volumes");
  EXPECT_EQ(path_of({node, "", "a b", ""}), "/api/v1/nodes/a%20b");
  ListOptions options;
  options.labels = *LabelSelector::parse("a in (b,c)");
  options.fields = *FieldSelector::parse("metadata.name=x");
  options.limit = 5;
  EXPECT_EQ(target_of({node, "", "", ""}, query_of(options)),
            "/api/v1/nodes?labelSelector=a%20in%20%28b%2Cc%29&fieldSelector=metadata.name%3Dx&limit=5");
}

TEST(Wire, StatusesBecomeRefusals) {
  struct Case {
    const char* status;
    int code;
    Errc errc;
  };
  const Case cases[] = {
      {R"({"reason":"NotFound","code":404})", 404, Errc::not_found},
      {R"({"reason":"AlreadyExists","code":409})", 409, Errc::already_exists},
      {R"({"reason":"Conflict","code":409})", 409, Errc::conflict},
      {R"({"reason":"Invalid","code":422})", 422, Errc::invalid},
      {R"({"reason":"Expired","code":410})", 410, Errc::expired},
      {R"({})", 410, Errc::expired},
      {R"({})", 401, Errc::unauthorized},
      {R"({"code":403})", 403, Errc::forbidden},
      {R"({"reason":"Timeout"})", 504, Errc::timed_out},
      {R"({"reason":"Novelty"})", 429, Errc::unavailable},
      {R"({})", 502, Errc::unavailable},
      {R"({})", 418, Errc::internal},
      {R"({"reason":7,"details":{"causes":7}})", 400, Errc::invalid},
  };
  for (const Case& test : cases)
    EXPECT_EQ(refusal_from(*parse_json(test.status), test.code).error.code, test.errc)
        << test.status << test.code;
  const Refusal full = refusal_from(
      *parse_json(
          R"({"reason":"Invalid","message":"m","details":{"retryAfterSeconds":3,"causes":[{"reason":"r","message":"why","field":"spec.x"}]}})"),
      422);
  EXPECT_EQ(full.error.message, "m");
  EXPECT_EQ(full.retry_after_seconds, 3);
  EXPECT_EQ(full.causes, (model::Causes{{"r", "why", "spec.x"}}));
}

// As much of the API as the client needs, for leases.
class MiniDoor final : public http::Handler {
 public:
  explicit MiniDoor(Registry& registry) : registry_(registry) {}
  http::Lane classify(const http::Request& request) const override {
    return request.target.query.has("watch") ? http::Lane::watch : http::Lane::read;
  }
  Task<http::Response> handle(http::Request request) override {
    const auto& segments = request.target.segments;  // apis G V namespaces NS leases [name]
    ResourceName what{model::find_kind("coordination.k8s.io", "v1", "leases"), segments.at(4),
                      segments.size() > 6 ? segments[6] : "", ""};
    last_authorization = request.headers.get("Authorization").value_or("");
    WriteOptions options;
    options.field_manager = request.target.query.get("fieldManager").value_or("");
    const Json body = request.body.empty() ? Json() : *parse_json(request.body);
    switch (request.method) {
      case http::Method::post: co_return written(co_await registry_.create(what, body, options));
      case http::Method::put: co_return written(co_await registry_.update(what, body, options));
      case http::Method::patch:
        co_return written(co_await registry_.patch(what, PatchType::merge, body, options));
      case http::Method::delete_: {
        DeleteOptions unconditional;
        auto deleted = co_await registry_.remove(what, std::move(unconditional));
        if (!deleted) co_return status(deleted.error());
        co_return answer(
            200, deleted->gone ? *parse_json(R"({"kind":"Status","status":"Success"})") : deleted->object);
      }
      default: break;
    }
    if (request.target.query.has("watch")) co_return co_await watch(std::move(what), std::move(request));
    if (!what.name.empty()) {
      auto found = co_await registry_.get(what, "");
      co_return found ? answer(200, *found) : status(found.error());
    }
    ListOptions list;
    list.labels = *LabelSelector::parse(request.target.query.get("labelSelector").value_or(""));
    list.continue_token = request.target.query.get("continue").value_or("");
    list.limit = std::stoul(std::string(request.target.query.get("limit").value_or("0")));
    auto listed = co_await registry_.list(what, std::move(list));
    if (!listed) co_return status(listed.error());
    Json items = Json::array();
    for (const JsonPtr& object : listed->items) items.push_back(*object);
    Json metadata =
        Json::object({{"resourceVersion", listed->resource_version}, {"continue", listed->continue_token}});
    co_return answer(200, Json::object({{"metadata", std::move(metadata)}, {"items", std::move(items)}}));
  }
  std::string last_authorization;
  int watches = 0;
  int events_per_watch = 1'000'000;

 private:
  static http::Response answer(int code, const Json& body) {
    auto response = http::Response::text(code, to_text(body), "application/json");
    response.headers.add("Warning", R"(299 - "mind the \"gap\"")");
    return response;
  }
  static http::Response status(const Refusal& refusal) {
    const int code = refusal.error.code == Errc::not_found ? 404
                     : refusal.error.code == Errc::expired ? 410
                                                           : 409;
    return answer(code, Json::object({{"kind", "Status"},
                                      {"reason", refusal.reason},
                                      {"message", refusal.error.message},
                                      {"code", code}}));
  }
  static http::Response written(Answer<Written> written) {
    return written ? answer(written->created ? 201 : 200, written->object) : status(written.error());
  }
  Task<http::Response> watch(ResourceName what, http::Request request) {
    ++watches;
    WatchOptions options;
    options.resource_version = request.target.query.get("resourceVersion").value_or("");
    auto watcher = co_await registry_.watch(what, std::move(options));
    if (!watcher) co_return status(watcher.error());
    auto shared = std::shared_ptr<Watcher>(std::move(*watcher));
    const int most = events_per_watch;
    co_return http::Response::streaming(
        200, "application/json",
        http::make_stream([shared, token = request.cancel, most](http::StreamWriter& writer) {
          return pump(writer, shared, token, most);
        }));
  }
  static Task<Result<void>> pump(http::StreamWriter& writer, std::shared_ptr<Watcher> watcher,
                                 CancelToken token, int left) {
    while (left > 0) {
      auto events = co_await watcher->next(token);
      if (!events) co_return events.error().error;
      std::string lines;
      for (const WatchEvent& event : *events) {
        if (left-- <= 0) break;
        const char* const words[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"};
        lines += to_text(Json::object(
                     {{"type", words[static_cast<int>(event.type)]}, {"object", *event.object}})) +
                 "\n";
      }
      CO_TRY_VOID(co_await writer.write(std::move(lines)));
    }
    co_return Result<void>();
  }
  Registry& registry_;
};

class Remote : public testing::Test {
 protected:
  Remote() {
    group_.spawn(local_.run(group_.token()));
    EXPECT_TRUE(block_on(loop_, ensure_namespaces(local_)).ok());
    auto url = server_.listen({"127.0.0.1:0", nullptr});
    EXPECT_TRUE(url.ok());
    RemoteOptions options;
    options.client.endpoint = *url;
    options.client.bearer_token = "secret";
    remote_ = std::move(*RemoteRegistry::make(loop_, std::move(options)));
  }
  ~Remote() override {
    group_.cancel();
    EXPECT_TRUE(block_on(loop_, server_.stop(std::chrono::seconds(5))).ok());
    EXPECT_TRUE(block_on(loop_, group_.join()).ok());
  }
  template <class T>
  T wait(Task<T> task) {
    return block_on(loop_, std::move(task));
  }
  static ResourceName lease(std::string name = {}) {
    return {model::find_kind("coordination.k8s.io", "v1", "leases"), "default", std::move(name), ""};
  }
  static Json object(const std::string& name) {
    return Json::object({{"metadata", Json::object({{"name", name}})}});
  }

  Loop loop_;
  SeededRandom random_{5};
  std::unique_ptr<store::Store> store_ = store::make_memory_store(loop_);
  LocalRegistry local_{loop_, *store_, random_};
  TaskGroup group_{loop_};
  MiniDoor door_{local_};
  http::Server server_{loop_, door_};
  std::unique_ptr<RemoteRegistry> remote_;
};

TEST_F(Remote, EveryCallTravelsThereAndBack) {
  auto created = wait(remote_->create(lease(), object("a"), {}));
  ASSERT_TRUE(created.ok()) << created.error().error.message;
  EXPECT_TRUE(created->created);
  EXPECT_THAT(created->warnings, ElementsAre("mind the \"gap\""));
  EXPECT_EQ(door_.last_authorization, "Bearer secret");
  const auto again = wait(remote_->create(lease(), object("a"), {}));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().reason, "AlreadyExists");
  EXPECT_EQ(again.error().error.code, Errc::already_exists);
  EXPECT_EQ(*wait(remote_->get(lease("a"), "")), *wait(local_.get(lease("a"), "")));
  const auto patched = wait(
      remote_->patch(lease("a"), PatchType::merge, *parse_json(R"({"metadata":{"labels":{"x":"y"}}})"), {}));
  ASSERT_TRUE(patched.ok());
  EXPECT_TRUE(wait(remote_->update(lease("a"), created->object, {})).is(Errc::conflict));
  ASSERT_TRUE(wait(remote_->create(lease(), object("b"), {})).ok());
  ListOptions options;
  options.limit = 1;
  const auto page = wait(remote_->list(lease(), options));
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->items.size(), 1u);
  EXPECT_NE(page->continue_token, "");
  EXPECT_TRUE(wait(remote_->remove(lease("a"), {}))->gone);
  EXPECT_TRUE(wait(remote_->get(lease("a"), "")).is(Errc::not_found));
}

TEST_F(Remote, AWatchBringsEventsAsTheyHappen) {
  ASSERT_TRUE(wait(remote_->create(lease(), object("a"), {})).ok());
  auto watcher = wait(remote_->watch(lease(), {}));
  ASSERT_TRUE(watcher.ok()) << watcher.error().error.message;
  auto events = wait((*watcher)->next({}));
  ASSERT_TRUE(events.ok());
  EXPECT_EQ(metadata_text(*events->at(0).object, "name"), "a");
  ASSERT_TRUE(wait(local_.remove(lease("a"), {})).ok());
  events = wait((*watcher)->next({}));
  ASSERT_TRUE(events.ok());
  EXPECT_EQ(events->at(0).type, WatchEvent::Type::deleted);
  EXPECT_EQ((*watcher)->progress(), events->at(0).resource_version);
  watcher->reset();
}

TEST_F(Remote, AnInformerRidesOverBrokenStreams) {
  door_.events_per_watch = 2;
  Informer informer(loop_, *remote_, lease(),
                    {.page_size = 3,
                     .shortest_pause = std::chrono::milliseconds(1),
                     .longest_pause = std::chrono::milliseconds(5)});
  TaskGroup group(loop_);
  group.spawn(informer.run(group.token()));
  ASSERT_TRUE(wait(informer.wait_synced({})).ok());
  for (int i = 0; i < 9; ++i)
    ASSERT_TRUE(wait(local_.create(lease(), object(fmt::format("l{}", i)), {})).ok());
  ASSERT_TRUE(wait(local_.remove(lease("l4"), {})).ok());
  const TimePoint limit = loop_.clock().now() + std::chrono::seconds(20);
  while ((informer.size() != 8 || informer.find("default", "l8") == nullptr) && loop_.clock().now() < limit)
    (void)wait(sleep_for(loop_, std::chrono::milliseconds(2)));
  EXPECT_EQ(informer.size(), 8u);
  EXPECT_EQ(informer.find("default", "l4"), nullptr);
  EXPECT_EQ(informer.relists(), 1u);
  EXPECT_GT(door_.watches, 3);
  group.cancel();
  EXPECT_TRUE(wait(group.join()).ok());
}

}  // namespace
}  // namespace moor::registry
