#include <fmt/format.h>

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

Task<Outcome<WhyFacts>> read_facts(Context& context, std::string name) {
  CO_TRY(auto volume, co_await get_typed<lh::Volume>(context, name));
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

Json as_json(const Reason& reason, const std::string& volume) {
  Json json = Json::object({{"volume", volume},
                            {"about", reason.about},
                            {"ticket", reason.ticket},
                            {"type", reason.type},
                            {"message", reason.message},
                            {"holder", reason.holder},
                            {"holderType", reason.holder_type},
                            {"nodeID", reason.node},
                            {"since", reason.since ? Json(model::format_rfc3339(*reason.since)) : Json()},
                            {"clearedBy", reason.cleared_by}});
  for (const char* field : {"ticket", "message", "holder", "holderType", "nodeID", "clearedBy"})
    if (json.get_string(field) == "") json.erase(field);
  if (json.find("since")->is_null()) json.erase("since");
  return json;
}

void print_reasons(const Context& context, const std::vector<Reason>& reasons, const std::string& volume) {
  const Printer& printer = context.printer;
  for (const Reason& reason : reasons) {
    if (printer.format() == Format::name) {
      printer.line(reason.type);
    } else {
      printer.line((volume.empty() ? std::string() : volume + ": ") + to_sentence(reason, context.now()));
    }
  }
}

bool wants_data(const Printer& printer) {
  return printer.format() == Format::json || printer.format() == Format::yaml;
}

}  // namespace

Task<Outcome<void>> why_volume(Context& context, std::string name) {
  CO_TRY(const WhyFacts facts, co_await read_facts(context, name));
  const std::vector<Reason> reasons = reasons_for(facts);
  if (wants_data(context.printer)) {
    Json list = Json::array();
    for (const Reason& reason : reasons) list.push_back(as_json(reason, name));
    context.printer.data(list);
  } else if (reasons.empty() && context.printer.for_people()) {
    context.printer.line(fmt::format("{} is {}; nothing waits", name, state_sentence(facts.volume)));
  } else {
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
    std::vector<Reason> reasons = reasons_for(facts);
    std::erase_if(reasons, [&](const Reason& reason) { return reason.ticket != which.ticket; });
    for (const Reason& reason : reasons) list.push_back(as_json(reason, volume));
    if (wants_data(context.printer)) continue;
    if (reasons.empty() && context.printer.for_people())
      context.printer.line(fmt::format("{}: ticket {} is satisfied", volume, which.ticket));
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
