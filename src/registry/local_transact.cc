// LocalRegistry: several writes in one transaction. Each is staged exactly as a single write would be; the
// parts are put together and committed at once.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/json_share.h"
#include "base/plant.h"
#include "registry/keys.h"
#include "registry/local_registry_inside.h"
#include "registry/prepare.h"
#include "registry/refusal.h"

namespace moor::registry {
namespace {

bool is_same(const store::Compare& left, const store::Compare& right) {
  return left.key == right.key && left.kind == right.kind && left.revision == right.revision;
}

// Several creations name the same namespace: once is enough.
void add_compare(store::Transaction& whole, store::Compare compare) {
  const bool there = std::any_of(whole.compares.begin(), whole.compares.end(),
                                 [&](const store::Compare& one) { return is_same(one, compare); });
  if (!there) whole.compares.push_back(std::move(compare));
}

Answer<store::Compare> compare_of(const Guard& guard) {
  std::string key = key_of(*guard.what.kind, guard.what.space, guard.what.name);
  if (guard.resource_version.empty()) return store::Compare::absent(std::move(key));
  store::Revision revision = 0;
  const std::string& text = guard.resource_version;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), revision);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
    return refuse_bad_request(fmt::format("\"{}\" is no resourceVersion", text));
  return store::Compare::at(std::move(key), revision);
}

}  // namespace

Answer<LocalRegistry::Staged<Json>> LocalRegistry::stage(std::span<Mutation> parts,
                                                         const WriteOptions& options) const {
  Mutation& mutation = parts.front();
  const ResourceName& what = mutation.what;
  const model::KindInfo& kind = *what.kind;
  if (mutation.type == Mutation::Type::create) {
    Json object = std::move(mutation.object);
    TRY_VOID(check_form(what, object));
    TRY(const auto warnings, check_fields(kind, object, options));
    TRY(Staged<Written> staged, stage_create(what, std::move(object), options, false));
    return Staged<Json>{std::move(staged.result.object), std::move(staged.part)};
  }
  const store::ObjectPtr live = cache_.get(key_of(kind, what.space, what.name));
  if (live == nullptr || object_of(*live) == nullptr) return refuse_not_found(kind, what.name);
  if (mutation.type == Mutation::Type::remove) {
    if (mutation.resource_version.empty())
      return refuse_bad_request(fmt::format("the removal of \"{}\" names no resourceVersion", what.name));
    DeleteOptions removal;
    removal.identity = options.identity;
    removal.resource_version = mutation.resource_version;
    removal.dry_run = options.dry_run;
    TRY(Staged<Deleted> staged, stage_remove(what, live, removal));
    return Staged<Json>{std::move(staged.result.object), std::move(staged.part)};
  }
  return stage_updates(parts, live, options);
}

Answer<LocalRegistry::Staged<Json>> LocalRegistry::stage_updates(std::span<Mutation> parts,
                                                                 const store::ObjectPtr& live,
                                                                 const WriteOptions& options) const {
  const model::KindInfo& kind = *parts.front().what.kind;
  const JsonPtr stored = object_of(*live);
  Written written{*stored, false, {}, {}};
  for (Mutation& part : parts) {
    const ResourceName& what = part.what;
    if (metadata_text(part.object, "resourceVersion").empty())
      return refuse_bad_request(fmt::format("the update of \"{}\" names no resourceVersion", what.name));
    if (what.subresource == "status" && !kind.has_status) return refuse_not_found(kind, what.name);
    Json before = std::move(written.object);
    settle(before);  // what the next part leaves alone is not looked at again
    Next next;
    if (part.spec_only) {
      if (metadata_text(part.object, "resourceVersion") != metadata_text(before, "resourceVersion"))
        return refuse_modified(kind, what.name);
      next.object = before;
      next.object.set("spec", std::move(part.object["spec"]));
    } else {
      next.object = std::move(part.object);
      TRY_VOID(check_form(what, next.object));
      TRY(next.warnings, check_fields(kind, next.object, options));
    }
    TRY(written, carry_out(what, before, std::move(next), options));
  }
  Staged<Written> staged = in_words(kind, live, std::move(written), options);
  Staged<Json> result{std::move(staged.result.object), std::move(staged.part)};
  // It changes nothing, but the others were decided on it.
  if (result.part.writes.empty())
    result.part.compares.push_back(store::Compare::at(live->entry.key, live->entry.revision));
  return result;
}

