// LocalRegistry: create, update, patch and apply.
#include <fmt/format.h>

#include "base/json_share.h"
#include "base/log.h"
#include "model/kinds.h"
#include "registry/apply/managed_fields.h"
#include "registry/keys.h"
#include "registry/local_registry_inside.h"
#include "registry/node_scope.h"
#include "registry/patch.h"
#include "registry/prepare.h"
#include "registry/refusal.h"

namespace moor::registry {
namespace {

using Operation = AdmissionRequest::Operation;

const model::KindInfo& namespaces() {
  static const model::KindInfo& kind = *model::find_kind("", "v1", "namespaces");
  return kind;
}

Writer writer_of(const ResourceName& what, const WriteOptions& options, std::string now) {
  return {options.field_manager.empty() ? "unknown" : options.field_manager, what.subresource,
          std::move(now)};
}

// A configuration that names the object it means is for that object, not for a new one.
Answer<void> check_may_create(const ResourceName& what, const Json& config) {
  for (const char* key : {"uid", "resourceVersion"}) {
    const std::string meant = metadata_text(config, key);
    if (!meant.empty())
      return refuse_conflict(
          *what.kind, what.name,
          fmt::format("{} mismatch: the provided object specified {} {}, and no existing object "
                      "was found",
                      key, key, meant));
  }
  return {};
}

Refusal refuse_apply_conflicts(const std::vector<Conflict>& conflicts) {
  Refusal refusal{make_error(Errc::conflict, ""), "Conflict", {}, {}};
  std::string all;
  for (const Conflict& conflict : conflicts) {
    std::string by = fmt::format("conflict with \"{}\"", conflict.manager);
    if (!conflict.subresource.empty()) by += fmt::format(" with subresource \"{}\"", conflict.subresource);
    if (conflict.operation == "Update") {
      by += fmt::format(" using {}", conflict.api_version);
      if (!conflict.time.empty()) by += fmt::format(" at {}", conflict.time);
    }
    all += fmt::format("{}{}: {}", all.empty() ? "" : ", ", by, to_text(conflict.path));
    refusal.causes.push_back({"FieldManagerConflict", by, to_text(conflict.path)});
  }
  refusal.error.message = fmt::format("Apply failed with {} conflict{}: {}", conflicts.size(),
                                      conflicts.size() == 1 ? "" : "s", all);
  return refusal;
}

Refusal refuse_patch(const model::KindInfo& kind, std::string_view name, const Error& error) {
  Refusal refusal{error, "Invalid", {}, {}};
  refusal.error.message =
      fmt::format("{} \"{}\" cannot be patched: {}", kind.qualified_resource(), name, error.message);
  return refusal;
}

}  // namespace

Refusal refuse_commit(const Error& error, const model::KindInfo& kind, std::string_view name) {
  switch (error.code) {
    case Errc::already_exists: return refuse_already_exists(kind, name);
    case Errc::not_found: return refuse_not_found(kind, name);
    case Errc::conflict: return refuse_modified(kind, name);
    case Errc::exhausted: {
      Refusal refusal{error, "RequestEntityTooLarge", {}, {}};
      refusal.error.message = fmt::format("Request entity too large: {}", error.message);
      return refusal;
    }
    default: return Refusal{error, {}, {}, {}};
  }
}

AdmissionRequest LocalRegistry::admission(Operation operation, const ResourceName& what,
                                          std::string_view name, const Identity& identity,
                                          bool dry_run) const {
  AdmissionRequest request;
  request.operation = operation;
  request.kind = what.kind;
  request.space = what.space;
  request.name = name;
  request.subresource = what.subresource;
  request.identity = &identity;
  request.reader = this;
  request.dry_run = dry_run;
  return request;
}

// Mutating hooks, the kind's rules, the node's limits, validating hooks.
Answer<void> LocalRegistry::admit(const AdmissionRequest& request, Json& object) const {
  const model::KindInfo& kind = *request.kind;
  for (Admission* admission : admissions_) {
    if (admission->handles(kind)) TRY_VOID(admission->mutate(request, object));
  }
  settle(object);  // what the rules decode of it, they then decode once
  model::Causes causes = kind.validate(object, request.before);
  if (causes.empty() && request.before != nullptr) causes = kind.validate_update(*request.before, object);
  if (!causes.empty()) return refuse_invalid(kind, request.name, std::move(causes));
  TRY_VOID(check_node_scope(request, &object));
  for (Admission* admission : admissions_) {
    if (admission->handles(kind)) TRY_VOID(admission->validate(request, object));
  }
  return {};
}

// The namespace that a new object comes into; null for cluster-scoped kinds.
Answer<store::ObjectPtr> LocalRegistry::open_namespace(const ResourceName& where,
                                                       std::string_view name) const {
  if (!where.kind->namespaced) return store::ObjectPtr();
  store::ObjectPtr found = where.space.find('/') == std::string::npos
                               ? cache_.get(key_of(namespaces(), "", where.space))
                               : nullptr;
  // Nearly always: without the word in its text it is not ending, and need not be decoded.
  if (found != nullptr && found->readable &&
      found->entry.value->find("\"deletionTimestamp\"") == std::string::npos)
    return found;
  const JsonPtr space = found == nullptr ? nullptr : object_of(*found);
  if (space == nullptr) return refuse_not_found(namespaces(), where.space);
  if (metadata_text(*space, "deletionTimestamp").empty()) return found;
  const std::string why =
      fmt::format("unable to create new content in namespace {} because it is being terminated", where.space);
  Refusal refusal = refuse_forbidden(*where.kind, name, why);
  refusal.causes.push_back({"NamespaceTerminating",
                            fmt::format("namespace {} is being terminated", where.space),
                            "metadata.namespace"});
  return refusal;
}

namespace {

// Takes the texts of a commit out of the map again, however the commit ends.
class Handover {
 public:
  explicit Handover(FlatMap<const std::string*, Json>& written) : written_(written) {}
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;
  ~Handover() {
    for (const store::Value& text : texts_) written_.erase(text.get());
  }
  void add(const store::Value& text, Json object) {
    if (text == nullptr || !object.is_object() || !reads_back_alike(object)) return;
    written_.emplace(text.get(), std::move(object));
    texts_.push_back(text);
  }

