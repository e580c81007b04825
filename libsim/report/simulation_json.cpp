#include "libsim/report/simulation_json.hpp"

#include <string>

#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/program/quantisation.hpp"
#include "libsim/report/operation.hpp"
#include "libsim/report/run_verdict.hpp"

namespace stagecraft {

namespace {

using Json = nlohmann::ordered_json;

Json seconds(SimTime time) { return to_seconds(time); }

Json layer_json(std::optional<LayerResult> const& layer) {
  if (!layer) return nullptr;
  return {{"forward_seconds", seconds(layer->forward)},
          {"backward_seconds", seconds(layer->backward)},
          {"recompute_seconds", seconds(layer->recompute)},
          {"saved_bytes", layer->saved.count()},
          {"paper_bytes", part_or_null(layer->paper, &Bytes::count)}};
}

/// What is on the device beside the allocator; null if the run sets a reserve for it, or the system
/// does not say.
Json outside_json(std::optional<OutsideMemory> const& outside) {
  if (!outside) return nullptr;
  return {{"driver", outside->driver},
          {"context", outside->context},
          {"communicators", outside->communicators},
          {"communicator_count", outside->communicator_count}};
}

/// The ranks that hold most and least, and those whose experts have most and least to do, if they
/// differ.
Json spread_json(StageResult const& stage) {
  if (!stage.ranks) return nullptr;
  RankSpread const& spread = *stage.ranks;
  Json document = {{"distinct", spread.distinct},
                   {"fullest", spread.fullest},
                   {"emptiest", spread.emptiest},
                   {"least_peak_bytes", spread.least}};
  std::optional<RankBusy> const& busy = stage.rank_busy;
  auto const hottest = [](RankBusy const& ranks) { return seconds(ranks.of_hottest); };
  auto const coldest = [](RankBusy const& ranks) { return seconds(ranks.of_coldest); };
  document["hottest"] = part_or_null(busy, &RankBusy::hottest);
  document["hottest_busy_seconds"] = part_or_null(busy, hottest);
  document["coldest"] = part_or_null(busy, &RankBusy::coldest);
  document["coldest_busy_seconds"] = part_or_null(busy, coldest);
  return document;
}

/// `retries` is null if the run dies instead; all are null if no allocator was asked.
Json stage_json(StageResult const& stage) {
  std::optional<StageReservation> const& reserved = stage.reservation;
  return {{"stage", stage.stage},
          {"layers", stage.layers},
          {"in_flight_chunks", stage.in_flight_chunks},
          {"busy_seconds", seconds(stage.busy)},
          {"fits", stage.fits},
          {"verdict", name_of(stage.verdict)},
          {"peak_bytes", stage.peak()},
          {"peak_at_seconds", seconds(stage.peak_at)},
          {"at_peak", to_json(stage.at_peak)},
          {"activation_peak_bytes", stage.activation_peak},
          {"host_bytes", stage.host},
          {"ranks", spread_json(stage)},
          {"reserved_bytes", part_or_null(reserved, &StageReservation::reserved)},
          {"allocated_bytes", part_or_null(reserved, &StageReservation::allocated)},
          {"first_allocated_bytes", part_or_null(reserved, &StageReservation::first_allocated)},
          {"resident_bytes", part_or_null(reserved, &StageReservation::resident)},
          {"inactive_split_bytes", part_or_null(reserved, &StageReservation::inactive_split)},
          {"device_bytes", reserved ? Json(stage.device) : Json(nullptr)},
          {"outside_bytes", outside_json(stage.outside)},
          {"margin_bytes", reserved ? Json(stage.margin) : Json(nullptr)},
          {"retries", reserved && !reserved->runs_out ? Json(reserved->retries) : Json(nullptr)},
          {"runs_out", part_or_null(reserved, &StageReservation::runs_out)}};
}

/// What simulate() gives, without `config` and `warnings`.
Json to_json(Simulation const& simulation, TrainingPlan const& plan) {
  return {{"schema", simulation_schema},
          {"plan", fingerprint(plan)},
          {"config", nullptr},
          {"parameters", parameter_count(plan.config.model)},
          {"iteration_seconds", seconds(simulation.iteration)},
          {"relative_error", simulation.relative_error},
          {"ideal_seconds", seconds(simulation.ideal)},
          {"bubble_fraction", simulation.bubble_fraction()},
          {"waiting_seconds", seconds(simulation.breakdown.waiting())},
          {"model_flops", simulation.model_flops},
          {"hardware_flops", simulation.hardware_flops},
          {"mfu", simulation.mfu},
          {"mfu_causal", mfu_causal(simulation, plan.config)},
          {"mfu_precision", precision_of_mfu(plan.config)},
          {"hfu", simulation.hfu},
          {"hfu_paper", simulation.hfu_paper},
          {"tokens_per_second", simulation.tokens_per_second},
          {"gpu_hours_per_trillion_tokens",
           gpu_hours_per_trillion_tokens(simulation.tokens_per_second,
                                         world_size(plan.config.parallel))},
          {"layer", layer_json(simulation.layer)},
          {"stages", list_of(simulation.stages, stage_json)},
          {"breakdown_seconds", to_json(simulation.breakdown)},
          {"host_wait_seconds", seconds(simulation.breakdown.host_wait)},
          {"warnings", Json::array()}};
}

}  // namespace

double mfu_causal(Simulation const& simulation, TrainingConfig const& config) {
  double const attention = static_cast<double>(config.batch.global) *
                           static_cast<double>(attention_flops_per_sequence(config.model));
  return simulation.mfu * (1 - attention / 2 / simulation.model_flops);
}

std::string_view precision_of_mfu(TrainingConfig const& config) {
  return config.tf32 ? "tf32" : name_of(config.model.precision);
}

std::string peak_of_mfu(TrainingConfig const& config) {
  std::string const peak = std::string{precision_of_mfu(config)} + " peak";
  Recipe const recipe = config.low_precision.recipe;
  if (recipe != Recipe::none) return peak + ", not of that in " + bits_text(recipe);
  return config.tf32 ? peak + ", not of fp32's" : std::string{};
}

nlohmann::ordered_json simulation_results(Simulation const& simulation,
                                          TrainingPlan const& plan,
                                          System const& system) {
  nlohmann::ordered_json json = to_json(simulation, plan);
  put_interval(json, interval_of(simulation, plan.config, system));
  FitProbability const fit = fit_probability_of(simulation, plan.config, system);
  for (std::size_t i = 0; i < fit.stages.size(); ++i) {
    json["stages"][i]["fits_probability"] = fit.stages[i];
  }
  json["verdict"] = name_of(verdict_of(simulation));
  json["fits_probability"] = fit.run;
  json["fits_probability_reason"] = fit.reason;
  json["not_validated_for"] = unmeasured_settings(plan.config, system);
  return json;
}

nlohmann::ordered_json simulation_document(Simulation const& simulation,
                                           TrainingPlan const& plan,
                                           RunConfig const& run) {
  nlohmann::ordered_json json = simulation_results(simulation, plan, run.system);
  json["config"] = to_json(run);
  json["warnings"] = run.warnings;
  return json;
}

Json to_json(Breakdown const& breakdown) {
  TimeShares const& shares = breakdown.shares;
  return {{"forward", seconds(shares.forward)},
          {"backward", seconds(shares.backward)},
          {"recompute", seconds(shares.recompute)},
          {"pipeline_transfer", seconds(breakdown.transfer)},
          {"bubble", seconds(breakdown.bubble)},
          {"data_parallel", seconds(shares.data_parallel)},
          {"head_and_embedding", seconds(shares.head_and_embedding)},
          {"optimizer", seconds(shares.optimizer)},
          {"offload", seconds(shares.offload)},
          {"host_wait", seconds(breakdown.host_wait)}};
}

Json to_json(CategoryBytes const& bytes) {
  Json json;
  for (auto const& [category, name] : EnumNames<Category>::all) {
    json[std::string{name}] = bytes[category];
  }
  return json;
}

}  // namespace stagecraft
