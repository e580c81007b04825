#include "libsim/engine/simulation.hpp"

#include <algorithm>
#include <utility>

#include "libsim/engine/flops.hpp"
#include "libsim/engine/outside_memory.hpp"
#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/engine/player/player.hpp"
#include "libsim/engine/relative_error.hpp"
#include "libsim/engine/stage_allocators.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/modules/blocks.hpp"

namespace stagecraft {
namespace {

/// Sums each rank's time by cause, and notes when its memory peaks. May pass on what it is told.
/// Its vectors are by rank; `peak_at_` is the latest known end of an entry up to the peak's.
class ResultObserver {
 public:
  static constexpr bool hears = true;
  ResultObserver(CostedPlan const& costed,
                 std::vector<FullestMemory> const& memory,
                 TimeRecorder* recorder)
      : costed_{costed},
        memory_{memory},
        recorder_{recorder},
        shares_(memory.size()),
        host_waits_(memory.size()),
        peak_at_(memory.size()),
        data_parallel_idle_(memory.size()),
        delay_(memory.size()) {}

  void ran(StageId stage, RanEntry const& what, SimTime start, SimTime end) {
    if (recorder_ != nullptr) recorder_->ran(stage, what, start, end);
    std::size_t const r = stage.index();
    auto const index = static_cast<std::size_t>(what.task);
    Task const& task = costed_.plan().stages[stage].tasks[index];
    TaskProfile const& profile = costed_.tasks(r)[index];
    if (task.stream != Stream::compute) {
      if (task.stream == Stream::data_parallel) data_parallel_idle_[r] = end;
      return;
    }
    StageMemory const& memory = memory_[r].memory;
    if (what.entry < memory.peak_entry) {
      peak_at_[r] = end;
    } else if (what.entry == memory.peak_entry) {
      SimTime const offset = offset_of_op(costed_.plan().programs, task, costed_.blocks(),
                                          memory.peak_block, memory.peak_op);
      peak_at_[r] = TaskBesideReductions{.start = start,
                                         .duration = profile.duration,
                                         .on_links = profile.on_links,
                                         .busy_until = data_parallel_idle_[r],
                                         .slowdown_millionths =
                                             costed_.cost().data_parallel_slowdown_millionths()}
                        .reaches(profile.beside(offset));
    }
    data_parallel_idle_[r] += std::exchange(delay_[r], SimTime{0});
    shares_[r] += profile.shares;
    host_waits_[r] += profile.host_waits;
    // The delay of a chunk by a gradient reduction counts as backward.
    shares_[r].backward += (end - start) - profile.duration;
  }
  void shared_links(StageId stage, SimTime from, SimTime beside, SimTime delay) {
    if (recorder_ != nullptr) recorder_->shared_links(stage, from, beside, delay);
    delay_[stage.index()] = delay;
  }
  // Messages change memory when their post is issued and when their wait is over. A post takes no
  // time and a wait may not, so these changes happen when the entry before ends.
  void waited(StageId stage, std::int32_t entry, SimTime start, SimTime end) {
    if (recorder_ != nullptr) recorder_->waited(stage, entry, start, end);
    std::size_t const r = stage.index();
    if (entry <= memory_[r].memory.peak_entry) peak_at_[r] = end;
  }
  void transferred(StageId stage, std::int32_t transfer, SimTime start, SimTime end) {
    if (recorder_ != nullptr) recorder_->transferred(stage, transfer, start, end);
  }

  TimeShares const& shares(std::size_t rank) const { return shares_[rank]; }
  TimeShares const& host_waits(std::size_t rank) const { return host_waits_[rank]; }
  SimTime peak_at(std::size_t rank) const { return peak_at_[rank]; }

