#include "cli/table.h"

#include <algorithm>
#include <array>

namespace moor::cli {
namespace {

// Characters, not bytes: names are ASCII, but messages need not be.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0u) != 0x80u; }));
}

void append_row(std::string& out, const std::vector<Cell>& cells, const std::vector<std::size_t>& widths,
                bool colours) {
  for (std::size_t i = 0; i < widths.size() && i < cells.size(); ++i) {
    const std::string_view text = cells[i].text.empty() ? std::string_view("-") : cells[i].text;
    out += paint(text, cells[i].colour, colours);
    if (i + 1 < widths.size()) out.append(widths[i] - width_of(text) + 2, ' ');
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out += '\n';
}

}  // namespace

std::string paint(std::string_view text, Colour colour, bool colours) {
  constexpr std::array<std::string_view, 6> kCodes = {"", "32", "33", "31", "2", "1"};
  if (!colours || colour == Colour::none) return std::string(text);
  return "\033[" + std::string(kCodes[static_cast<std::size_t>(colour)]) + "m" + std::string(text) +
         "\033[0m";
}

Colour colour_of_state(std::string_view state) {
  constexpr std::array<std::string_view, 6> kGood = {"attached", "healthy", "running", "RW", "True", "yes"};
  constexpr std::array<std::string_view, 9> kUnderWay = {
      "attaching", "detaching", "creating", "deleting", "degraded", "starting", "stopping", "WO", "waiting"};
  constexpr std::array<std::string_view, 5> kBad = {"faulted", "error", "ERR", "False", "no"};
  const auto in = [&](const auto& list) { return std::find(list.begin(), list.end(), state) != list.end(); };
  if (in(kGood)) return Colour::green;
  if (in(kUnderWay)) return Colour::yellow;
  if (in(kBad)) return Colour::red;
  return Colour::none;
}

std::string to_text(const Table& table, const TableStyle& style) {
  const std::size_t shown =
      style.wide || table.narrow == 0 ? table.headings.size() : std::min(table.narrow, table.headings.size());
  std::vector<std::size_t> widths(shown, 1);
  std::vector<Cell> headings;
  for (std::size_t i = 0; i < shown; ++i) {
    headings.emplace_back(table.headings[i], Colour::bold);
    if (style.headings) widths[i] = width_of(table.headings[i]);
  }
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < shown && i < row.size(); ++i)
      widths[i] = std::max(widths[i], width_of(row[i].text));
  std::string out;
  if (style.headings) append_row(out, headings, widths, style.colours);
  for (const auto& row : table.rows) append_row(out, row, widths, style.colours);
  return out;
}

}  // namespace moor::cli
