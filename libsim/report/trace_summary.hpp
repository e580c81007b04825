#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "libsim/model/category_bytes.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// What ops are summed by.
struct OpKey {
  std::string op;
  std::string phase;
  std::string stream;

  friend auto operator<=>(OpKey const&, OpKey const&) = default;
};

/// One rank of a trace, summed up. Times in ps; sums stop at the largest number.
struct RankSummary {
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  std::int64_t end = 0;  ///< of its last op
  /// At the first instant where the sum without workspace is largest; workspace: the largest.
  CategoryBytes at_peak;
  std::map<OpKey, std::int64_t> ops;
  bool has_whole_chunks = false;  ///< recorded at chunk detail

  /// Time of the compute stream that is not waiting for another rank.
  std::int64_t compute_time() const;
};

RankSummary summarize(RankTrace const& rank, TraceNames const& names);

/// All ranks, read one after another.
std::vector<RankSummary> summarize(TraceReader const& trace);

}  // namespace stagecraft