 private:
  CostedPlan const& costed_;
  std::vector<FullestMemory> const& memory_;
  TimeRecorder* recorder_;
  std::vector<TimeShares> shares_;
  std::vector<TimeShares> host_waits_;  ///< parts of the shares
  std::vector<SimTime> peak_at_;
  std::vector<SimTime> data_parallel_idle_;
  std::vector<SimTime> delay_;  ///< of the data-parallel stream by the task that is told next
};

std::int64_t layers_of_stage(TrainingPlan const& plan, StagePlan const& stage) {
  std::int64_t layers = 0;
  for (StageChunk const& chunk : stage.chunks) {
    layers += plan.programs.chunks[static_cast<std::size_t>(chunk.program)].layers;
  }
  return layers;
}

void add_rates(Simulation& result, TrainingPlan const& plan, System const& system) {
  double const seconds = to_seconds(result.iteration);
  double const peak = peak_flops_per_second(plan.config, system);
  result.model_flops = model_flops(plan.config);
  result.hardware_flops = hardware_flops(plan);
  result.mfu = result.model_flops / (seconds * peak);
  result.hfu = result.hardware_flops / (seconds * peak);
  if (auto const flops = paper_hardware_flops(plan)) result.hfu_paper = *flops / (seconds * peak);
  result.tokens_per_second =
      static_cast<double>(plan.config.batch.global * plan.config.model.sequence) / seconds;
}

}  // namespace

std::optional<LayerResult> summarize_layer(TrainingPlan const& plan,
                                           std::vector<BlockProfile> const& blocks) {
  std::optional<std::size_t> only;
  for (std::size_t i = 0; i < plan.programs.blocks.size(); ++i) {
    bool const is_early =
        !plan.programs.blocks[i].recompute.empty();  // another program of such a layer
    if (plan.programs.blocks[i].kind != BlockProgram::Kind::layers || is_early) continue;
    if (only) return std::nullopt;
    only = i;
  }
  if (!only || plan.programs.blocks[*only].layers != 1) return std::nullopt;
  BlockProgram const& block = plan.programs.blocks[*only];
  LayerResult layer;
  layer.forward = blocks[*only].forward.duration;
  layer.backward = blocks[*only].backward.backward;
  layer.recompute = blocks[*only].backward.recompute;
  layer.saved = saved_bytes(block);
  if (has_paper_bytes(plan.shape, block.policy)) {
    layer.paper = paper_bytes(plan.shape, block.policy);
  }
  return layer;
}

namespace {

Simulation simulate(CostedPlan const& costed, TimeRecorder* recorder) {
  TrainingPlan const& plan = costed.plan();
  System const& system = costed.system();
  CostModel const& cost = costed.cost();
  std::vector<FullestMemory> const memory = fullest_memory(plan, 1);
  ResultObserver observer{costed, memory, recorder};
  Timeline const timeline = play(costed.timeline(), observer);

  Simulation result;
  SimTime const overhead = cost.iteration_overhead();
  result.iteration = timeline.period + overhead;
  result.relative_error = relative_error(error_terms(costed, result.iteration));
  Bytes const room = room_for(plan.config.memory, system.accelerator);
  std::optional<std::vector<RankBusy>> const busy = busy_by_rank(plan, system);
  bool const host_holds = fullest_host(plan, system) <= system.node.host_memory.value;
  std::size_t busiest = 0;
  for (std::size_t r = 0; r < plan.stages.size(); ++r) {
    StageResult& stage = result.stages.emplace_back();
    stage.stage = plan.stages[StageId::of_index(r)].stage.value();
    stage.layers = layers_of_stage(plan, plan.stages[StageId::of_index(r)]);
    stage.in_flight_chunks = memory[r].memory.in_flight_chunks;
    // Passes hold what sharded units wait for.
    TimeShares within = observer.shares(r);
    within -= observer.host_waits(r);
    stage.busy = timeline.stages[r].busy - within.data_parallel - within.offload;
    stage.at_peak = memory[r].memory.at_peak;
    stage.at_peak[Category::workspace] += cost.workspace().count();
    stage.activation_peak = memory[r].memory.activation_peak;
    stage.ranks = memory[r].ranks;
    if (stage.ranks) stage.ranks->least += cost.workspace().count();
    if (busy) stage.rank_busy = (*busy)[r];
    stage.host = plan.stages[StageId::of_index(r)].host_bytes().count();
    stage.fits_host = stage.host == 0 || host_holds;
    stage.peak_at = observer.peak_at(r);
    stage.fits = Bytes{stage.peak()} <= room && stage.fits_host;
    stage.verdict = stage.fits ? Verdict::fits : Verdict::does_not_fit;
    if (stage.busy > result.stages[busiest].busy) busiest = r;
  }
  result.ideal = result.stages[busiest].busy;
  StageTimeline const& of_busiest = timeline.stages[busiest];
  result.breakdown.shares = observer.shares(busiest);
  result.breakdown.shares -= observer.host_waits(busiest);
  result.breakdown.shares.data_parallel += of_busiest.data_parallel;
  result.breakdown.shares.offload += of_busiest.offload;
  result.breakdown.shares.optimizer += overhead;
  result.breakdown.host_wait = observer.host_waits(busiest).sum();
  result.breakdown.transfer = of_busiest.transfer;
  result.breakdown.bubble = timeline.period - of_busiest.busy - of_busiest.transfer -
                            of_busiest.data_parallel - of_busiest.offload;
  result.layer = summarize_layer(plan, costed.blocks());
  add_rates(result, plan, system);
  return result;
}

}  // namespace

Simulation simulate(TrainingPlan const& plan, System const& system) {
  return simulate(CostedPlan{plan, system}, nullptr);
}

void add_reservations(Simulation& simulation,
                      TrainingPlan const& plan,
                      System const& system,
                      int jobs) {
  StageAllocators const allocators{plan, system};
  add_reservations(simulation, plan, system, jobs,
                   [&](StageId stage, int rank) { return allocators.reserve(stage, rank); });
}

void add_reservations(Simulation& simulation,
                      TrainingPlan const& plan,
                      System const& system,
                      int jobs,
                      ReserveStage const& reserve) {
  parallel_for(jobs, plan.stages.size(), [&](std::size_t i) {
    StageResult& stage = simulation.stages[i];
    auto const id = StageId::of_index(i);
    ReservedStage const reserved = reserve(id, stage.rank());
    stage.reservation = reserved.reservation;
    stage.device = reserved.device;
    stage.margin = reserved.margin;
    if (!plan.config.memory.reserve) {
      stage.outside = outside_memory(plan, system, plan.stages[id]);
    }
    // The framework's own allocations would only add to those of the tensors.
    bool const is_by_allocator = decides_by_allocator(system.software) && stage.fits_host;
    Verdict const counted = is_by_allocator ? Verdict::fits : stage.verdict;
    stage.verdict = std::max(counted, reserved.verdict);
    stage.fits = stage.verdict != Verdict::does_not_fit;
  });
}

PlayedIteration::PlayedIteration(TrainingPlan const& plan, System const& system)
    : costed{plan, system} {
  TimeRecorder recorder{costed};
  simulation = simulate(costed, &recorder);
  times = std::move(recorder).finish(simulation.iteration - costed.cost().iteration_overhead());
}

}  // namespace stagecraft
