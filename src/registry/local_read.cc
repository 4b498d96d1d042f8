// LocalRegistry: get and list.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "registry/continue_token.h"
#include "registry/keys.h"
#include "registry/local_registry_inside.h"
#include "registry/refusal.h"

namespace moor::registry {
namespace {

// Entries looked at per read of an old state: a page whose selector matches little is found in several steps.
constexpr std::size_t kStorePage = 500;

Answer<store::Revision> parse_revision(std::string_view text) {
  store::Revision revision = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), revision);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size())
    return refuse_bad_request(
        fmt::format("Invalid value: \"{}\": resourceVersion must be a number", text.substr(0, 64)));
  return revision;
}

Answer<void> check_list_options(const ListOptions& options) {
  const std::string& match = options.resource_version_match;
  if (!match.empty() && match != "Exact" && match != "NotOlderThan")
    return refuse_bad_request(fmt::format(
        "resourceVersionMatch: Unsupported value: \"{}\": supported values: \"Exact\", \"NotOlderThan\"",
        match));
  if (!match.empty() && !options.continue_token.empty())
    return refuse_bad_request("resourceVersionMatch is forbidden for continue");
  if (!match.empty() && options.resource_version.empty())
    return refuse_bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided");
  if (match == "Exact" && options.resource_version == "0")
    return refuse_bad_request("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
  if (!options.continue_token.empty() && !options.resource_version.empty() && options.resource_version != "0")
    return refuse_bad_request("specifying resource version is not allowed when using continue");
  return {};
}

}  // namespace

Task<Answer<void>> LocalRegistry::reach(std::string resource_version) {
  if (resource_version.empty()) {
    CO_TRY_VOID(co_await catch_up());
    co_return Answer<void>();
  }
  CO_TRY(const store::Revision wanted, parse_revision(resource_version));
  if (cache_.is_synced() && cache_.revision() >= wanted) co_return Answer<void>();
  CO_TRY_VOID(co_await catch_up());
  if (cache_.revision() < wanted)
    co_return refuse_future(resource_version, std::to_string(cache_.revision()));
  co_return Answer<void>();
}

Task<Answer<Item>> LocalRegistry::get(ResourceName what, std::string resource_version) {
  CO_TRY_VOID(co_await reach(std::move(resource_version)));
  const store::ObjectPtr found = what.name.find('/') == std::string::npos
                                     ? cache_.get(key_of(*what.kind, what.space, what.name))
                                     : nullptr;
  if (found == nullptr) co_return refuse_not_found(*what.kind, what.name);
  if (!found->readable)
    co_return make_error(Errc::corrupt, fmt::format("the stored {} \"{}\" is damaged",
                                                    what.kind->qualified_resource(), what.name));
  co_return Item(found);
}

// The rarest term first: the others are only checked.
store::Interest LocalRegistry::interest_of(const Selection& selection) const {
  store::Interest interest{selection.place(), std::nullopt};
  if (selection.is_one_key() || selection.terms().empty()) return interest;
  interest.term = *std::min_element(
      selection.terms().begin(), selection.terms().end(),
      [this](const store::Term& a, const store::Term& b) { return cache_.count(a) < cache_.count(b); });
  return interest;
}

void LocalRegistry::visit_selected(const Selection& selection,
                                   const std::function<bool(const store::ObjectPtr&)>& visit) const {
  const auto offer = [&](const store::ObjectPtr& cached) {
    return !selection.matches(*cached) || visit(cached);
  };
  if (selection.is_one_key()) {
    if (const store::ObjectPtr found = cache_.get(selection.place())) offer(found);
    return;
  }
  const store::Interest interest = interest_of(selection);
  if (interest.term) {
    cache_.for_each(interest.prefix, *interest.term, offer);
  } else {
    cache_.for_each(interest.prefix, offer);
  }
}

namespace {
// What the next page needs to know; nothing when this was the last one.
void end_page(Listed& listed, bool more, store::Revision revision, std::string last_key,
              std::optional<std::int64_t> remaining, std::string_view place) {
  if (!more) return;
  listed.remaining = remaining;
  listed.continue_token = encode_token({revision, std::move(last_key), remaining}, place);
}
}  // namespace

