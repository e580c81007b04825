#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libsim/run/run_config.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// Whether its ops were executed, perhaps with modelled communication, rather than simulated.
bool is_executed(TraceMeta const& meta);

/// "predicted for selene-a100" or "executed on AMD EPYC, 2 threads", and what its times include.
/// `config` is the trace's, if it loads.
std::string origin_of(TraceMeta const& meta, std::optional<RunConfig> const& config);

/// The bytes of memory of the device for which a rank was predicted or on which it ran; nullopt if
/// the trace was not executed on the accelerator of its configuration.
std::optional<std::int64_t> capacity_of(TraceMeta const& meta,
                                        std::optional<RunConfig> const& config);

/// The model, the accelerators and the parallel layout; empty if the configuration does not load.
std::string setting_of(TraceMeta const& meta, std::optional<RunConfig> const& config);

}  // namespace stagecraft
