#include <fmt/format.h>

#include <algorithm>

#include "cli/follow.h"
#include "cli/objects.h"
#include "cli/why.h"

namespace moor::cli {
namespace {

namespace lh = model::longhorn;

template <class T>
std::vector<T> objects_of(std::vector<Pair<T>> pairs) {
  std::vector<T> objects;
  for (Pair<T>& pair : pairs) objects.push_back(std::move(pair.object));
  return objects;
}

// Long enough for a controller to look at a ticket that was written a moment ago.
constexpr Duration kAnswerTime = std::chrono::seconds(2);

bool is_looked_at(const lh::VolumeAttachment& book) {
  const auto& statuses = book.status.attachment_ticket_statuses;
  return std::all_of(book.spec.attachment_tickets.begin(), book.spec.attachment_tickets.end(),
                     [&](const auto& one) {
                       const auto status = statuses.find(one.first);
                       return status != statuses.end() && status->second.generation == one.second.generation;
                     });
}

// Asked right after a ticket was written, "nobody looked at it yet" would be true and of no use.
Task<Outcome<void>> give_time_to_answer(Context& context, std::string volume) {
  CO_TRY(const auto book, co_await find_typed<lh::VolumeAttachment>(context, volume));
  if (!book || is_looked_at(*book)) co_return Outcome<void>();
  Verdict verdict = [](const VolumeSight& sight) -> std::optional<Outcome<void>> {
    if (!sight.attachment || is_looked_at(*sight.attachment)) return Outcome<void>();
    return std::nullopt;
  };
  FollowOptions follow{volume, kAnswerTime, "", "", std::move(verdict), true};
  auto answered = co_await follow_volume(context, std::move(follow));
  if (!answered && answered.error().code != ExitCode::timed_out) co_return answered;
  co_return Outcome<void>();
}

Task<Outcome<WhyFacts>> read_facts(Context& context, std::string name) {
  CO_TRY(auto volume, co_await get_typed<lh::Volume>(context, name));
  CO_TRY_VOID(co_await give_time_to_answer(context, name));
  WhyFacts facts{std::move(volume.object)};
  CO_TRY(facts.attachment, co_await find_typed<lh::VolumeAttachment>(context, name));
  CO_TRY(facts.grant, co_await find_typed<model::mooring::Grant>(context, name));
  CO_TRY(auto engines, co_await list_typed<lh::Engine>(context, of_volume(name)));
  CO_TRY(auto replicas, co_await list_typed<lh::Replica>(context, of_volume(name)));
  registry::ListOptions everything;
  CO_TRY(auto nodes, co_await list_typed<lh::Node>(context, everything));
  facts.engines = objects_of(std::move(engines));
  facts.replicas = objects_of(std::move(replicas));
  facts.nodes = objects_of(std::move(nodes));
  co_return facts;
}

// One member per fact, so that scripts need not read sentences.
Json as_json(const Reason& reason, const std::string& volume) {
  Json json = Json::object({{"volume", volume}, {"kind", reason.kind}});
  const auto add = [&json](std::string_view key, std::string_view value) {
    if (!value.empty()) json.set(key, value);
  };
  add("ticket", reason.ticket);
  add("type", reason.type);
  if (reason.blocker) {
    add("message", reason.blocker->message);
    add("holder", reason.blocker->holder);
    add("holderType", reason.blocker->holder_type);
    add("nodeID", reason.blocker->node_id);
    if (reason.blocker->since) add("since", model::format_rfc3339(*reason.blocker->since));
    add("clearedBy", reason.blocker->cleared_by);
  }
  add("text", reason.text);
  return json;
}

void print_reasons(const Context& context, const std::vector<Reason>& reasons, const std::string& volume) {
  const Printer& printer = context.printer;
  for (const Reason& reason : reasons) {
    if (printer.for_people()) {
      const Colour colour = reason.kind == "satisfied" ? Colour::green
                            : reason.kind == "waiting" ? Colour::yellow
                                                       : Colour::none;
      printer.line(printer.paint((volume.empty() ? std::string() : volume + ": ") + reason.text, colour));
    } else if (reason.kind == "waiting") {
      printer.line(reason.type);
    }
  }
}

bool wants_data(const Printer& printer) {
  return printer.format() == Format::json || printer.format() == Format::yaml;
}

}  // namespace

Task<Outcome<void>> why_volume(Context& context, std::string name) {
  CO_TRY(const WhyFacts facts, co_await read_facts(context, name));
  const std::vector<Reason> reasons = reasons_for(facts, context.now());
  if (wants_data(context.printer)) {
    Json list = Json::array();
    for (const Reason& reason : reasons) list.push_back(as_json(reason, name));
    context.printer.data(list);
  } else {
    if (context.printer.for_people())
      context.printer.line(fmt::format("volume {} is {}", name, state_sentence(facts.volume)));
    print_reasons(context, reasons, "");
  }
  co_return Outcome<void>();
}

Task<Outcome<void>> why_ticket(Context& context, WhyTicket which) {
  registry::ListOptions everything;
  CO_TRY(const auto books, co_await list_typed<lh::VolumeAttachment>(context, everything));
  Json list = Json::array();
  std::size_t found = 0;
  std::vector<std::string> known;
  for (const auto& book : books) {
    const std::string volume = book.object.metadata.name;
    if (!which.volume.empty() && volume != which.volume) continue;
    for (const auto& [id, ticket] : book.object.spec.attachment_tickets) known.push_back(id);
    if (!book.object.spec.attachment_tickets.contains(which.ticket)) continue;
    ++found;
    CO_TRY(const WhyFacts facts, co_await read_facts(context, volume));
    std::vector<Reason> reasons = reasons_for(facts, context.now());
    std::erase_if(reasons, [&](const Reason& reason) { return reason.ticket != which.ticket; });
    for (const Reason& reason : reasons) list.push_back(as_json(reason, volume));
    if (wants_data(context.printer)) continue;
    print_reasons(context, reasons, volume);
  }
  if (found == 0) {
    Failure failure{ExitCode::not_found, fmt::format("there is no ticket '{}'{}{}", which.ticket,
                                                     which.volume.empty() ? "" : " for ", which.volume)};
    const std::string meant = closest(which.ticket, known);
    failure.hint =
        meant.empty() ? "see them all with: moor tickets" : fmt::format("did you mean '{}'?", meant);
    co_return failure;
  }
  if (wants_data(context.printer)) context.printer.data(list);
  co_return Outcome<void>();
}

}  // namespace moor::cli
