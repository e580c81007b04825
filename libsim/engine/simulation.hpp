#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "libsim/engine/outside_memory.hpp"
#include "libsim/engine/player/recorded_times.hpp"
#include "libsim/engine/player/task_profile.hpp"
#include "libsim/engine/rank_busy.hpp"
#include "libsim/engine/stage_allocators.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/memory/rank_memory.hpp"
#include "libsim/memory/stage_reservation.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/program/category_bytes.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The memory that one stage holds and the time that it computes. Bytes are per rank: of the rank
/// that holds most, if ranks differ.
struct StageResult {
  std::int32_t stage = 0;
  std::int64_t layers = 0;
  std::int32_t in_flight_chunks = 0;
  SimTime busy{0};  ///< time of its compute stream, without any waiting; with host wait
  /// Whether the stage fits, by its verdict.
  bool fits = true;
  Verdict verdict = Verdict::fits;
  CategoryBytes at_peak;
  SimTime peak_at{0};
  std::int64_t activation_peak = 0;
  std::int64_t host = 0;  ///< bytes of a rank in the memory of its node
  /// Whether all ranks of each node have room for that; part of the verdict.
  bool fits_host = true;
  std::optional<RankSpread> ranks;              ///< only if ranks differ; `least` with workspace
  std::optional<RankBusy> rank_busy;            ///< only if ranks compute different numbers of rows
  std::optional<StageReservation> reservation;  ///< see add_reservations()
  /// Bytes of the accelerator that are in use: reserved, or held outside of the allocator. Set with
  /// `reservation`.
  std::int64_t device = 0;
  /// The accelerator's memory less `device`, in bytes; negative if the stage does not fit. Set with
  /// `reservation`.
  std::int64_t margin = 0;
  std::optional<OutsideMemory> outside;  ///< with `reservation`, if the system says

  std::int64_t peak() const { return at_peak.sum(); }
  /// The number in its stage of the rank that these results are for.
  int rank() const { return ranks ? ranks->fullest : 0; }
};

/// One middle layer and one microbatch; nullopt if layers differ in policy or on the host.
struct LayerResult {
  SimTime forward{0};
  SimTime backward{0};  ///< time without recompute
  SimTime recompute{0};
  Bytes saved;
  std::optional<Bytes> paper;  ///< if table 2 has the case
};

/// The time of the stage that is busy longest, by cause; all of it sums to the iteration.
struct Breakdown {
  TimeShares shares;  ///< without what waits for the host
  SimTime transfer{0};
  SimTime bubble{0};
  SimTime host_wait{0};  ///< waiting until the host has issued kernels

  /// Waiting, as every output counts it: bubble, and communication that no computation hides.
  SimTime waiting() const { return bubble + transfer + shares.data_parallel + shares.offload; }
};

/// The outcome of an iteration. FLOPs are for the whole job.
struct Simulation {
  SimTime iteration{0};
  SimTime ideal{0};           ///< busy time of the busiest stage
  double relative_error = 0;  ///< of the iteration, before calibration (ErrorTerms)
  double model_flops = 0;
  double hardware_flops = 0;
  double mfu = 0;
  double hfu = 0;
  std::optional<double> hfu_paper;  ///< by paper_hardware_flops
  double tokens_per_second = 0;
  std::optional<LayerResult> layer;
  std::vector<StageResult> stages;
  Breakdown breakdown;

  /// Waiting, and the fixed overhead of an iteration, over the ideal time.
  double bubble_fraction() const {
    return ideal.count() == 0 ? 0.0
                              : static_cast<double>((iteration - ideal).count()) /
                                    static_cast<double>(ideal.count());
  }
};

/// Plays one iteration of the plan on the system.
/// \throws CostError  if the system has no cost for some op of the plan.
Simulation simulate(TrainingPlan const& plan, System const& system);

/// Adds to each stage the memory that its allocator reserves on the system's accelerator beside
/// everything else there (StageAllocators), on up to `jobs` threads. If decides_by_allocator(),
/// that gives the verdict. Otherwise counted bytes must fit beside the reserve, and the replay of
/// the tensors alone must not run out; the framework's own allocations would only add to it.
void add_reservations(Simulation& simulation,
                      TrainingPlan const& plan,
                      System const& system,
                      int jobs);

/// What a stage of a plan reserves for its fullest rank, given by its number there.
using ReserveStage = std::function<ReservedStage(StageId stage, int rank)>;
/// The same with what `reserve` knows of the plan's stages. Threads share it.
void add_reservations(Simulation& simulation,
                      TrainingPlan const& plan,
                      System const& system,
                      int jobs,
                      ReserveStage const& reserve);

/// An iteration that is played once for all who read it: its result and all its times. The plan and
/// the system must outlive it.
struct PlayedIteration {
  /// \throws CostError  if the system cannot cost the plan.
  PlayedIteration(TrainingPlan const& plan, System const& system);
  PlayedIteration(TrainingPlan const&&, System const&) = delete;
  PlayedIteration(TrainingPlan const&, System const&&) = delete;

  CostedPlan costed;
  Simulation simulation;
  RecordedTimes times;
};

/// One layer of the plan's most common block; nullopt if layers differ in policy or on the host.
std::optional<LayerResult> summarize_layer(TrainingPlan const& plan,
                                           std::vector<BlockProfile> const& blocks);

}  // namespace stagecraft