namespace {

// How many of the first mutations are updates of one object.
std::size_t parts_of_one(std::span<const Mutation> mutations) {
  const Mutation& first = mutations.front();
  std::size_t count = 1;
  while (first.type == Mutation::Type::update && count < mutations.size()) {
    const Mutation& next = mutations[count];
    if (next.type != first.type || next.what.kind != first.what.kind || next.what.space != first.what.space ||
        next.what.name != first.what.name || next.what.subresource == mutations[count - 1].what.subresource)
      break;
    ++count;
  }
  return count;
}

}  // namespace

Task<Answer<std::vector<Json>>> LocalRegistry::transact(std::vector<Mutation> mutations,
                                                        std::vector<Guard> guards, WriteOptions options) {
  if (!cache_.is_synced()) CO_TRY_VOID(co_await catch_up());
  store::Transaction whole;
  std::vector<Json> objects;
  struct Place {
    std::size_t first;
    std::size_t parts;
  };
  std::vector<Place> written;  // which of the objects each of the store's writes stands for
  std::set<std::string> keys;
  ResourceName first;
  if (!mutations.empty()) first = mutations.front().what;
  for (std::span<Mutation> rest(mutations); !rest.empty();) {
    const std::size_t parts = parts_of_one(rest);
    CO_TRY(Staged<Json> staged, stage(rest.first(parts), options));
    rest = rest.subspan(parts);
    for (store::Compare& compare : staged.part.compares) add_compare(whole, std::move(compare));
    for (store::Write& write : staged.part.writes) {
      if (!keys.insert(write.key).second)
        co_return refuse_bad_request(fmt::format("\"{}\" is written twice in one transaction", write.key));
      if (MOOR_PLANT("registry-transaction-half") && mutations.size() > 1 && rest.empty()) continue;
      whole.writes.push_back(std::move(write));
      written.push_back({objects.size(), parts});
    }
    const std::size_t place = objects.size();
    objects.push_back(std::move(staged.result));
    // What is written is taken back for all of its parts.
    for (std::size_t i = 1; i < parts; ++i)
      objects.push_back(staged.part.writes.empty() ? objects[place] : Json());
  }
  for (const Guard& guard : guards) {
    CO_TRY(store::Compare compare, compare_of(guard));
    add_compare(whole, std::move(compare));
  }
  if (options.dry_run || whole.writes.empty()) co_return objects;
  const std::vector<store::Write> writes = whole.writes;
  std::vector<Json> stored(written.size());
  for (std::size_t i = 0; i < written.size(); ++i)
    if (writes[i].value != nullptr) stored[i] = std::move(objects[written[i].first]);
  const auto done = co_await commit(std::move(whole), std::move(stored));
  const bool changed = done.is(Errc::conflict) || done.is(Errc::not_found) || done.is(Errc::already_exists);
  if (changed) {
    Refusal refusal{done.error(), "Conflict", {}, {}};
    refusal.error.code = Errc::conflict;
    co_return refusal;
  }
  if (!done) co_return refuse_commit(done.error(), *first.kind, first.name);
  for (std::size_t i = 0; i < written.size(); ++i) {
    Json& object = objects[written[i].first];
    take_back(writes[i], done->revisions[i], object);
    for (std::size_t part = 1; part < written[i].parts; ++part) objects[written[i].first + part] = object;
  }
  co_return objects;
}

}  // namespace moor::registry
