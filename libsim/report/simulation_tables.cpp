#include "libsim/report/simulation_tables.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libsim/engine/fullest_stage.hpp"
#include "libsim/engine/outside_memory.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/report/operation.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

/// One line on quantised products: what the copies of weights that the fullest stage keeps take
/// beside the parameters, and which part of them is transposed. Empty without such products.
std::string quantised_text(TrainingPlan const& plan) {
  Quantisation const& quantisation = plan.shape.quantisation;
  if (!quantisation.is_on()) return "";
  StagePlan const& most =
      *std::ranges::max_element(plan.stages, {}, &StagePlan::quantised_parameters);
  if (most.quantised_parameters == 0) return "";
  Bytes const copies = most.state_of(step_tensor::quantised_weights).bytes();
  Bytes const transposed{quantisation.keeps_two_copies() ? copies.count() / 2 : 0};
  std::string text = "weights in " + bits_text(quantisation.recipe) + " are kept " +
                     (quantisation.replaces_weights ? "in place of" : "beside") +
                     " the parameters: up to " + readable_text(copies) + " per accelerator";
  if (transposed.count() > 0) text += ", " + readable_text(transposed) + " of it transposed";
  return text + "\n";
}

struct UnitCollectives {
  Bytes largest;  ///< gathered unit
  std::int64_t gathers = 0;
  std::int64_t reductions = 0;

  void count(BlockProgram const& block, std::int64_t times) {
    for (std::vector<Op> const* const ops : {&block.forward, &block.backward}) {
      for (Op const& op : *ops) {
        if (op.stream != Stream::gather) continue;
        if (op.kind == OpKind::reduce_scatter || op.kind == OpKind::all_reduce) reductions += times;
        if (op.kind != OpKind::all_gather) continue;
        gathers += times;
        largest = std::max(largest, op.payload);
      }
    }
  }
};

/// One line on the sharded units of a run: the size of the largest one once gathered, how many
/// gathers and reductions a rank runs in an iteration, and how much of their time no computation
/// hides. Empty if no parameters are shared.
std::string units_text(Simulation const& simulation, TrainingPlan const& plan) {
  if (!plan.config.sharding.has_units()) return "";
  // Microbatches with programs of their own have their chunks one after the other.
  std::int64_t const times = plan.microbatch_stride == 0 ? microbatches(plan.config) : 1;
  UnitCollectives all;
  for (ChunkProgram const& chunk : plan.programs.chunks) {
    for (std::int32_t const block : chunk.blocks) {
      all.count(plan.programs.blocks[static_cast<std::size_t>(block)], times);
    }
  }
  std::string const gathers = all.gathers == 0 ? "per iteration "
                                               : "units of up to " + readable_text(all.largest) +
                                                     " are gathered; per iteration " +
                                                     counted(all.gathers, "gather") + " and ";
  return gathers + counted(all.reductions, "reduction") + ", " +
         decimals(to_seconds(simulation.breakdown.shares.data_parallel), 3) +
         " s of them and of their copies hidden by no computation\n";
}

std::string percent(double fraction) { return decimals(100 * fraction, 1) + " %"; }

std::string rates(Simulation const& simulation, TrainingConfig const& config) {
  std::string const peak = peak_of_mfu(config);
  std::string text = "iteration " + decimals(to_seconds(simulation.iteration), 3) + " s, " +
                     decimals(simulation.tokens_per_second, 0) + " tokens/s, MFU " +
                     percent(simulation.mfu) + (peak.empty() ? "" : " of the " + peak) + " (" +
                     percent(mfu_causal(simulation, config)) +
                     " with causal attention counted half), HFU " + percent(simulation.hfu);
  if (simulation.hfu_paper) {
    text += " (" + percent(*simulation.hfu_paper) + " as the paper counts)";
  }
  double const hours =
      gpu_hours_per_trillion_tokens(simulation.tokens_per_second, world_size(config.parallel));
  return text + "\ntraining on a trillion tokens takes " + thousand_hours_text(hours) +
         " thousand GPU hours\n" + waiting_text(simulation) + "\n";
}

