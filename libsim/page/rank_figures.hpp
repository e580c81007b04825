#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "libsim/program/category_bytes.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// What the cost model says of a plan's times that the rows of its traces do not: the share of
/// recompute in each chunk's backward, which a trace at chunk detail does not separate, and how
/// long a stage waits for its host within its tasks, which has no row in a trace of ops.
class CostedShares {
 public:
  /// If nothing is known, everything is 0.
  CostedShares() = default;
  /// Those of the plan of this configuration.
  explicit CostedShares(RunConfig const& config);

  /// The share in millionths of the backward of a microbatch through a chunk of a stage; 0 if it is
  /// unknown.
  std::int64_t millionths(std::int32_t stage, std::int64_t microbatch, std::int64_t chunk) const;

  /// In ps per iteration; 0 if it is unknown.
  std::int64_t host_wait(std::int32_t stage) const;

 private:
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::int64_t> shares_;
  std::map<std::int32_t, std::int64_t> host_waits_;  ///< by stage
};

/// Those for a trace of this configuration; none if the configuration gives another plan than
/// when the trace was made, or if the cost model cannot predict it.
CostedShares costed_shares_of(TraceMeta const& meta, RunConfig const& config);

/// The figures of one rank that a summary shows. Times are in ps.
struct RankFigures {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  std::int64_t end = 0;        ///< when its last op ends
  std::int64_t busy = 0;       ///< it computes; this and the next but one as in StreamTimes
  std::int64_t recompute = 0;  ///< part of `busy`
  /// Part of `busy` in which it waits for the host to issue ops; 0 if that is not known.
  std::int64_t host_wait = 0;
  std::int64_t transfer = 0;
  std::int64_t data_parallel = 0;
  std::int64_t offload = 0;
  /// At the first instant at which the sum without workspace is largest, with the largest
  /// workspace.
  CategoryBytes at_peak;
  std::int64_t peak_time = 0;
  bool has_whole_chunks = false;  ///< recorded at chunk detail
};

/// A predicted rank that waits for its host within a task is busy, at each detail of its trace.
/// `clock`: the trace's.
RankFigures figures_of(RankTrace const& rank,
                       KnownNames const& names,
                       CostedShares const& shares,
                       TraceClock clock);

}  // namespace stagecraft
