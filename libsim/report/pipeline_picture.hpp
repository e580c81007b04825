#pragma once

#include <cstdint>
#include <string>

#include "libsim/engine/schedule_timeline.hpp"

namespace stagecraft {

/// Whether text may carry ANSI escape sequences.
enum class Colour : std::uint8_t { none, ansi };

/// What the text is shown on.
struct TextStyle {
  int width = 100;  ///< columns; lines are kept within it, down to a least of 40
  Colour colour = Colour::none;
};

/// Draws a played schedule, a row a rank, time to the right, followed by a legend.
///
/// A cell is a computation: microbatch number, then for several chunks a letter, a for chunk 0
/// (from z again a), then shading. Without colour a forward has a small letter and light shade, a
/// backward a capital and dark shade; what does not fit a cell is left out, the number first. Time
/// is scaled so that numbers fit if the whole schedule then fits the width, else down to one column
/// for the shortest computation (or a quarter of the longest), else the picture ends early and a
/// line says when.
/// Pre: some computation takes time.
std::string draw_pipeline(ScheduleTimeline const& played, TextStyle const& style);

}  // namespace stagecraft