std::string breakdown_table(Simulation const& simulation) {
  TextTable table{{{"time of the busiest stage", Align::left}, {"s"}, {"%"}}};
  for (auto const& [name, time] : parts_of(simulation.breakdown)) {
    if ((name == "offload" || name == "host wait") && time == SimTime{0}) continue;
    table.add_row({std::string{name}, decimals(to_seconds(time), 3),
                   decimals(100 * to_seconds(time) / to_seconds(simulation.iteration), 1)});
  }
  if (simulation.breakdown.host_wait == SimTime{0}) return table.text();
  return table.text() + "host wait: the host takes longer to issue kernels than they run\n";
}

/// Says what nodes hold in place of their accelerators, and whether they can.
std::string host_text(TrainingPlan const& plan, System const& system) {
  Bytes const held = fullest_host(plan, system);
  if (held == Bytes{0}) return "";
  Bytes const room = system.node.host_memory.value;
  Offload const& offload = plan.config.offload;
  std::string what;
  if (offload.optimizer > 0) what = "optimizer state, and the gradients it is updated with";
  if (offload.activations != ActivationOffload{}) {
    what += (what.empty() ? "" : "; ") + std::string{"what layers save for their backward"};
  }
  return "the host of a node holds up to " + readable_text(held) + " of its " +
         readable_text(room) + " of memory: " + what + (held > room ? "; it does not fit" : "") +
         "\n";
}

/// Whether a stage whose counted bytes fit runs out of memory by its allocator's replay.
bool runs_out(StageResult const& stage) { return stage.reservation && stage.reservation->runs_out; }

/// The last column of a stage.
std::string verdict_note(StageResult const& stage, bool fits_by_counted_bytes) {
  if (!stage.fits) {
    return fits_by_counted_bytes && runs_out(stage) ? "does not fit by its allocator's replay"
                                                    : "does not fit";
  }
  bool const has_retries = stage.reservation && stage.reservation->retries > 0;
  return has_retries ? "fits after the cache is released" : "";
}

bool fits_by_counted_bytes(StageResult const& stage,
                           TrainingPlan const& plan,
                           System const& system) {
  return stage.peak() + plan.config.memory.kept_in_reserve().count() <=
         system.accelerator.memory.value.count();
}

bool is_by_allocator(Simulation const& simulation, System const& system) {
  return simulation.stages.front().reservation && decides_by_allocator(system.software);
}

/// Names what stages have to leave free.
std::string beside_the_run(Simulation const& simulation,
                           TrainingPlan const& plan,
                           System const& system) {
  if (!is_by_allocator(simulation, system) || !simulation.stages.front().outside) {
    return readable_text(plan.config.memory.kept_in_reserve()) + " of reserve";
  }
  std::int64_t most = 0;
  for (StageResult const& stage : simulation.stages) most = std::max(most, stage.outside->sum());
  return "up to " + readable_text(Bytes{most}) + " of driver, CUDA context and NCCL";
}

/// Says by how much the replay of the tensors alone runs out although their counted bytes fit. Used
/// if the stack's own allocations are not described.
std::string shortage_text(Simulation const& simulation,
                          TrainingPlan const& plan,
                          System const& system) {
  StageResult const* worst = nullptr;
  for (StageResult const& stage : simulation.stages) {
    if (!runs_out(stage) || !fits_by_counted_bytes(stage, plan, system)) continue;
    if (worst == nullptr || stage.margin < worst->margin) worst = &stage;
  }
  if (worst == nullptr) return "";
  std::int64_t const reserved = worst->reservation->reserved;
  return "by its allocator's replay stage " + std::to_string(worst->stage) +
         " runs out of memory: it would reserve " + readable_text(Bytes{reserved}) + ", and " +
         readable_text(Bytes{worst->device - reserved}) +
         (worst->outside ? " of driver, CUDA context and NCCL" : " of reserve") +
         " are on the device beside it, " + readable_text(Bytes{-worst->margin}) +
         " more than it has\n";
}

