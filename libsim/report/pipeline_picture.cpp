#include "libsim/report/pipeline_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <vector>

namespace stagecraft {

namespace {

/// How a pass is drawn.
struct Look {
  char const* name;
  char first_letter;  ///< of chunk 0
  char const* shade;  ///< without colour
  /// Colours of the 256-colour palette that are similarly bright, so that black text is readable
  /// on each; chunks use them in turn.
  std::array<int, 4> backgrounds;
};

/// Indexed by Pass.
constexpr std::array<Look, 5> looks{{{"forward", 'a', "░", {117, 75, 153, 111}},
                                     {"backward", 'A', "▓", {114, 71, 157, 108}},
                                     {"input gradient", 'A', "▓", {114, 71, 157, 108}},
                                     {"weight gradient", 'A', "▒", {222, 179, 229, 186}},
                                     {"recompute", 'a', "▚", {183, 140, 189, 146}}}};
constexpr int no_background = 0;
constexpr char no_character = '\0';
constexpr char const* idle_glyph = "·";

Look const& look_of(Pass pass) { return looks.at(static_cast<std::size_t>(pass)); }

std::string text_of(double value) { return fmt::format("{:g}", value); }

std::size_t digits(std::size_t number) { return std::to_string(number).size(); }

/// The scale from time to columns, and what fits into a cell.
struct Layout {
  std::size_t label = 0;    ///< columns before a row's cells
  std::size_t columns = 0;  ///< for cells
  double columns_per_tick = 0;
  bool is_cut = false;  ///< the schedule continues beyond the last column
  bool has_chunks = false;
  std::array<bool, looks.size()> has_pass{};  ///< by Pass
  bool loses_cells = false;                   ///< a computation is shorter than a column
  MicrobatchId largest_microbatch{};

