#pragma once

#include <string>

#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/schedule/orders/played_order.hpp"

namespace stagecraft {

/// The timeline of a schedule as text: the title, a line with makespan and bubble, a table of the
/// stages (chunks in flight, and what the time is spent on, in the unit of the costs), and the
/// order of each stage, cut to `width` columns. If weight gradients run on their own, also the
/// longest span of a stage, and chunks in flight until the input gradient.
std::string schedule_tables(std::string const& title,
                            PipelineOrder const& order,
                            PlayedOrder const& played,
                            int width);

}  // namespace stagecraft