/// The stage with the least left on its device, where the verdict is by that.
std::string device_text(Simulation const& simulation,
                        TrainingPlan const& plan,
                        System const& system) {
  if (!is_by_allocator(simulation, system)) return shortage_text(simulation, plan, system);
  StageResult const& tightest =
      *std::ranges::min_element(simulation.stages, {}, &StageResult::margin);
  std::string text = "on the device: " + readable_text(Bytes{tightest.device}) + " on stage " +
                     std::to_string(tightest.stage) + ", " +
                     (tightest.margin < 0 ? readable_text(Bytes{-tightest.margin}) + " too much"
                                          : readable_text(Bytes{tightest.margin}) + " left") +
                     "; " + std::string{text_of(verdict_of(simulation))};
  FitProbability const fit = fit_probability_of(simulation, plan.config, system);
  return text + (fit.run ? ", with a probability of " + decimals(*fit.run, 3) : "") + " (" +
         fit.reason + ")\n";
}

/// How much less than the fullest rank of a stage others hold, if their experts compute different
/// numbers of rows.
std::string spread_text(Simulation const& simulation, ByteUnit const& unit) {
  StageResult const* widest = nullptr;
  for (StageResult const& stage : simulation.stages) {
    if (!stage.ranks) continue;
    bool const is_wider = widest == nullptr ||
                          stage.peak() - stage.ranks->least > widest->peak() - widest->ranks->least;
    if (is_wider) widest = &stage;
  }
  if (widest == nullptr) return "";
  RankSpread const& spread = *widest->ranks;
  return "experts compute different numbers of rows: " + std::to_string(spread.distinct) +
         " kinds of ranks, the fullest shown; on stage " + std::to_string(widest->stage) +
         " rank " + std::to_string(spread.fullest) + " of it holds most, rank " +
         std::to_string(spread.emptiest) + " least: " + in_unit(unit, spread.least) + " " +
         std::string{unit.name} + "\n" + (widest->rank_busy ? waits_for_rows(*widest) + "\n" : "");
}

std::string stage_table(Simulation const& simulation,
                        TrainingPlan const& plan,
                        System const& system) {
  ByteUnit const unit = unit_for(largest_peak(simulation.stages).count());
  std::string const unit_name{unit.name};
  bool const has_reservations =
      !simulation.stages.empty() && simulation.stages.front().reservation.has_value();
  using Stage = StageResult const&;
  std::vector<ColumnOf<StageResult>> columns{
      {"stage", [](Stage stage) { return std::to_string(stage.stage); }},
      {"layers", [](Stage stage) { return std::to_string(stage.layers); }},
      {"in flight", [](Stage stage) { return std::to_string(stage.in_flight_chunks); }},
      {"busy s", [](Stage stage) { return decimals(to_seconds(stage.busy), 3); }}};
  bool const has_units = plan.config.sharding.has_units();
  for (CategoryRow const& row : categories) {
    if (row.kind == CategoryKind::scratch || (row.kind == CategoryKind::units && !has_units)) {
      continue;
    }
    columns.push_back({std::string{row.heading}, [unit, category = row.category](Stage stage) {
                         return in_unit(unit, stage.at_peak[category]);
                       }});
  }
  auto const reserved = [&](Stage stage) { return in_unit(unit, stage.reservation->reserved); };
  auto const note = [&](Stage stage) {
    return verdict_note(stage, fits_by_counted_bytes(stage, plan, system));
  };
  columns.push_back(
      {"peak " + unit_name, [&](Stage stage) { return in_unit(unit, stage.peak()); }});
  columns.push_back({"at s", [](Stage stage) { return decimals(to_seconds(stage.peak_at), 3); }});
  columns.push_back({"reserved", reserved, Align::right, has_reservations});
  columns.push_back({"", note, Align::left});
  std::string text = "memory at each stage's peak, " + unit_name + " per accelerator\n" +
                     table_of(columns, simulation.stages).text();
  text += spread_text(simulation, unit);
  auto const count = std::count_if(simulation.stages.begin(), simulation.stages.end(),
                                   [](StageResult const& stage) { return !stage.fits; });
  std::string const limit = readable_text(system.accelerator.memory.value) + " less " +
                            beside_the_run(simulation, plan, system);
  bool const is_by_replay = !is_by_allocator(simulation, system) &&
                            std::ranges::any_of(simulation.stages, [&](StageResult const& stage) {
                              return !stage.fits && fits_by_counted_bytes(stage, plan, system);
                            });
  std::string const where = is_by_replay ? "" : " into " + limit;
  text += count == 0 ? "every stage fits into " + limit + "\n"
                     : std::to_string(count) + " of " + std::to_string(simulation.stages.size()) +
                           " stages do not fit" + where + "\n";
  return text + device_text(simulation, plan, system) + host_text(plan, system);
}

}  // namespace

