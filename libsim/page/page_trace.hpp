#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libsim/page/rank_figures.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// A capacity this many times above all that is held leaves nothing to see beside it: pages then
/// show what is held at a scale of its own.
inline constexpr std::int64_t far_above = 4;

/// One trace as a page shows it.
struct PageTrace {
  std::string file;  ///< without its folder
  TraceMeta meta;
  std::optional<RunConfig> config;       ///< nothing where it does not load
  std::optional<std::int64_t> capacity;  ///< bytes a rank has, where that is known
  std::int64_t iteration = 0;            ///< ps, over all ranks
  std::vector<RankFigures> figures;      ///< of all ranks
  std::vector<std::int32_t> shown;       ///< ranks whose rows the page has, ascending
  bool is_reduced = false;               ///< rows of ops were put together by chunk
  bool has_whole_chunks = false;         ///< recorded at chunk detail
  std::string data;                      ///< what the page draws, JSON
};

/// Reads a trace for a page. `ranks`: those to show; empty: of each stage the fullest (ties: the
/// lowest). With more than `most_rows` ops in them, chunks are shown in place of their ops.
/// \throws TraceFileError
PageTrace read_page_trace(TraceReader const& trace,
                          std::vector<std::int32_t> const& ranks,
                          std::size_t most_rows = 1'500'000);

/// The figures of the rank that is fullest of all (ties: the lowest). Pre: there is a rank.
RankFigures const& fullest(PageTrace const& trace);

/// The figures of the rank whose compute stream is busy longest (ties: the lowest). Pre: there is
/// a rank.
RankFigures const& busiest(PageTrace const& trace);

}  // namespace stagecraft
