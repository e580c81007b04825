#include "libsim/engine/simulation.hpp"

#include <algorithm>

#include "libsim/engine/flops.hpp"
#include "libsim/engine/rank_memory.hpp"
#include "libsim/engine/timeline_walk.hpp"
#include "libsim/model/blocks.hpp"

namespace stagecraft {
namespace {

/// Everything about one rank that its timeline and its memory follow from.
struct RankProfile {
  std::vector<WorkProfile> works;
  std::vector<SimTime> durations;
  RankMemory memory;
};

RankProfile profile_rank(TrainingPlan const& plan,
                         RankPlan const& rank,
                         std::vector<BlockProfile> const& blocks,
                         CostModel const& cost) {
  RankProfile profile;
  profile.works = profile_works(plan, rank, blocks, cost);
  for (WorkProfile const& work : profile.works) profile.durations.push_back(work.duration);
  profile.memory = walk_memory(plan, rank, profile.works);
  return profile;
}

/// Sums each rank's time by what it goes to, and notes when its memory peaks.
class ResultObserver {
 public:
  ResultObserver(TrainingPlan const& plan, std::vector<RankProfile> const& profiles)
      : plan_{plan}, profiles_{profiles}, shares_(plan.ranks.size()), peak_at_(plan.ranks.size()) {}

  void ran(int rank, int step, SimTime start, SimTime end) {
    auto const r = static_cast<std::size_t>(rank);
    RankProfile const& profile = profiles_[r];
    Step const& issued = plan_.ranks[r].steps[static_cast<std::size_t>(step)];
    auto const work = static_cast<std::size_t>(issued.work);
    WorkProfile const& of_work = profile.works[work];
    if (profile.memory.peak_step == step) peak_at_[r] = start + of_work.peak_offset;
    if (plan_.ranks[r].works[work].stream != Stream::compute) return;
    shares_[r] += of_work.shares;
    // A chunk that a gradient reduction slows down is slowed down in its backward.
    shares_[r].backward += (end - start) - of_work.duration;
  }
  void waited(int rank, int step, SimTime start, SimTime /*end*/) {
    auto const r = static_cast<std::size_t>(rank);
    if (profiles_[r].memory.peak_step == step) peak_at_[r] = start;
  }
  void transferred(int /*rank*/, int /*transfer*/, SimTime /*start*/, SimTime /*end*/) {}

  TimeShares const& shares(std::size_t rank) const { return shares_[rank]; }
  SimTime peak_at(std::size_t rank) const { return peak_at_[rank]; }

 private:
  TrainingPlan const& plan_;
  std::vector<RankProfile> const& profiles_;
  std::vector<TimeShares> shares_;
  std::vector<SimTime> peak_at_;
};

TransferPrice transfer_price(CostModel const& cost, TrainingPlan const& plan, int from, int to) {
  MessagePrice const price = cost.price_message(plan, from, to);
  return {.latency = price.latency, .occupancy = price.occupancy};
}

std::vector<RankProgram> rank_programs(TrainingPlan const& plan,
                                       std::vector<RankProfile> const& profiles,
                                       CostModel const& cost) {
  int const p = plan.config.parallel.pipeline;
  std::vector<RankProgram> programs;
  for (int r = 0; r < p; ++r) {
    RankPlan const& rank = plan.ranks[static_cast<std::size_t>(r)];
    programs.push_back({.steps = rank.steps,
                        .works = rank.works,
                        .transfers = rank.transfers,
                        .durations = profiles[static_cast<std::size_t>(r)].durations,
                        .activation = transfer_price(cost, plan, r, (r + 1) % p),
                        .gradient = transfer_price(cost, plan, r, (r + p - 1) % p)});
  }
  return programs;
}

std::int64_t layers_of_stage(TrainingPlan const& plan, int stage) {
  std::int64_t layers = 0;
  auto const p = static_cast<std::size_t>(plan.config.parallel.pipeline);
  auto const m = static_cast<std::size_t>(plan.config.parallel.interleave);
  for (auto i = static_cast<std::size_t>(stage); i < p * m; i += p) layers += plan.chunks[i].layers;
  return layers;
}

void add_rates(Simulation& result, TrainingPlan const& plan, System const& system) {
  double const seconds = to_seconds(result.iteration);
  double const peak = system.accelerator.peak.value.at(plan.config.model.precision).value *
                      world_size(plan.config.parallel);
  result.model_flops = model_flops(plan);
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
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    if (plan.blocks[i].kind != BlockProgram::Kind::layers) continue;
    if (only) return std::nullopt;
    only = i;
  }
  if (!only || plan.blocks[*only].layers != 1) return std::nullopt;
  BlockProgram const& block = plan.blocks[*only];
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

Simulation simulate(TrainingPlan const& plan, System const& system) {
  CostModel const cost{system, plan.config};
  std::vector<BlockProfile> const blocks = profile_blocks(plan, cost);
  std::vector<RankProfile> profiles;
  for (RankPlan const& rank : plan.ranks) {
    profiles.push_back(profile_rank(plan, rank, blocks, cost));
  }
  std::vector<RankProgram> const programs = rank_programs(plan, profiles, cost);
  TimelineInput const input{.ranks = programs,
                            .messages = plan.messages,
                            .p2p = plan.config.schedule.p2p,
                            .slowdown_millionths = cost.slowdown_millionths()};
  ResultObserver observer{plan, profiles};
  Timeline const timeline = play(input, observer);

  Simulation result;
  SimTime const overhead = cost.iteration_overhead();
  result.iteration = timeline.makespan + overhead;
  std::int64_t const capacity = system.accelerator.memory.value.count();
  std::size_t busiest = 0;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    StageResult& stage = result.stages.emplace_back();
    stage.stage = plan.ranks[r].stage;
    stage.layers = layers_of_stage(plan, stage.stage);
    stage.in_flight_chunks = profiles[r].memory.in_flight_chunks;
    stage.busy = timeline.ranks[r].busy;
    stage.at_peak = profiles[r].memory.at_peak;
    stage.at_peak[Category::workspace] += cost.workspace().count();
    stage.activation_peak = profiles[r].memory.activation_peak;
    stage.peak_at = observer.peak_at(r);
    stage.fits = stage.peak() + plan.config.memory.reserve.count() <= capacity;
    if (timeline.ranks[r].busy > timeline.ranks[busiest].busy) busiest = r;
  }
  result.ideal = timeline.ranks[busiest].busy + overhead;
  RankTimeline const& rank = timeline.ranks[busiest];
  result.breakdown.shares = observer.shares(busiest);
  result.breakdown.shares.data_parallel += rank.data_parallel;
  result.breakdown.shares.optimizer += overhead;
  result.breakdown.transfer = rank.transfer;
  result.breakdown.bubble = rank.bubble + (timeline.makespan - rank.end);
  result.layer = summarize_layer(plan, blocks);
  add_rates(result, plan, system);
  return result;
}

}  // namespace stagecraft