 private:
  FlatMap<const std::string*, Json>& written_;
  std::vector<store::Value> texts_;  // held, so that no other text can have this address
};

}  // namespace

// Durable, and then in the cache: whoever hears of a write can read it.
Task<Result<store::Committed>> LocalRegistry::commit(store::Transaction transaction,
                                                     std::vector<Json> objects) {
  Handover handover(written_);
  for (std::size_t i = 0; i < objects.size(); ++i)
    handover.add(transaction.writes[i].value, std::move(objects[i]));
  CO_TRY(store::Committed committed, co_await store_.commit(std::move(transaction)));
  const store::Revision revision = committed.last();
  if (cache_.revision() >= revision) co_return committed;
  CancelSource limit;
  limit.set_deadline(executor_, executor_.clock().now() + options_.wait_limit,
                     "the cache did not see a write");
  const auto seen = co_await cache_.wait_for(revision, limit.token());
  // The write has happened all the same, and saying otherwise would be a lie.
  if (!seen) log_warn("a write is not in the cache yet", {{"revision", revision}, {"reason", seen.error()}});
  co_return committed;
}

// The cache has it by now, as a rule; if it lags, or the next version is in already, the text tells.
store::ObjectPtr LocalRegistry::take_back(const store::Write& write, store::Revision revision,
                                          Json& object) const {
  if (write.value == nullptr) {
    object["metadata"].set("resourceVersion", std::to_string(revision));
    return nullptr;
  }
  store::ObjectPtr cached = cache_.get(write.key);
  if (cached != nullptr && cached->readable && cached->entry.revision == revision) {
    if (const JsonPtr stored = object_of(*cached)) object = *stored;
    return cached;
  }
  auto decoded = decode_stored(*write.value, revision);
  MOOR_ASSERT(decoded.ok(), "what was written to '{}' cannot be read: {}", write.key,
              decoded.error().message);
  object = *std::move(decoded);
  return nullptr;
}

Task<Result<store::Committed>> LocalRegistry::commit_one(store::Transaction transaction, Written* written) {
  const store::Write write = transaction.writes.front();
  std::vector<Json> objects(1);
  if (write.value != nullptr) objects.front() = std::move(written->object);
  CO_TRY(store::Committed committed, co_await commit(std::move(transaction), std::move(objects)));
  if (store::ObjectPtr cached = take_back(write, committed.last(), written->object))
    written->stored = Item(std::move(cached));
  co_return committed;
}

Task<Answer<Written>> LocalRegistry::create(ResourceName where, Json object, WriteOptions options) {
  if (!where.subresource.empty()) co_return refuse_bad_request("a subresource cannot be created");
  CO_TRY_VOID(check_form(where, object));
  CO_TRY(auto warnings, check_fields(*where.kind, object, options));
  auto written = co_await create_named(std::move(where), std::move(object), std::move(options), false);
  if (written) written->warnings = std::move(warnings);
  co_return written;
}

Task<Answer<Written>> LocalRegistry::create_named(ResourceName where, Json object, WriteOptions options,
                                                  bool applied) {
  if (!cache_.is_synced()) CO_TRY_VOID(co_await catch_up());
  const bool generated = metadata_text(object, "name").empty();
  bool fresh = false;
  for (int attempt = 0; attempt < kWriteAttempts; ++attempt) {
    auto written = co_await try_create(where, object, options, applied);
    // The cache may not have heard of the namespace yet.
    const bool no_namespace = written ? false : written.error().error.code == Errc::not_found && !fresh;
    const bool taken = generated && written.is(Errc::already_exists);
    if (written && *written) co_return std::move(**written);
    if (!written && !no_namespace && !taken) co_return written.error();
    if (!taken) {
      CO_TRY_VOID(co_await catch_up());
      fresh = true;
    }
  }
  co_return refuse_conflict(*where.kind, metadata_text(object, "name"),
                            "its namespace kept changing, or no free name was found; try again");
}

Answer<LocalRegistry::Staged<Written>> LocalRegistry::stage_create(const ResourceName& where, Json object,
                                                                   const WriteOptions& options,
                                                                   bool applied) const {
  const model::KindInfo& kind = *where.kind;
  TRY_VOID(choose_name(kind, object, random_));
  const std::string name = metadata_text(object, "name");
  TRY(const store::ObjectPtr space, open_namespace(where, name));
  TRY_VOID(start_life(kind, object, now(), random_, applied));
  kind.set_defaults(object);
  TRY_VOID(admit(admission(Operation::create, where, name, options.identity, options.dry_run), object));
  if (!applied) track_write(kind, nullptr, object, writer_of(where, options, now()));
  const std::string key = key_of(kind, where.space, name);
  if (options.dry_run && cache_.get(key) != nullptr) return refuse_already_exists(kind, name);
  Staged<Written> staged{{std::move(object), true, {}, {}}};
  if (options.dry_run) return staged;
  staged.part.compares.push_back(store::Compare::absent(key));
  // A namespace that begins to end while we write makes this fail, so that nothing is left behind in it.
  if (space != nullptr)
    staged.part.compares.push_back(store::Compare::at(space->entry.key, space->entry.revision));
  staged.part.writes.push_back(store::Write::put(key, encode_stored(staged.result.object)));
  return staged;
}

Task<LocalRegistry::Attempt<Written>> LocalRegistry::try_create(ResourceName where, Json object,
                                                                WriteOptions options, bool applied) {
  CO_TRY(Staged<Written> staged, stage_create(where, std::move(object), options, applied));
  Written& written = staged.result;
  if (staged.part.writes.empty()) co_return std::optional<Written>(std::move(written));
  const std::string name = metadata_text(written.object, "name");
  const auto done = co_await commit_one(std::move(staged.part), &written);
  if (done.is(Errc::conflict) || done.is(Errc::not_found)) co_return std::optional<Written>();
  if (!done) co_return refuse_commit(done.error(), *where.kind, name);
  co_return std::optional<Written>(std::move(written));
}

Task<Answer<Written>> LocalRegistry::update(ResourceName what, Json object, WriteOptions options) {
  return change(std::move(what), Change{Change::Type::replace, std::move(object)}, std::move(options));
}

Task<Answer<Written>> LocalRegistry::patch(ResourceName what, PatchType type, Json patch,
                                           WriteOptions options) {
  Change wanted{Change::Type::json_patch, std::move(patch)};
  switch (type) {
    case PatchType::json: break;
    case PatchType::merge: wanted.type = Change::Type::merge_patch; break;
    case PatchType::strategic: wanted.type = Change::Type::strategic_patch; break;
    case PatchType::apply: wanted.type = Change::Type::apply; break;
  }
  return change(std::move(what), std::move(wanted), std::move(options));
}

Answer<LocalRegistry::Next> LocalRegistry::decide(const ResourceName& what, const Change& wanted,
                                                  const Json& live, const WriteOptions& options) const {
  const model::KindInfo& kind = *what.kind;
  const auto patched = [&](Result<Json> result) -> Answer<Json> {
    if (!result) return refuse_patch(kind, what.name, result.error());
    return std::move(*result);
  };
  Next next;
  switch (wanted.type) {
    case Change::Type::replace: next.object = wanted.body; break;
    case Change::Type::json_patch: {
      TRY(next.object, patched(json_patch(live, wanted.body)));
      break;
    }
    case Change::Type::merge_patch:
      if (!wanted.body.is_object()) return refuse_bad_request("a merge patch must be a JSON object");
      next.object = merge_patch(live, wanted.body);
      break;
    case Change::Type::strategic_patch: {
      if (!kind.strategic_patch)
        return refuse_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml");
      TRY(next.object, patched(strategic_merge_patch(live, wanted.body, *kind.schema)));
      break;
    }
    case Change::Type::apply: return decide_apply(what, wanted.body, &live, options);
  }
  TRY_VOID(check_form(what, next.object));
  TRY(next.warnings, check_fields(kind, next.object, options));
  return next;
}

Answer<LocalRegistry::Next> LocalRegistry::decide_apply(const ResourceName& what, const Json& config,
                                                        const Json* live, const WriteOptions& options) const {
  const model::KindInfo& kind = *what.kind;
  if (options.field_manager.empty())
    return refuse_bad_request("fieldManager: Required value: is required for apply patch");
  Json wanted = config;
  if (!wanted.is_object() || !wanted.get_string("apiVersion") || !wanted.get_string("kind"))
    return refuse_bad_request("an applied configuration must name its apiVersion and kind");
  TRY_VOID(check_form(what, wanted));
  Next next;
  TRY(next.warnings, check_fields(kind, wanted, options));
  // What this door cannot reach is not part of the configuration.
  if (what.subresource.empty() && kind.has_status) wanted.erase("status");
  if (what.subresource == "status") {
    const Json* status = wanted.find("status");
    Json only = Json::object({{"apiVersion", *wanted.find("apiVersion")},
                              {"kind", *wanted.find("kind")},
                              {"metadata", *wanted.find("metadata")}});
    if (status != nullptr) only.set("status", *status);
    wanted = std::move(only);
  }
  auto applied = server_side_apply(kind, live, wanted, writer_of(what, options, now()), options.force);
  if (!applied) return refuse_bad_request(applied.error().message);
  if (!applied->conflicts.empty()) return refuse_apply_conflicts(applied->conflicts);
  next.object = std::move(applied->object);
  next.applied = true;
  return next;
}

Task<Answer<Written>> LocalRegistry::change(ResourceName what, Change wanted, WriteOptions options) {
  const model::KindInfo& kind = *what.kind;
  if (what.name.find('/') != std::string::npos || what.space.find('/') != std::string::npos)
    co_return refuse_not_found(kind, what.name);
  if (what.subresource == "status" && !kind.has_status) co_return refuse_not_found(kind, what.name);
  const std::string key = key_of(kind, what.space, what.name);
  bool fresh = false;
  for (int attempt = 0; attempt < kWriteAttempts; ++attempt) {
    if (attempt > 0 || !cache_.is_synced()) {
      CO_TRY_VOID(co_await catch_up());
      fresh = true;
    }
    const store::ObjectPtr live = cache_.get(key);
    const JsonPtr object = live == nullptr ? nullptr : object_of(*live);
    if (object == nullptr) {
      if (live != nullptr) co_return make_error(Errc::corrupt, fmt::format("'{}' is damaged", key));
      if (!fresh) continue;
      if (wanted.type != Change::Type::apply || !what.subresource.empty())
        co_return refuse_not_found(kind, what.name);
      CO_TRY_VOID(check_may_create(what, wanted.body));
      CO_TRY(Next next, decide_apply(what, wanted.body, nullptr, options));
      auto created = co_await create_named(what, std::move(next.object), options, true);
      if (created.is(Errc::already_exists)) continue;  // somebody was faster: apply to theirs
      if (created) created->warnings = std::move(next.warnings);
      co_return created;
    }
    recent_.keep(object, live->entry.value->size());  // whoever hears of the change compares with it
    auto next = decide(what, wanted, *object, options);
    if (!next) {
      if (!fresh && next.is(Errc::conflict)) continue;
      co_return next.error();
    }
    auto written = co_await try_change(what, live, std::move(*next), options);
    if (written && *written) co_return std::move(**written);
    if (!written && (fresh || !written.is(Errc::conflict))) co_return written.error();
  }
  co_return refuse_modified(kind, what.name);
}

Answer<Written> LocalRegistry::carry_out(const ResourceName& what, const Json& before, Next next,
                                         const WriteOptions& options) const {
  const model::KindInfo& kind = *what.kind;
  Json& after = next.object;
  TRY_VOID(continue_life(what, before, after));
  kind.set_defaults(after, &before);
  AdmissionRequest request = admission(Operation::update, what, what.name, options.identity, options.dry_run);
  request.before = &before;
  TRY_VOID(admit(request, after));
  count_generation(kind, before, after);
  if (!next.applied) track_write(kind, &before, after, writer_of(what, options, now()));
  return Written{std::move(after), false, std::move(next.warnings), {}};
}

Answer<LocalRegistry::Staged<Written>> LocalRegistry::stage_change(const ResourceName& what,
                                                                   const store::ObjectPtr& live, Next next,
                                                                   const WriteOptions& options) const {
  TRY(Written written, carry_out(what, *object_of(*live), std::move(next), options));
  return in_words(*what.kind, live, std::move(written), options);
}

LocalRegistry::Staged<Written> LocalRegistry::in_words(const model::KindInfo& kind,
                                                       const store::ObjectPtr& live, Written changed,
                                                       const WriteOptions& options) {
  Staged<Written> staged{std::move(changed)};
  Written& written = staged.result;
  if (options.dry_run || written.object == *object_of(*live)) return staged;
  staged.part.compares.push_back(store::Compare::at(live->entry.key, live->entry.revision));
  staged.part.writes.push_back(may_go(kind, written.object)
                                   ? store::Write::remove(live->entry.key)
                                   : store::Write::put(live->entry.key, encode_stored(written.object)));
  return staged;
}

Task<LocalRegistry::Attempt<Written>> LocalRegistry::try_change(ResourceName what, store::ObjectPtr live,
                                                                Next next, WriteOptions options) {
  CO_TRY(Staged<Written> staged, stage_change(what, live, std::move(next), options));
  Written& written = staged.result;
  if (staged.part.writes.empty()) co_return std::optional<Written>(std::move(written));
  const auto done = co_await commit_one(std::move(staged.part), &written);
  if (done.is(Errc::conflict) || done.is(Errc::not_found)) co_return std::optional<Written>();
  if (!done) co_return refuse_commit(done.error(), *what.kind, what.name);
  co_return std::optional<Written>(std::move(written));
}

}  // namespace moor::registry
