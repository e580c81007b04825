#include "apps/program/trace_options.hpp"

#include <algorithm>
#include <limits>

#include "apps/program/command_line.hpp"

namespace stagecraft {

namespace {

/// "0 to 7" if there is no gap, otherwise the first few ranks.
std::string ranks_text(std::vector<std::int32_t> const& ranks) {
  if (ranks.empty()) return "none: " + std::string{"the trace has no ranks"};
  bool const is_gapless =
      ranks.back() - ranks.front() + 1 == static_cast<std::int64_t>(ranks.size());
  if (is_gapless) return std::to_string(ranks.front()) + " to " + std::to_string(ranks.back());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(ranks.size(), 8); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text + (ranks.size() > 8 ? ", ..." : "");
}

}  // namespace

std::vector<std::int32_t> read_trace_ranks(std::string const& list, TraceReader const& trace) {
  std::vector<std::int32_t> const& known = trace.ranks();
  std::vector<std::int32_t> ranks;
  for (std::string const& word : list_items(list)) {
    int const rank = whole_number("--ranks", word, 0, std::numeric_limits<std::int32_t>::max());
    if (!std::binary_search(known.begin(), known.end(), rank)) {
      throw CommandLineError{"--ranks", "'" + word + "'",
                             "ranks of " + trace.name() + ", " + ranks_text(known)};
    }
    ranks.push_back(rank);
  }
  if (ranks.empty()) throw CommandLineError{"--ranks", "''", "numbers and commas"};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

TraceDetail read_detail(CommandLine const& line) {
  return line.value("detail") == "op" ? TraceDetail::op : TraceDetail::chunk;
}

}  // namespace stagecraft
