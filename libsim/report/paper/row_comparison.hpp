#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// A place at which two ranks differ: the row of each, and what differs there.
struct RowDifference {
  std::size_t row = 0;  ///< from 0, in issue order; of memory the number of the state
  std::string what;     ///< such as "microbatch 3 and 4", in the words of a trace's columns
};

/// Two ranks of one plan, row by row.
struct RowComparison {
  std::array<std::int32_t, 2> ranks{};
  std::int32_t stage = 0;
  /// The first row that is another one: op, phase, stream, layer, microbatch or chunk, or a row
  /// that only one has.
  std::optional<RowDifference> order;
  /// The first row with other bytes or FLOPs. Only rows before `order` are compared.
  std::optional<RowDifference> size;
  /// The first state of memory that differs in any category but workspace, or in reserved bytes if
  /// both ranks have them. States are compared in issue order without their times: those depend on
  /// the clock.
  std::optional<RowDifference> memory;
  std::int64_t start_apart = 0;     ///< ps, the largest difference of a row's start
  std::int64_t duration_apart = 0;  ///< ps

  /// Whether the ranks did the same work in the same order and held the same memory.
  bool is_same_work() const { return !order && !size && !memory; }
};

/// Compares two ranks. `names` are those of their traces, which may number them differently.
RowComparison compare_rows(RankTrace const& a,
                           TraceNames const& names_of_a,
                           RankTrace const& b,
                           TraceNames const& names_of_b);

}  // namespace stagecraft
