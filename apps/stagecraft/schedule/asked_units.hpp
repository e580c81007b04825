#pragma once

#include <string>

#include "apps/program/command_line.hpp"
#include "libsim/training/sharding.hpp"

namespace stagecraft {

/// The value of --sharding.
/// \throws CommandLineError  for a kind whose units gather nothing
/// \throws ConfigError
Sharding read_units_sharding(CommandLine const& line);

/// The collectives and passes of one rank of a sharded run, in the order in which its host issues
/// them: "MB0 AG128:bfloat16 F0 ... BWD ... B0 RS128:float32".
///
/// MB<k> begins a microbatch and BWD its backward; AG<e>:<type> gathers a unit of e elements, F<i>
/// and B<i> compute block i, RS<e> reduces gradients, and AR<e> sums them over the copies of
/// shards. Types have PyTorch's names.
/// \throws CommandLineError, ConfigError
std::string unit_events(CommandLine const& line);

}  // namespace stagecraft
