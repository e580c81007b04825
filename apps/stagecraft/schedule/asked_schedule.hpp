#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/program/command_line.hpp"
#include "libsim/schedule/generators/order_search.hpp"
#include "libsim/schedule/lowered_order.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/schedule/orders/played_order.hpp"

namespace stagecraft {

/// A schedule that a command line asks for, laid out and played.
struct AskedSchedule {
  std::string title;  ///< kind and shape, for people
  PipelineOrder order;
  PlayedOrder played;
  std::optional<FoundOrder> found{};  ///< --schedule searched: the order, and what the search says
  std::optional<LoweredOrder> lowered{};  ///< --sharding: with what ranks communicate
};

/// \throws CommandLineError, ScheduleError
AskedSchedule play_asked_schedule(CommandLine const& line);

/// The schedule as `schedule --json` prints it.
nlohmann::ordered_json to_json(AskedSchedule const& asked);

}  // namespace stagecraft
