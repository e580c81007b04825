#include "libsim/explain/explanation_json.hpp"

#include <string>

#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/simulation_json.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(std::int64_t number) { return number < 0 ? Json(nullptr) : Json(number); }

Json tensor_json(TensorGroup const& group) {
  return {{"tensor", group.tensor},
          {"category", name_of(group.category)},
          {"stay", name_of(group.stay)},
          {"bytes", group.bytes},
          {"buffers", group.buffers},
          {"layers", group.layers},
          {"microbatches", group.microbatches},
          {"passes", group.passes},
          {"made_by", group.made_by},
          {"needed_by", text_or_null(group.needed_by)}};
}

Json peak_json(PeakExplanation const& peak, CategoryBytes const& at_peak) {
  PeakEvent const& event = peak.event;
  return {{"stage", peak.stage},
          {"seconds", to_seconds(event.time)},
          {"event",
           {{"op", event.op},
            {"phase", text_or_null(event.phase)},
            {"layer", number_or_null(event.layer)},
            {"microbatch", number_or_null(event.microbatch.value())},
            {"chunk", number_or_null(event.chunk)}}},
          {"at_peak", to_json(at_peak)},
          {"tensors", list_of(peak.tensors, tensor_json)}};
}

Json kinds_json(KindTimes const& kinds) {
  Json json;
  for (int i = 0; i < time_kind_count; ++i) {
    auto const kind = static_cast<TimeKind>(i);
    json[std::string{name_of(kind)}] = to_seconds(kinds[kind]);
  }
  return json;
}

Json path_json(CriticalPath const& path) {
  return {{"seconds", kinds_json(path.kinds)},
          {"seconds_by_stage", list_of(path.by_stage, to_seconds)},
          {"seconds_of_messages", to_seconds(path.in_messages)},
          {"overhead_seconds", to_seconds(path.overhead)},
          {"next_iteration_seconds", to_seconds(path.in_next)},
          {"messages", path.messages}};
}

Json exposed_json(ExposedUnits const& exposed) {
  return {{"collective", exposed.is_gather ? "gathers" : "reductions"},
          {"pass", exposed.pass == Pass::forward ? "forward" : "backward"},
          {"block", name_of_block(exposed.block)},
          {"seconds", to_seconds(exposed.seconds)}};
}

Json change_json(ChangeEffect const& effect) {
  auto const& figures = effect.figures;
  return {
      {"change", effect.change.what},
      {"set", effect.change.set},
      {"undoes", text_or_null(effect.change.undoes)},
      {"iteration_seconds",
       part_or_null(figures, [](RunFigures const& f) { return to_seconds(f.iteration); })},
      {"peak_bytes", part_or_null(figures, &RunFigures::peak)},
      {"fullest_stage", part_or_null(figures, &RunFigures::fullest_stage)},
      {"free_bytes", part_or_null(figures, &RunFigures::room)},
      {"fits", part_or_null(figures, &RunFigures::fits)},
      {"reserved_bytes", part_or_null(figures, &RunFigures::reserved)},
      {"verdict", part_or_null(figures, [](RunFigures const& f) { return name_of(f.verdict); })},
      {"refusal", text_or_null(effect.refusal)}};
}

Json pool_json(PoolUse const& pool) {
  return {{"reserved_bytes", pool.reserved}, {"live_bytes", pool.live}};
}

Json reserved_json(ReservedExplanation const& reserved) {
  auto const free_json = [](FreeSize const& size) -> Json {
    return {{"pool", size.is_small ? "small" : "large"},
            {"size", size.size},
            {"blocks", size.blocks},
            {"is_fragment", size.is_split}};
  };
  return {{"stage", reserved.stage},
          {"counted_bytes", reserved.counted},
          {"reserved_bytes", reserved.reserved},
          {"requested_bytes", reserved.requested},
          {"rounding_bytes", reserved.rounding},
          {"fragment_bytes", reserved.fragments},
          {"cached_bytes", reserved.cached},
          {"pools", {{"small", pool_json(reserved.small)}, {"large", pool_json(reserved.large)}}},
          {"request_bytes", reserved.request},
          {"request_of", text_or_null(reserved.tensor)},
          {"in_step", reserved.is_in_step},
          {"free", list_of(reserved.free, free_json)}};
}

Json stages_json(Simulation const& simulation, FitProbability const& fit) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < simulation.stages.size(); ++i) {
    StageResult const& stage = simulation.stages[i];
    stages.push_back({{"stage", stage.stage},
                      {"peak_bytes", stage.peak()},
                      {"reserved_bytes", stage.reservation->reserved},
                      {"device_bytes", stage.device},
                      {"margin_bytes", stage.margin},
                      {"verdict", name_of(stage.verdict)},
                      {"fits_probability", fit.stages[i]}});
  }
  return stages;
}

Json changes_json(std::vector<ChangeEffect> const& effects) {
  return list_of(effects, change_json);
}

Json best_json(BestChanges const& best) {
  return {{"fastest", best.fastest}, {"smallest", best.smallest}, {"cheapest", best.cheapest}};
}

}  // namespace

Json to_json(Explanation const& explanation, RunConfig const& run) {
  RunFigures const& figures = explanation.figures;
  RunConfig settled = run;
  settled.training = explanation.plan.config;
  std::vector<std::string> warnings = run.warnings;
  warnings.insert(warnings.end(), explanation.pointless.begin(), explanation.pointless.end());
  auto const stage = static_cast<std::size_t>(explanation.peak.stage);
  FitProbability const fit =
      fit_probability_of(explanation.simulation, explanation.plan.config, run.system);
  Json json{{"schema", explanation_schema},
            {"plan", fingerprint(explanation.plan)},
            {"config", to_json(settled)},
            {"iteration_seconds", to_seconds(explanation.simulation.iteration)},
            {"peak_bytes", figures.peak},
            {"free_bytes", figures.room},
            {"fits", figures.fits()},
            {"verdict", name_of(verdict_of(explanation.simulation))},
            {"fits_probability", fit.run},
            {"fits_probability_reason", fit.reason},
            {"stages", stages_json(explanation.simulation, fit)},
            {"reserved", reserved_json(explanation.reserved)},
            {"peak", peak_json(explanation.peak, explanation.simulation.stages[stage].at_peak)},
            {"critical_path", path_json(explanation.path)},
            {"exposed_units", list_of(explanation.exposed, exposed_json)},
            {"busiest_stage",
             {{"stage", busiest_stage(explanation.simulation)},
              {"waiting_seconds", to_seconds(explanation.simulation.breakdown.waiting())},
              {"seconds", kinds_json(explanation.busiest)}}},
            {"changes", changes_json(explanation.effects)},
            {"best", best_json(explanation.best)},
            {"pairs", part_or_null(explanation.pairs, changes_json)},
            {"best_pairs", explanation.pairs ? best_json(explanation.best_pairs) : Json(nullptr)},
            {"warnings", warnings}};
  put_interval(json, interval_of(explanation.simulation, explanation.plan.config, run.system));
  json["not_validated_for"] = unmeasured_settings(explanation.plan.config, run.system);
  return json;
}

}  // namespace stagecraft