Listed LocalRegistry::list_cached(const Selection& selection, std::size_t limit, std::string_view after,
                                  std::optional<std::int64_t> remaining) const {
  Listed listed;
  listed.resource_version = std::to_string(cache_.revision());
  if (limit == 0) {
    visit_selected(selection, [&](const store::ObjectPtr& object) {
      listed.items.emplace_back(object);
      return true;
    });
    return listed;
  }
  std::int64_t past = 0;
  bool more = false;
  // Counted once, on the first page; later pages subtract.
  const bool count = selection.is_everything() && !remaining;
  std::string last_key;
  const auto offer = [&](const store::ObjectPtr& object) {
    if (listed.items.size() < limit) {
      listed.items.emplace_back(object);
      if (listed.items.size() == limit) last_key = object->entry.key;
      return true;
    }
    more = true;
    ++past;
    return count;
  };
  if (after.empty()) {
    visit_selected(selection, offer);
  } else {
    cache_.for_each_after(selection.place(), after, [&](const store::ObjectPtr& cached) {
      return !selection.matches(*cached) || offer(cached);
    });
  }
  if (count) remaining = past;
  if (!count && remaining) *remaining -= static_cast<std::int64_t>(listed.items.size());
  if (more) end_page(listed, true, cache_.revision(), std::move(last_key), remaining, selection.place());
  return listed;
}

Task<Answer<Listed>> LocalRegistry::list_at(Selection selection, std::size_t limit, store::Revision revision,
                                            std::string after, std::optional<std::int64_t> remaining) {
  Listed listed;
  listed.resource_version = std::to_string(revision);
  const bool one = selection.is_one_key();
  store::ListRequest request{
      .prefix = selection.place(), .after = std::move(after), .limit = kStorePage, .revision = revision};
  bool more = true;
  bool full = false;
  while (more && !full) {
    auto page = co_await store_.list(request);
    if (page.is(Errc::expired))
      co_return refuse_expired(
          "The provided continue parameter or resourceVersion is too old to display a consistent list "
          "result: list again from the start.");
    if (!page) co_return page.error();
    for (store::Entry& entry : page->entries) {
      if (one && entry.key != selection.place()) continue;
      if (full || (limit != 0 && listed.items.size() == limit)) {
        full = true;
        break;
      }
      request.after = entry.key;
      const store::ObjectPtr cached = cache_.get(entry.key);
      if (cached != nullptr && cached->entry.revision == entry.revision && cached->readable) {
        if (selection.matches(*cached)) listed.items.emplace_back(cached);
        continue;
      }
      CO_TRY(Json decoded, decode_stored(*entry.value, entry.revision));
      auto object = std::make_shared<const Json>(std::move(decoded));
      if (selection.matches(*object)) listed.items.emplace_back(std::move(object));
    }
    more = page->more;
  }
  if (remaining) *remaining -= static_cast<std::int64_t>(listed.items.size());
  end_page(listed, full, revision, request.after, remaining, selection.place());
  co_return listed;
}

Task<Answer<Listed>> LocalRegistry::list(ResourceName what, ListOptions options) {
  CO_TRY_VOID(check_list_options(options));
  CO_TRY(Selection selection, Selection::make(what, options.labels, options.fields));
  if (!options.continue_token.empty()) {
    const auto token = decode_token(options.continue_token, selection.place());
    if (!token) co_return refuse_bad_request(token.error().message);
    CO_TRY_VOID(co_await reach(std::to_string(token->revision)));
    if (cache_.revision() == token->revision)
      co_return list_cached(selection, options.limit, token->last_key, token->remaining);
    co_return co_await list_at(std::move(selection), options.limit, token->revision, token->last_key,
                               token->remaining);
  }
  CO_TRY_VOID(co_await reach(options.resource_version));
  if (options.resource_version_match == "Exact" &&
      options.resource_version != std::to_string(cache_.revision())) {
    CO_TRY(const store::Revision revision, parse_revision(options.resource_version));
    co_return co_await list_at(std::move(selection), options.limit, revision, std::string(), std::nullopt);
  }
  co_return list_cached(selection, options.limit, {}, std::nullopt);
}

}  // namespace moor::registry
