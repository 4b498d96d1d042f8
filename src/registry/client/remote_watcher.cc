#include <fmt/format.h>

#include "registry/client/remote_registry.h"
#include "registry/client/wire.h"

namespace moor::registry {
namespace {

class RemoteWatcher final : public Watcher {
 public:
  RemoteWatcher(std::unique_ptr<http::ResponseStream> stream, std::string resource_version)
      : stream_(std::move(stream)), progress_(std::move(resource_version)) {}

  Task<Answer<std::vector<WatchEvent>>> next(CancelToken token) override {
    auto line = co_await stream_->next_line(token);
    if (!line) co_return line.error();
    if (!*line) co_return make_error(Errc::unavailable, "the server has ended the watch");
    co_return read(**line);
  }

  std::string progress() const override { return progress_; }

 private:
  Answer<std::vector<WatchEvent>> read(std::string_view line) {
    auto parsed = parse_json(line);
    Json* object = parsed ? parsed->find("object") : nullptr;
    if (object == nullptr || !object->is_object())
      return make_error(Errc::corrupt, fmt::format("a watch event cannot be read: {}", line.substr(0, 128)));
    const auto type = parsed->get_string("type").value_or("");
    if (type == "ERROR") return refusal_from(*object, 500);
    WatchEvent event;
    if (type == "ADDED") {
      event.type = WatchEvent::Type::added;
    } else if (type == "MODIFIED") {
      event.type = WatchEvent::Type::modified;
    } else if (type == "DELETED") {
      event.type = WatchEvent::Type::deleted;
    } else if (type == "BOOKMARK") {
      event.type = WatchEvent::Type::bookmark;
    } else {
      return make_error(Errc::corrupt,
                        fmt::format("a watch event has the unknown type '{}'", type.substr(0, 64)));
    }
    const Json* metadata = object->find("metadata");
    const auto version = metadata == nullptr ? std::nullopt : metadata->get_string("resourceVersion");
    if (!version) return make_error(Errc::corrupt, "a watch event has no resourceVersion");
    event.resource_version = *version;
    if (event.type == WatchEvent::Type::bookmark) {
      const Json* annotations = metadata->find("annotations");
      event.initial_end =
          annotations != nullptr && annotations->get_string("k8s.io/initial-events-end") == "true";
    }
    progress_ = event.resource_version;
    if (event.type != WatchEvent::Type::bookmark)
      event.object = std::make_shared<const Json>(std::move(*object));
    std::vector<WatchEvent> events;
    events.push_back(std::move(event));
    return events;
  }

  std::unique_ptr<http::ResponseStream> stream_;
  std::string progress_;
};

}  // namespace

std::unique_ptr<Watcher> make_remote_watcher(std::unique_ptr<http::ResponseStream> stream,
                                             std::string resource_version) {
  return std::make_unique<RemoteWatcher>(std::move(stream), std::move(resource_version));
}

}  // namespace moor::registry
