#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "libexec/comm/job_session.hpp"
#include "libexec/executor/job.hpp"

/// What test programs whose ranks are processes are written with.
namespace stagecraft {

/// Numbers, as processes exchange them.
using Words = std::vector<std::int64_t>;

/// A run's outcome, and the parameters of all ranks.
struct Outcome {
  Execution execution;
  std::vector<Words> parameters;  ///< by rank
};

/// \throws std::runtime_error  saying what differs, unless `is_true`.
inline void require(bool is_true, std::string const& what) {
  if (!is_true) throw std::runtime_error{"not as expected: " + what};
}

/// Memory, ops and their order are the same; times may differ.
inline void require_same_books(Execution const& a, Execution const& b) {
  require(a.ranks.size() == b.ranks.size() && a.traces.size() == b.traces.size(), "ranks");
  for (std::size_t i = 0; i < a.ranks.size(); ++i) {
    std::string const rank = " of rank " + std::to_string(i);
    require(a.ranks[i].rank == b.ranks[i].rank && a.ranks[i].stage == b.ranks[i].stage,
            "number" + rank);
    require(a.ranks[i].at_peak == b.ranks[i].at_peak, "memory" + rank);
    require(a.ranks[i].activation_peak == b.ranks[i].activation_peak, "activations" + rank);
    OpColumns ops = a.traces[i].ops;
    ops.start = b.traces[i].ops.start;
    ops.duration = b.traces[i].ops.duration;
    require(ops.rows() > 0 && ops == b.traces[i].ops, "ops" + rank);
    require(a.traces[i].memory.bytes == b.traces[i].memory.bytes, "memory over time" + rank);
  }
}

/// The report of an error: its text, and exit code 1.
inline ErrorReport report_of(std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& problem) {
    return {1, std::string{problem.what()} + '\n'};
  }
}

}  // namespace stagecraft
