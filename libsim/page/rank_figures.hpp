#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "libsim/program/category_bytes.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_sums.hpp"

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

/// The figures of one rank that a summary shows. Times are in ps.
struct RankFigures {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  StreamTimes times;
  std::int64_t recompute = 0;  ///< part of its computing
  /// At the first instant at which the sum without workspace is largest, with the largest
  /// workspace.
  CategoryBytes at_peak;
  std::int64_t peak_time = 0;
  bool has_whole_chunks = false;  ///< recorded at chunk detail
};

RankFigures figures_of(RankTrace const& rank,
                       KnownNames const& names,
                       RecomputeShares const& shares);

}  // namespace stagecraft
