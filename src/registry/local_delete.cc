// LocalRegistry: deletion, with finalizers and the three ways of dealing with dependents.
#include <fmt/format.h>

#include <algorithm>

#include "base/timestamp.h"
#include "registry/keys.h"
#include "registry/local_registry_inside.h"
#include "registry/node_scope.h"
#include "registry/prepare.h"
#include "registry/refusal.h"

namespace moor::registry {
namespace {

constexpr std::string_view kForeground = "foregroundDeletion";
constexpr std::string_view kOrphan = "orphan";
constexpr std::int64_t kLongestGraceSeconds = 24 * 3600;
// One request deletes at most this many; a larger collection goes in several.
constexpr std::size_t kMaxCollection = 10'000;

void set_finalizer(Json& object, std::string_view finalizer, bool wanted) {
  Json& metadata = object["metadata"];
  Json* list = metadata.find("finalizers");
  if (list == nullptr || !list->is_array()) {
    if (!wanted) return;
    list = &metadata.set("finalizers", Json::array());
  }
  for (std::size_t i = list->size(); i-- > 0;) {
    if (!list->at(i).is_string() || list->at(i).as_string() != finalizer) continue;
    if (wanted) return;
    list->erase(i);
  }
  if (wanted) list->push_back(finalizer);
  if (list->empty()) metadata.erase("finalizers");
}

// Only pods have somebody who uses the time: everything else goes at once.
std::int64_t grace_of(const model::KindInfo& kind, const Json& object, const DeleteOptions& options) {
  if (!kind.group.empty() || kind.kind != "Pod" || !options.grace_period_seconds) return 0;
  const Json* spec = object.find("spec");
  if (spec == nullptr || spec->get_string("nodeName").value_or("").empty()) return 0;
  return std::clamp<std::int64_t>(*options.grace_period_seconds, 0, kLongestGraceSeconds);
}

void mark_deleted(const model::KindInfo& kind, Json& object, const DeleteOptions& options, WallTime now) {
  if (options.propagation) {
    set_finalizer(object, kForeground, *options.propagation == Propagation::foreground);
    set_finalizer(object, kOrphan, *options.propagation == Propagation::orphan);
  }
  const std::int64_t grace = grace_of(kind, object, options);
  Json& metadata = object["metadata"];
  const bool first = !metadata.get_string("deletionTimestamp");
  // A second request may shorten the time, never lengthen it.
  // Clients that wait for a controller to have seen the newest generation wait for it to have seen the end,
  // too.
  const auto generation = metadata.get_int64("generation").value_or(0);
  if (first && generation > 0) metadata.set("generation", generation + 1);
  if (first || grace < metadata.get_int64("deletionGracePeriodSeconds").value_or(0)) {
    now.since_epoch += std::chrono::seconds(grace);
    metadata.set("deletionTimestamp", format_timestamp(now));
    metadata.set("deletionGracePeriodSeconds", grace);
  }
  if (is_namespace(kind)) {
    Json& status = object["status"];
    if (!status.is_object()) status = Json::object();
    status.set("phase", "Terminating");
  }
}

Answer<void> check_preconditions(const ResourceName& what, const Json& object, const DeleteOptions& options) {
  const auto check = [&](const char* word, const std::optional<std::string>& wanted,
                         const std::string& have) -> Answer<void> {
    if (!wanted || *wanted == have) return {};
    return refuse_conflict(*what.kind, what.name,
                           fmt::format("Precondition failed: {} in precondition: {}, {} in object meta: {}",
                                       word, *wanted, word, have));
  };
  TRY_VOID(check("UID", options.uid, metadata_text(object, "uid")));
  return check("ResourceVersion", options.resource_version, metadata_text(object, "resourceVersion"));
}

bool is_protected(const model::KindInfo& kind, std::string_view name) {
  return is_namespace(kind) && (name == "default" || name == "kube-system");
}

}  // namespace

Answer<void> LocalRegistry::admit_removal(const AdmissionRequest& request) const {
  if (is_protected(*request.kind, request.name))
    return refuse_forbidden(*request.kind, request.name, "this namespace may not be deleted");
  TRY_VOID(check_node_scope(request, nullptr));
  for (Admission* admission : admissions_) {
    if (admission->handles(*request.kind)) TRY_VOID(admission->before_delete(request));
  }
  return {};
}

Task<Answer<Deleted>> LocalRegistry::remove(ResourceName what, DeleteOptions options) {
  const model::KindInfo& kind = *what.kind;
  if (what.name.find('/') != std::string::npos || what.space.find('/') != std::string::npos)
    co_return refuse_not_found(kind, what.name);
  if (!what.subresource.empty()) co_return refuse_bad_request("a subresource cannot be deleted");
  const std::string key = key_of(kind, what.space, what.name);
  bool fresh = false;
  for (int attempt = 0; attempt < kWriteAttempts; ++attempt) {
    if (attempt > 0 || !cache_.is_synced()) {
      CO_TRY_VOID(co_await catch_up());
      fresh = true;
    }
    const store::ObjectPtr live = cache_.get(key);
    if (live == nullptr && !fresh) continue;
    if (live == nullptr) co_return refuse_not_found(kind, what.name);
    if (!live->readable) co_return make_error(Errc::corrupt, fmt::format("'{}' is damaged", key));
    auto deleted = co_await try_remove(what, live, options);
    if (deleted && *deleted) co_return std::move(**deleted);
    if (!deleted && (fresh || !deleted.is(Errc::conflict))) co_return deleted.error();
  }
  co_return refuse_modified(kind, what.name);
}

Answer<LocalRegistry::Staged<Deleted>> LocalRegistry::stage_remove(const ResourceName& what,
                                                                   const store::ObjectPtr& live,
                                                                   const DeleteOptions& options) const {
  const model::KindInfo& kind = *what.kind;
  const JsonPtr before = object_of(*live);
  recent_.keep(before, live->entry.value->size());
  TRY_VOID(check_preconditions(what, *before, options));
  AdmissionRequest request =
      admission(AdmissionRequest::Operation::remove, what, what.name, options.identity, options.dry_run);
  request.before = before.get();
  TRY_VOID(admit_removal(request));
  Staged<Deleted> staged{{*before, false}};
  Deleted& deleted = staged.result;
  mark_deleted(kind, deleted.object, options, executor_.clock().wall());
  deleted.gone = may_go(kind, deleted.object);
  if (deleted.gone) deleted.object = *before;
  const bool same = !deleted.gone && deleted.object == *before;  // asked for before, still held
  if (options.dry_run || same) return staged;
  staged.part.compares.push_back(store::Compare::at(live->entry.key, live->entry.revision));
  staged.part.writes.push_back(deleted.gone
                                   ? store::Write::remove(live->entry.key)
                                   : store::Write::put(live->entry.key, encode_stored(deleted.object)));
  return staged;
}

Task<LocalRegistry::Attempt<Deleted>> LocalRegistry::try_remove(ResourceName what, store::ObjectPtr live,
                                                                DeleteOptions options) {
  CO_TRY(Staged<Deleted> staged, stage_remove(what, live, options));
  Deleted& deleted = staged.result;
  if (staged.part.writes.empty()) co_return std::optional<Deleted>(std::move(deleted));
  std::vector<Json> none;
  const auto done = co_await commit(std::move(staged.part), std::move(none));
  if (done.is(Errc::conflict) || done.is(Errc::not_found)) co_return std::optional<Deleted>();
  if (!done) co_return refuse_commit(done.error(), *what.kind, what.name);
  deleted.object["metadata"].set("resourceVersion", std::to_string(done->last()));
  co_return std::optional<Deleted>(std::move(deleted));
}

Task<Answer<Listed>> LocalRegistry::remove_collection(ResourceName what, ListOptions which,
                                                      DeleteOptions options) {
  if (which.limit == 0 || which.limit > kMaxCollection) which.limit = kMaxCollection;
  CO_TRY(Listed listed, co_await list(what, std::move(which)));
  Listed removed;
  removed.resource_version = listed.resource_version;
  removed.continue_token = listed.continue_token;
  removed.remaining = listed.remaining;
  for (const JsonPtr& object : listed.items) {
    ResourceName one = what;
    one.space = metadata_text(*object, "namespace");
    one.name = metadata_text(*object, "name");
    DeleteOptions each = options;
    if (!each.uid) each.uid = metadata_text(*object, "uid");  // not one of the same name that came since
    auto deleted = co_await remove(std::move(one), std::move(each));
    if (!deleted && !deleted.is(Errc::not_found)) co_return deleted.error();
    if (deleted) removed.items.emplace_back(std::make_shared<const Json>(std::move(deleted->object)));
  }
  co_return removed;
}

}  // namespace moor::registry
