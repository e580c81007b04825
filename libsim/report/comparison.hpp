#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libsim/program/category_bytes.hpp"
#include "libsim/report/key_changes.hpp"
#include "libsim/report/paper/row_comparison.hpp"
#include "libsim/report/trace_summary.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// A value of each of the two traces: A, B.
template <typename Value>
using Pair = std::array<Value, 2>;

/// The memory of one rank at its peak, by category (of workspace: the largest).
struct RankComparison {
  std::int32_t rank = 0;  ///< its number in the trace that has more ranks
  std::int32_t stage = 0;
  Pair<CategoryBytes> at_peak;
};

/// The time of all ops of one name and phase: the sum over the stages that both traces have, where
/// a stage counts as one rank (the mean of its ranks).
struct OpComparison {
  std::string op;
  std::string phase;
  std::string stream;
  Pair<double> seconds{};
};

/// A part of the difference in iteration time, on one stage: the compute time of a phase, exposed
/// communication, or the rest, `bubble`. All parts sum to the difference of the iterations.
struct Contribution {
  std::string phase;
  Pair<double> seconds{};

  double difference() const { return seconds[1] - seconds[0]; }
};

/// Two traces side by side.
struct Comparison {
  Pair<std::string> files;
  Pair<TraceMeta> meta;
  /// The keys in which their configurations differ; nullopt if one cannot be read.
  std::optional<std::vector<KeyChange>> changes;
  Pair<double> iteration_seconds{};
  Pair<std::vector<std::int32_t>> stages_alone;  ///< stages that the other trace does not have
  std::vector<RankComparison> ranks;             ///< of the stages that both have
  /// The same ranks row by row; empty if the traces are of two plans or of two details, whose rows
  /// are not the same ones.
  std::vector<RowComparison> rows;
  std::vector<OpComparison> ops;   ///< by the sum of both times, largest first
  std::int32_t stage = 0;          ///< the one with most compute time in A (ties: the lowest)
  Pair<double> waiting_seconds{};  ///< of that stage: bubble and exposed communication
  std::vector<Contribution> contributions;  ///< on that stage, largest difference first
  bool same_detail = true;                  ///< false if one has whole chunks and the other has ops

  bool same_plan() const { return meta[0].plan == meta[1].plan; }
  /// Whether the rows of all ranks are the same work with the same memory; true if none was
  /// compared.
  bool is_same_work() const;
  /// Whether the traces agree: same work, same memory at the peaks but for workspace, and
  /// iterations and times of each op that differ by at most `percent` of A's iteration.
  bool agrees_within(double percent) const;
  /// By how much B's iteration is longer than A's; nullopt if A's takes no time.
  std::optional<double> iteration_percent() const;
};

enum class PlanCheck : std::uint8_t {
  same_plan,  ///< refuse traces of two plans
  any_plan,
};

/// Compares two traces rank by rank, so that only two ranks at a time are in memory.
///
/// Ranks are matched by stage: a simulated rank represents all ranks of its stage.
/// \throws TraceFileError  if a trace cannot be read, if their plans differ and must not, or if
///         they have no stage in common.
Comparison compare(TraceReader const& a, TraceReader const& b, PlanCheck check);

}  // namespace stagecraft
