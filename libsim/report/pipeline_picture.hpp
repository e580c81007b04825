#pragma once

#include <cstdint>
#include <string>

#include "libsim/schedule/orders/played_order.hpp"

namespace stagecraft {

/// Whether text may carry ANSI escape sequences.
enum class Colour : std::uint8_t { none, ansi };

/// The properties of the terminal.
struct TextStyle {
  int width = 100;  ///< columns; lines are at most this long, but may take 40
  Colour colour = Colour::none;
};

/// Draws the timeline of a schedule, one row per stage, time to the right, followed by a legend.
///
/// A cell is a computation: the microbatch number, then if there are several chunks a letter, a for
/// chunk 0 (after z again a), then shading. Without colour a forward or recompute has a small
/// letter, a backward or a part of it a capital, and each part its own shade; what does not fit
/// into a cell is left out, the number first. Two overlapped computations share their time in
/// halves. Time is scaled so that numbers fit if the whole schedule then fits the width, else down
/// to one column for the shortest computation (or a quarter of the longest); if that is still too
/// wide, the picture ends early and a line says when.
/// Pre: at least one computation takes time.
std::string draw_pipeline(PlayedOrder const& played, TextStyle const& style);

}  // namespace stagecraft
