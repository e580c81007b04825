#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "libsim/run/run_config.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// How much of each chunk's backward is recompute, by the cost model: at chunk detail a trace does
/// not tell them apart.
class RecomputeShares {
 public:
  /// Nothing is known: every share is 0.
  RecomputeShares() = default;
  /// Of the plan that the configuration gives.
  explicit RecomputeShares(RunConfig const& config);

  /// In millionths of the backward of a microbatch through a chunk of a stage; 0 where it is not
  /// known.
  std::int64_t millionths(std::int32_t stage, std::int64_t microbatch, std::int64_t chunk) const;

 private:
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> shares_;
};

/// Shares for a trace of this configuration; none where the configuration gives another plan now
/// than when the trace was made, or cannot be priced.
RecomputeShares recompute_shares_of(TraceMeta const& meta, RunConfig const& config);

}  // namespace stagecraft
