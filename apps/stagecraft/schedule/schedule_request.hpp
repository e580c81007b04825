#pragma once

#include "apps/program/command_line.hpp"
#include "libsim/schedule/generators/order_request.hpp"
#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/schedule/pipeline_schedule.hpp"

namespace stagecraft {

/// What a command line asks a generator for, costs aside.
/// \throws CommandLineError
OrderRequest read_request(CommandLine const& line);

/// \throws CommandLineError
ChunkCosts read_costs(CommandLine const& line);

/// The order of a file, held against the shape that the command line may name.
/// \throws CommandLineError, ScheduleError
PipelineOrder read_order(CommandLine const& line);

/// Refuses, by the options' names, what Megatron's interleaved schedule does not take.
/// \throws CommandLineError
void check_interleaved(ScheduleShape const& shape);

/// Refuses options of searches.
/// \throws CommandLineError
void check_searched(CommandLine const& line);

/// Refuses options that an order, whose messages are buffered, does not take.
/// \throws CommandLineError
void check_ordered(CommandLine const& line, PipelineOrder const& order);

}  // namespace stagecraft
