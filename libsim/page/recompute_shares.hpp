#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "libsim/run/run_config.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// The share of recompute in each chunk's backward, by the cost model: a trace at chunk detail does
/// not separate them.
class RecomputeShares {
 public:
  /// If nothing is known, every share is 0.
  RecomputeShares() = default;
  /// The shares of the plan of this configuration.
  explicit RecomputeShares(RunConfig const& config);

  /// The share in millionths of the backward of a microbatch through a chunk of a stage; 0 if it is
  /// unknown.
  std::int64_t millionths(std::int32_t stage, std::int64_t microbatch, std::int64_t chunk) const;

 private:
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> shares_;
};

/// The shares for a trace of this configuration; none if the configuration gives another plan than
/// when the trace was made, or if the cost model cannot predict it.
RecomputeShares recompute_shares_of(TraceMeta const& meta, RunConfig const& config);

}  // namespace stagecraft
