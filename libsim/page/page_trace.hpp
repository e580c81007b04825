#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/page/rank_figures.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// If the capacity is this many times larger than what is held, nothing could be seen on its scale:
/// pages then show what is held on a scale of its own.
inline constexpr std::int64_t far_above = 4;

/// One trace, prepared for a page.
struct PageTrace {
  std::string file;  ///< its name without its folder
  TraceMeta meta;
  std::optional<RunConfig> config;       ///< empty if it does not load
  std::optional<std::int64_t> capacity;  ///< bytes per rank, if known
  /// With what each stage reserves and has on its device, as simulate() predicts it; empty if the
  /// capacity is not known, or the configuration does not make the plan of the trace.
  std::optional<Simulation> predicted;
  std::int64_t iteration = 0;        ///< ps, over all ranks
  std::vector<RankFigures> figures;  ///< figures of all ranks
  std::vector<std::int32_t> shown;   ///< ranks whose rows the page has, ascending
  bool is_reduced = false;           ///< rows of ops were merged into chunks
  bool has_whole_chunks = false;     ///< recorded at chunk detail
  std::string data;                  ///< JSON of what the page draws
};

/// Reads a trace for a page. `ranks` are those to show; if empty, the fullest of each stage (ties:
/// the lowest). If they have more than `most_rows` ops, chunks are shown instead of ops.
/// \throws TraceFileError
PageTrace read_page_trace(TraceReader const& trace,
                          std::vector<std::int32_t> const& ranks,
                          std::size_t most_rows = 1'500'000);

/// The bytes of memory.reserve that the run must leave free; 0 if it has no part in the verdict.
std::int64_t reserve_of(PageTrace const& trace);

/// The figures of the rank that is fullest of all (ties: the lowest). Pre: there is a rank.
RankFigures const& fullest(PageTrace const& trace);

/// The figures of the rank whose compute stream is busy longest (ties: the lowest). Pre: there is
/// a rank.
RankFigures const& busiest(PageTrace const& trace);

}  // namespace stagecraft
