#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// A run as text, <part><microbatch>.<chunk>: "F3.0".
std::string text_of(ChunkRun const& run);

/// The tasks of a stage in order, with spaces between them; a pair is one word: "F0.0 F1.0+B0.0".
std::string order_text(std::vector<OrderTask> const& tasks);

/// The inverse of order_text().
/// \\throws ScheduleError  if a word is not a task or a pair; it names the first such word.
std::vector<OrderTask> read_order_text(std::string_view text);

}  // namespace stagecraft
