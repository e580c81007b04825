#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libsim/run/run_config.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// Whether its ops ran: on a real clock or with priced communication. Else they were only priced.
bool is_executed(TraceMeta const& meta);

/// "predicted for selene-a100", "executed on AMD EPYC, 2 threads", and of what else its times are.
/// `config`: the trace's, where it loads.
std::string origin_of(TraceMeta const& meta, std::optional<RunConfig> const& config);

/// Memory of what a rank was predicted for or ran on, bytes. Of a trace that was executed elsewhere
/// than on the accelerator of its configuration nothing is known.
std::optional<std::int64_t> capacity_of(TraceMeta const& meta,
                                        std::optional<RunConfig> const& config);

/// What was run, on how many of what, cut up how; empty where the configuration does not load.
std::string setting_of(TraceMeta const& meta, std::optional<RunConfig> const& config);

}  // namespace stagecraft
