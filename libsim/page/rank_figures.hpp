#pragma once

#include <cstdint>

#include "libsim/page/recompute_shares.hpp"
#include "libsim/program/category_bytes.hpp"
#include "libsim/trace/known_names.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// The figures of one rank that a summary shows. Times are in ps.
struct RankFigures {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  std::int64_t end = 0;        ///< of its last op
  std::int64_t busy = 0;       ///< it computes; this and the next but one as in StreamTimes
  std::int64_t recompute = 0;  ///< part of `busy`
  std::int64_t transfer = 0;
  std::int64_t data_parallel = 0;
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