  bool has(Pass pass) const { return has_pass.at(static_cast<std::size_t>(pass)); }
  std::size_t column(SimTime time) const {
    auto const at = std::llround(static_cast<double>(time.count()) * columns_per_tick);
    return std::min(static_cast<std::size_t>(at), columns);
  }
};

Layout make_layout(PlayedOrder const& played, std::size_t width) {
  Layout layout;
  SimTime shortest = SimTime::max();
  SimTime longest{0};
  for (StageRuns const& stage : played.stages) {
    for (ChunkSpan const& span : stage.runs) {
      SimTime const duration = span.end - span.start;
      longest = std::max(longest, duration);
      if (duration > SimTime{0}) shortest = std::min(shortest, duration);
      layout.largest_microbatch = std::max(layout.largest_microbatch, span.run.microbatch);
      layout.has_chunks = layout.has_chunks || span.run.chunk > ChunkId{0};
      layout.has_pass.at(static_cast<std::size_t>(span.run.pass)) = true;
    }
  }
  assert(longest > SimTime{0});
  layout.label = 6 + digits(played.stages.size() - 1) + 2;  // "stage 12 |"
  layout.columns = width - layout.label;

  // A number, a letter for the chunk if there are several, and a column of shade.
  auto const roomy =
      static_cast<int>(digits(layout.largest_microbatch.index())) + (layout.has_chunks ? 2 : 1);
  SimTime const unit = std::max(shortest, longest / 4);
  auto const columns_for = [&](int unit_columns) {
    layout.columns_per_tick = unit_columns / static_cast<double>(unit.count());
    return static_cast<double>(played.makespan.count()) * layout.columns_per_tick;
  };
  int unit_columns = roomy;
  while (unit_columns > 1 && columns_for(unit_columns) > static_cast<double>(layout.columns)) {
    --unit_columns;
  }
  double const needed = std::ceil(columns_for(unit_columns) - 0.5);
  layout.is_cut = needed > static_cast<double>(layout.columns);
  if (!layout.is_cut) layout.columns = static_cast<std::size_t>(needed);
  layout.loses_cells = shortest * unit_columns < unit;
  return layout;
}

/// The content of one column of a row: a character of a cell's text, or a shade.
struct Glyph {
  char character = no_character;
  char const* shade = idle_glyph;
  int background = no_background;
};

/// Writes a computation into the columns of its row.
void draw_cell(std::vector<Glyph>& row,
               ChunkSpan const& span,
               Layout const& layout,
               Colour colour) {
  std::size_t const first = layout.column(span.start);
  std::size_t const last = layout.column(span.end);
  Look const& look = look_of(span.run.pass);
  std::size_t const chunk = span.run.chunk.index();

  std::string const number = std::to_string(span.run.microbatch.value());
  std::string letter;
  if (layout.has_chunks) {
    letter = static_cast<char>(look.first_letter + static_cast<int>(chunk % 26));
  }
  // If a letter does not tell the passes apart, the shade does, so it gets a column.
  bool const needs_shade =
      letter.empty() || (colour == Colour::none && layout.has(Pass::weight_gradient));
  std::size_t const room = last - first - (needs_shade && last > first ? 1 : 0);
  std::string const text = number.size() + letter.size() <= room ? number + letter
                           : letter.size() <= room               ? letter
                                                                 : std::string{};
  for (std::size_t at = first; at < last; ++at) {
    Glyph& glyph = row[at];
    if (at - first < text.size()) glyph.character = text[at - first];
    glyph.shade = colour == Colour::ansi ? " " : look.shade;
    glyph.background = look.backgrounds.at(chunk % look.backgrounds.size());
  }
}

std::string paint(std::vector<Glyph> const& row, Colour colour) {
  std::string line;
  int background = no_background;
  for (Glyph const& glyph : row) {
    if (colour == Colour::ansi && glyph.background != background) {
      background = glyph.background;
      line += background == no_background ? "\x1b[0m"
                                          : "\x1b[30;48;5;" + std::to_string(background) + "m";
    }
    if (glyph.character != no_character) {
      line += glyph.character;
    } else {
      line += glyph.shade;
    }
  }
  if (background != no_background && colour == Colour::ansi) line += "\x1b[0m";
  return line;
}

/// The line above the rows: time at the left and at the right end.
std::string axis(PlayedOrder const& played, Layout const& layout) {
  SimTime const end =
      layout.is_cut
          ? SimTime{std::llround(static_cast<double>(layout.columns) / layout.columns_per_tick)}
          : played.makespan;
  std::string const text = text_of(played.in_units(end));
  std::string line = "time";
  line.resize(layout.label, ' ');
  line += '0';
  std::size_t const right = layout.label + layout.columns;
  line.resize(std::max(line.size() + 1, right - std::min(right, text.size())), ' ');
  return line + text + '\n';
}

std::string legend(PlayedOrder const& played, Layout const& layout, Colour colour) {
  std::string text;
  if (layout.is_cut) {
    SimTime const shown{
        std::llround(static_cast<double>(layout.columns) / layout.columns_per_tick)};
    text += "cut at " + text_of(played.in_units(shown)) + " of " +
            text_of(played.in_units(played.makespan)) + ": a wider terminal shows more\n";
  }
  if (layout.loses_cells) text += "a computation shorter than a column may be missing\n";
  auto const sample = [&](Pass pass) {
    std::vector<Glyph> cell(2);
    if (layout.has_chunks) cell.emplace_back();
    Layout one = layout;
    one.columns = cell.size();
    one.columns_per_tick = 1;
    ChunkSpan const span{
        {pass, MicrobatchId{}, ChunkId{}}, SimTime{0}, SimTime{static_cast<int>(cell.size())}};
    draw_cell(cell, span, one, colour);
    return paint(cell, colour);
  };
  std::vector<std::string> names;
  for (std::size_t pass = 0; pass < looks.size(); ++pass) {
    if (!layout.has_pass.at(pass)) continue;
    names.push_back(sample(static_cast<Pass>(pass)) + ' ' + looks.at(pass).name);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  text += " of microbatch 0";
  if (layout.has_chunks) text += " in chunk 0 (b: chunk 1)";
  return text + ", " + idle_glyph + " idle\n";
}

}  // namespace

std::string draw_pipeline(PlayedOrder const& played, TextStyle const& style) {
  Layout const layout = make_layout(played, static_cast<std::size_t>(std::max(style.width, 40)));
  std::string picture = axis(played, layout);
  for (std::size_t stage = 0; stage < played.stages.size(); ++stage) {
    std::string const number = std::to_string(stage);
    picture += "stage ";
    picture.append(layout.label - 8 - number.size(), ' ');
    picture += number + " │";
    std::vector<Glyph> row(layout.columns);
    bool is_second_half = false;
    for (ChunkSpan span : played.stages[stage].runs) {
      SimTime const middle = span.start + (span.end - span.start) / 2;
      if (span.is_paired) span.end = middle;
      if (is_second_half) span.start = middle;
      is_second_half = span.is_paired;
      draw_cell(row, span, layout, style.colour);
    }
    picture += paint(row, style.colour) + '\n';
  }
  return picture + legend(played, layout, style.colour);
}

}  // namespace stagecraft
