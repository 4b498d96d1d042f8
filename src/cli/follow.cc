#include "cli/follow.h"

#include <fmt/format.h>

#include "base/task_group.h"
#include "registry/client/informer.h"

namespace moor::cli {
namespace {

namespace lh = model::longhorn;

class Follower {
 public:
  Follower(Context& context, FollowOptions options)
      : context_(context),
        options_(std::move(options)),
        started_(context.executor.clock().now()),
        volume_(context.executor, context.registry, resource<lh::Volume>(context), named(options_.volume)),
        attachment_(context.executor, context.registry, resource<lh::VolumeAttachment>(context),
                    named(options_.volume)),
        engine_(context.executor, context.registry, resource<lh::Engine>(context), labelled(options_.volume)),
        done_(context.executor) {
    for (registry::Informer* informer : {&volume_, &attachment_, &engine_})
      informer->listen([this](const registry::Informer::Event&) { look_soon(); });
  }

  Task<Outcome<void>> run() {
    TaskGroup group(context_.executor);
    for (registry::Informer* informer : {&volume_, &attachment_, &engine_}) {
      group.spawn(informer->run(group.token()));
      group.spawn(look_when_synced(*informer, group.token()));
    }
    group.spawn(time_out(group.token()));
    Outcome<void> outcome = co_await done_;
    finished_ = true;
    group.cancel();
    (void)co_await group.join();  // they end by the cancellation, which is no news
    co_return outcome;
  }

 private:
  static registry::InformerOptions named(const std::string& name) {
    registry::InformerOptions options;
    if (auto fields = registry::FieldSelector::parse("metadata.name=" + name))
      options.fields = std::move(*fields);
    return options;
  }

  static registry::InformerOptions labelled(const std::string& volume) {
    registry::InformerOptions options;
    options.labels = of_volume(volume).labels;
    return options;
  }

  Task<Result<void>> look_when_synced(registry::Informer& informer, CancelToken token) {
    CO_TRY_VOID(co_await informer.wait_synced(token));
    look_soon();
    co_return Result<void>();
  }

  Task<Result<void>> time_out(CancelToken token) {
    CO_TRY_VOID(co_await sleep_for(context_.executor, options_.timeout, token));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.timeout).count();
    Failure failure{ExitCode::timed_out, fmt::format("waited {} s for {}", seconds, options_.what)};
    if (!last_.empty()) failure.message += fmt::format("; it is {}", last_);
    failure.hint =
        fmt::format("what was asked for stays asked for. See: moor why volume {}", options_.volume);
    done_.set(std::move(failure));
    co_return Result<void>();
  }

  // Not from inside an informer: several events of one batch are one look.
  void look_soon() {
    if (looking_) return;
    looking_ = true;
    context_.executor.post([this, alive = std::weak_ptr<bool>(alive_)] {
      if (alive.expired()) return;
      looking_ = false;
      look();
    });
  }

  template <class T>
  static std::optional<T> only(const registry::Informer& informer) {
    std::optional<T> found;
    informer.for_each([&](const registry::Informer::Object& object) {
      if (auto decoded = model::decode<T>(*object)) found = std::move(*decoded);
      return false;
    });
    return found;
  }

  void look() {
    if (finished_ || !volume_.is_synced() || !attachment_.is_synced() || !engine_.is_synced()) return;
    std::vector<lh::Engine> engines;
    engine_.for_each([&](const registry::Informer::Object& object) {
      if (auto decoded = model::decode<lh::Engine>(*object)) engines.push_back(std::move(*decoded));
      return true;
    });
    VolumeSight sight{only<lh::Volume>(volume_), only<lh::VolumeAttachment>(attachment_),
                      choose_engine(std::move(engines))};
    tell(sight);
    if (auto verdict = options_.verdict(sight)) done_.set(std::move(*verdict));
  }

  void tell(const VolumeSight& sight) {
    std::string text = sight.volume ? state_sentence(*sight.volume) : "gone";
    // A ticket's blockers say this too.
    const model::Condition* placed =
        sight.volume && options_.ticket.empty()
            ? model::find_condition(sight.volume->status.conditions, lh::kVolumeScheduled)
            : nullptr;
    if (placed != nullptr && placed->status == model::ConditionStatus::no && !placed->message.empty())
      text += "; " + placed->message;
    if (sight.attachment && !options_.ticket.empty()) {
      const auto& statuses = sight.attachment->status.attachment_ticket_statuses;
      const auto status = statuses.find(options_.ticket);
      if (status != statuses.end() && !status->second.satisfied)
        for (const lh::Blocker& blocker : status->second.blockers)
          text += "; waits for " + blocker_text(blocker);
    }
    if (text == last_) return;
    last_ = text;
    if (options_.quiet) return;
    const double seconds = std::chrono::duration<double>(context_.executor.clock().now() - started_).count();
    context_.printer.note(fmt::format("{:6.1f}s  {}  {}", seconds, options_.volume, text));
  }

  Context& context_;
  FollowOptions options_;
  TimePoint started_;
  registry::Informer volume_;
  registry::Informer attachment_;
  registry::Informer engine_;
  Completion<Outcome<void>> done_;
  std::string last_;
  bool looking_ = false;
  bool finished_ = false;
  // Shared with posted looks only: one may still be queued when the follower is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::string state_sentence(const lh::Volume& volume) {
  const auto& status = volume.status;
  if (volume.metadata.is_being_deleted()) return "being deleted";
  std::string text(status.state == lh::VolumeState::none ? "new" : to_string(status.state));
  if (status.state == lh::VolumeState::attached) {
    text += fmt::format(" to {}", status.current_node_id);
    if (status.robustness != lh::Robustness::none) text += fmt::format(", {}", to_string(status.robustness));
    if (status.move && !status.move->destination_node_id.empty())
      text += fmt::format(", moves from {} to {} ({})", status.move->source_node_id,
                          status.move->destination_node_id, to_string(status.move->phase));
  } else if (status.state == lh::VolumeState::attaching && !volume.spec.node_id.empty()) {
    text += fmt::format(" to {}", volume.spec.node_id);
  } else if (status.state == lh::VolumeState::detaching && !status.current_node_id.empty()) {
    text += fmt::format(" from {}", status.current_node_id);
  }
  return text;
}

std::string blocker_text(const lh::Blocker& blocker) {
  std::string text(to_string(blocker.type));
  if (!blocker.message.empty()) text += ": " + blocker.message;
  return text;
}

Task<Outcome<void>> follow_volume(Context& context, FollowOptions options) {
  Follower follower(context, std::move(options));
  co_return co_await follower.run();
}

}  // namespace moor::cli
