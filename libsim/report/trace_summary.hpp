#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "libsim/program/category_bytes.hpp"
#include "libsim/trace/trace_reader.hpp"
#include "libsim/trace/trace_sums.hpp"

namespace stagecraft {

/// The key by which ops are summed.
struct OpKey {
  std::string op;
  std::string phase;
  std::string stream;

  friend auto operator<=>(OpKey const&, OpKey const&) = default;
};

/// The sums of one rank of a trace. Times are in ps; sums saturate.
struct RankSummary {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  StreamTimes times;
  /// At the first instant at which the sum without workspace is largest; of workspace the largest.
  CategoryBytes at_peak;
  std::map<OpKey, std::int64_t> ops;
  bool has_whole_chunks = false;  ///< recorded at chunk detail
};

RankSummary summarize(RankTrace const& rank, TraceNames const& names);

/// Summarizes all ranks, which it reads one after another.
std::vector<RankSummary> summarize(TraceReader const& trace);

}  // namespace stagecraft
