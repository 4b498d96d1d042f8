// A table of text for people: columns as wide as their widest cell, two spaces between. Colours are applied
// after measuring, so that they never move a column. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moor::cli {

enum class Colour { none, green, yellow, red, dim, bold };

std::string paint(std::string_view text, Colour colour, bool colours);
// Green for what is as it should be, yellow for what is under way or short of it, red for what is not.
Colour colour_of_state(std::string_view state);

struct Cell {
  std::string text;
  Colour colour = Colour::none;
  Cell(std::string content) : text(std::move(content)) {}                                   // NOLINT
  Cell(std::string_view content) : text(content) {}                                         // NOLINT
  Cell(const char* content) : text(content) {}                                              // NOLINT
  Cell(std::string content, Colour painted) : text(std::move(content)), colour(painted) {}  // NOLINT
  static Cell state(std::string_view text) { return {std::string(text), colour_of_state(text)}; }
};

struct Table {
  std::vector<std::string> headings;
  std::vector<std::vector<Cell>> rows;
  std::size_t narrow = 0;  // how many columns are shown without -o wide; 0: all
};

struct TableStyle {
  bool wide = false;
  bool colours = false;
  bool headings = true;
};

std::string to_text(const Table& table, const TableStyle& style);

}  // namespace moor::cli