std::string waits_for_rows(StageResult const& stage) {
  RankBusy const& busy = stage.rank_busy.value();
  TimeUnit const unit = unit_for(stage.busy);
  auto const waits = [&](SimTime own) {
    return in_unit(unit, std::max(SimTime{0}, stage.busy - own)) + " " + std::string{unit.name};
  };
  return "of the " + in_unit(unit, stage.busy) + " " + std::string{unit.name} +
         " that it is busy, rank " + std::to_string(busy.coldest) +
         ", with least to compute, waits " + waits(busy.of_coldest) +
         " for ranks with more, and rank " + std::to_string(busy.hottest) + ", with most, " +
         waits(busy.of_hottest);
}

std::string parameters_text(ModelConfig const& model) {
  auto const count = static_cast<double>(parameter_count(model));
  for (auto const& [name, size] : {std::pair{"billion", 1e9}, {"million", 1e6}}) {
    if (count >= size) return decimals(count / size, 2) + " " + name + " parameters";
  }
  return decimals(count * 1e-3, 2) + " thousand parameters";
}

std::string run_title(TrainingPlan const& plan, System const& system) {
  TrainingConfig const& config = plan.config;
  ParallelLayout const& parallel = config.parallel;
  std::string text = parameters_text(config.model) + " on " + std::to_string(world_size(parallel)) +
                     " x " + system.accelerator.name + "\ntensor " +
                     std::to_string(parallel.tensor);
  if (plan.shape.sequence_parallel) text += " with sequence parallelism";
  text += ", pipeline " + std::to_string(parallel.pipeline);
  if (parallel.interleave > 1) text += " x " + std::to_string(parallel.interleave) + " chunks";
  if (plan.placement.copies() > 1) text += " (both copies of the model in each stage's memory)";
  if (parallel.context > 1) text += ", context " + std::to_string(parallel.context);
  text += ", data " + std::to_string(parallel.data) + "; " + std::to_string(config.batch.global) +
          " sequences per iteration, " + std::to_string(microbatches(config)) +
          (microbatches(config) == 1 ? " microbatch of " : " microbatches of ") +
          std::to_string(config.batch.micro) + " per replica\n";
  return text;
}

std::string waiting_text(Simulation const& simulation) {
  SimTime const waiting = simulation.breakdown.waiting();
  return std::string{waiting_words} + decimals(to_seconds(waiting), 3) +
         " s on the busiest stage, " +
         percent(to_seconds(waiting) / to_seconds(simulation.iteration)) + " of the iteration";
}

std::array<BreakdownPart, 10> parts_of(Breakdown const& breakdown) {
  return {{{"forward", breakdown.shares.forward},
           {"backward", breakdown.shares.backward},
           {"recompute", breakdown.shares.recompute},
           {"head and embedding", breakdown.shares.head_and_embedding},
           {"pipeline transfer", breakdown.transfer},
           {"bubble", breakdown.bubble},
           {"data parallel", breakdown.shares.data_parallel},
           {"optimizer", breakdown.shares.optimizer},
           {"offload", breakdown.shares.offload},
           {"host wait", breakdown.host_wait}}};
}

std::string simulation_tables(Simulation const& simulation,
                              TrainingPlan const& plan,
                              System const& system) {
  return run_title(plan, system) + rates(simulation, plan.config) + units_text(simulation, plan) +
         quantised_text(plan) + interval_text(interval_of(simulation, plan.config, system)) + "\n" +
         unmeasured_text(unmeasured_settings(plan.config, system)) + "\n" +
         breakdown_table(simulation) + "\n" + stage_table(simulation, plan, system);
}

}  // namespace stagecraft
