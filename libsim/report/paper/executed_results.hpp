#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/report/paper/paper_tables.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// One executed iteration, as its trace describes it.
struct ExecutedRun {
  std::string file;
  std::string device;
  TraceClock clock = TraceClock::wall;
  double iteration_seconds = 0;
  /// By stage: the most bytes that one of its ranks held, without workspace.
  std::map<std::int32_t, std::int64_t> peak_bytes{};
  std::map<std::int32_t, std::string> alone{};  ///< by stage: the trace of a rank that ran alone

  /// Whether all ranks ran, so that the time is that of an iteration.
  bool is_whole() const { return clock != TraceClock::solo; }
};

/// One case of table 4, as `stagecraft-exec measure layer` measured it.
struct ExecutedLayer {
  std::string file;
  std::string device;
  LayerSeconds seconds;
};

/// Plans by fingerprint.
struct ExecutedPlans {
  std::set<std::string> runs;
  std::set<std::string> layers;
};

/// All executed results in a folder: traces (*.h5) and what `measure layer --json` printed
/// (*.json). The names of files do not matter: each is found by the fingerprint of its plan.
class ExecutedResults {
 public:
  /// Reads the folder. Of several results of one plan the newest file counts, but a rank alone does
  /// not replace a whole run; its stage is added to those of other ranks that were alone on the
  /// same kind of device. Traces of simulations, HDF5 files that are not traces, other JSON
  /// documents and damaged files are skipped.
  /// \throws InputError  if the folder cannot be read.
  explicit ExecutedResults(std::filesystem::path const& folder);

  /// The run of the plan with this fingerprint, or null.
  ExecutedRun const* run_of(std::string const& plan) const { return find(runs_, plan); }
  ExecutedLayer const* layer_of(std::string const& plan) const { return find(layers_, plan); }

  /// The global batches of the ranks that ran alone.
  std::set<std::int64_t> const& batches_alone() const { return batches_alone_; }

  /// The files without a result of one of `plans`, in the order of names.
  std::vector<std::string> files_without(ExecutedPlans const& plans) const;
  /// The *.h5 files that were skipped, in the order of names.
  std::vector<std::string> const& simulated_files() const { return simulated_; }
  std::vector<std::string> const& foreign_files() const { return foreign_; }
  /// Why files could not be read, each with its name, in the order of names.
  std::vector<std::string> const& damaged_files() const { return damaged_; }

 private:
  template <typename Result>
  static Result const* find(std::map<std::string, Result> const& results, std::string const& plan) {
    auto const place = results.find(plan);
    return place == results.end() ? nullptr : &place->second;
  }
  void add_trace(std::filesystem::path const& path);
  void add_layers(std::filesystem::path const& path);

  std::map<std::string, ExecutedRun> runs_;  ///< by plan
  std::map<std::string, ExecutedLayer> layers_;
  std::map<std::string, ExecutedPlans> plans_;  ///< by file: the plans of its results
  std::set<std::int64_t> batches_alone_;
  std::vector<std::string> simulated_;
  std::vector<std::string> foreign_;
  std::vector<std::string> damaged_;
};

/// Stages of a run whose ranks were executed alone, perhaps with fewer microbatches than the run
/// has.
struct StagesAlone {
  TrainingPlan plan;           ///< the plan that was executed
  ExecutedRun const* results;  ///< its results; never null

  /// "stages 0, 4, 7".
  std::string names() const;
  /// Their files, "a.h5, b.h5".
  std::string files() const;
};

/// The executed stages of a plan: with its own global batch if there are results of it, else with
/// the one that has most stages, and of those the largest. Returns nullopt if no stage was
/// executed.
std::optional<StagesAlone> find_stages_alone(TrainingConfig const& config,
                                             ExecutedResults const& results);

/// The seconds of an iteration of `plan`, composed of the times that its stages took alone;
/// messages between them take the time that the cost model gives.
/// \throws std::invalid_argument  if a stage or one of its tasks was not executed, or a trace does
///         not have whole chunks.
/// \throws TraceFileError
double composed_seconds(TrainingPlan const& plan, System const& system, StagesAlone const& stages);

}  // namespace stagecraft
