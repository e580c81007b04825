#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "apps/python/bindings/run.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/engine/simulation.hpp"

namespace stagecraft::python {

/// The simulated iteration of a run. It begins with what a search asks for; the rest is computed
/// when it is first read, because the replay of the allocator alone takes longer than the
/// simulation. Threads may share it.
class SimulatedRun {
 public:
  /// \throws ScheduleError, std::invalid_argument  if the run cannot be simulated.
  explicit SimulatedRun(std::shared_ptr<Run const> run);

  Run const& run() const { return *run_; }
  double iteration_seconds() const { return to_seconds(prediction_.iteration); }
  /// Bytes that the fullest stage holds at its peak.
  std::int64_t peak_bytes() const;

  /// The document of `simulate --json` as text; `reserved_bytes` and what depends on it are null,
  /// and `config` is left out.
  std::string const& played_document() const;
  /// The whole document. Uses up to `jobs` threads.
  std::string document(int jobs) const;
  /// The stages that do not fit, in words; empty if all fit. Uses up to `jobs` threads.
  std::string excess(int jobs) const;

 private:
  /// The whole simulation with what allocators reserve, and its plan.
  std::pair<TrainingPlan, Simulation> whole(int jobs) const;

  std::shared_ptr<Run const> run_;
  Prediction prediction_;
  mutable std::mutex mutex_;
  mutable std::optional<std::string> played_;
};

}  // namespace stagecraft::python
