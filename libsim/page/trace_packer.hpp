#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "libsim/page/rank_figures.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// Packs the rows of ranks into columns, which a page unpacks (web/decode.js is the inverse).
///
/// A row of an op is stored as its kind (op, phase, stream, layer, chunk, bytes, FLOPs, recompute
/// share) and its differences from the previous row of that kind: a simulated iteration repeats
/// itself, so that nearly all numbers are among a few.
class TracePacker {
 public:
  /// `unit` is the number of ps that count as one in the columns.
  TracePacker(KnownNames const& names, RecomputeShares const& shares, std::int64_t unit)
      : names_{names}, shares_{shares}, unit_{unit} {}

  void add(RankTrace const& rank);
  std::size_t rows() const { return gap_.size(); }

  /// {"kinds": {"count", "op", ...}, "ops": {"kind", "gap", ...}, "memory": {...}}, with columns in
  /// base64.
  nlohmann::ordered_json json() const;

 private:
  using Kind = std::array<std::int64_t, 8>;
  using Change = std::array<std::int64_t, category_count>;
  struct Last {
    std::int64_t microbatch = -1;
    std::int64_t length = 0;
  };

  std::size_t place_of(Kind const& kind);
  void add_ops(RankTrace const& rank);
  void add_memory(MemoryColumns const& memory);

  KnownNames const& names_;
  RecomputeShares const& shares_;
  std::int64_t unit_;

  std::map<Kind, std::size_t> kind_places_;
  std::vector<Kind> kinds_;
  std::vector<Last> last_;  ///< the last row of each kind, of the current rank
  std::map<Change, std::size_t> change_places_;
  std::vector<Change> changes_;

  TraceColumn kind_;        ///< into kinds_
  TraceColumn gap_;         ///< start - end of the previous row
  TraceColumn microbatch_;  ///< - that of the last row of the kind
  TraceColumn length_;      ///< - that of the last row of the kind
  TraceColumn time_;        ///< - that of the previous state
  TraceColumn change_;      ///< into changes_
};

}  // namespace stagecraft
