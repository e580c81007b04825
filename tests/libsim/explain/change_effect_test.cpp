#include "libsim/explain/change_effect.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/engine/settle.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/engine/store_window.hpp"
#include "libsim/explain/paired_changes.hpp"
#include "libsim/explain/single_changes.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/uneven_runs.hpp"

namespace stagecraft::change_effect_test {
namespace {

std::string const paper = STAGECRAFT_SOURCE_DIR "/configs/paper/";

ChangeEffect const& effect_of(std::vector<ChangeEffect> const& effects, std::string const& what) {
  auto const found = std::find_if(effects.begin(), effects.end(),
                                  [&](ChangeEffect const& e) { return e.change.what == what; });
  if (found == effects.end()) FAIL("no change '" << what << "'");
  return *found;
}

std::int64_t fullest(Simulation const& simulation) {
  std::int64_t peak = 0;
  for (StageResult const& stage : simulation.stages) peak = std::max(peak, stage.peak());
  return peak;
}

ChangeEffect effect(double seconds, std::int64_t peak, std::int64_t room) {
  ChangeEffect made;
  made.figures = RunFigures{.iteration = SimTime{static_cast<std::int64_t>(seconds * 1e12)},
                            .peak = peak,
                            .fullest_stage = 0,
                            .room = room};
  return made;
}

}  // namespace

TEST_CASE("what explain says of a run is what simulate does, if its ranks differ too") {
  for (OddRun const& run : uneven_runs()) {
    CAPTURE(run.name);
    RunConfig const config{run.config, lossy_system(), {}};
    RunFigures const figures = figures_of(config);
    TrainingPlan const plan = make_plan(as_settled(config.training));
    Simulation simulation = simulate(plan, config.system);
    add_reservations(simulation, plan, config.system, 1);
    StageResult const& stage = simulation.stages[static_cast<std::size_t>(figures.fullest_stage)];
    REQUIRE(figures.iteration == simulation.iteration);
    REQUIRE(figures.peak == fullest(simulation));
    REQUIRE(figures.peak == stage.peak());
    REQUIRE(figures.reserved == stage.reservation->reserved);
  }
}

TEST_CASE("a change's effect is what simulate says of the run file with the same --set") {
  std::string const file = paper + GENERATE("175b-present", "22b-full") + ".yaml";
  RunConfig const run = load_run_config(file, {});
  std::vector<ChangeEffect> const effects =
      simulate_changes(run, single_changes(run.training, run.system), 2);
  int legal = 0;
  for (ChangeEffect const& effect : effects) {
    INFO(effect.change.what);
    if (!effect.figures) {
      REQUIRE_FALSE(effect.refusal.empty());
      REQUIRE_THROWS(load_run_config(file, effect.change.set));
      continue;
    }
    ++legal;
    RunConfig const changed = load_run_config(file, effect.change.set);
    TrainingPlan const plan =
        make_plan(as_settled(resolve_store_windows(changed.training, changed.system)));
    Simulation simulation = simulate(plan, changed.system);
    add_reservations(simulation, plan, changed.system, 1);
    REQUIRE(effect.figures->iteration == simulation.iteration);
    REQUIRE(effect.figures->peak == fullest(simulation));
    REQUIRE(effect.figures->fits() ==
            std::all_of(simulation.stages.begin(), simulation.stages.end(),
                        [](StageResult const& stage) { return stage.fits; }));
    REQUIRE(world_size(changed.training.parallel) == world_size(run.training.parallel));
  }
  REQUIRE(legal > 15);
}

TEST_CASE("changes are single, told apart, and undo only what is not the default") {
  RunConfig const run = load_run_config(paper + "175b-present.yaml", {});
  std::vector<Change> const changes = single_changes(run.training, run.system);
  std::vector<std::string> undone;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      REQUIRE(changes[i].what != changes[k].what);
      REQUIRE(changes[i].set != changes[k].set);
    }
    if (!changes[i].undoes.empty()) undone.push_back(changes[i].undoes);
  }
  std::sort(undone.begin(), undone.end());
  // What 175b-present sets against the defaults of the configuration: see its file.
  REQUIRE(undone == std::vector<std::string>{"3 interleaved chunks per stage",
                                             "selective recompute (core_attention)",
                                             "sequence parallelism"});
}

TEST_CASE("DualPipe is tried in a V and with two copies, whose gradients are not overlapped") {
  for (char const* const overlap : {"false", "true"}) {
    std::vector<std::string> overrides{"batch.global=128", "parallel.data=2",
                                       std::string{"parallel.overlap_gradients="} + overlap};
    std::string const file = paper + "175b-present.yaml";
    RunConfig const run = load_run_config(file, overrides);
    std::vector<Change> wanted;
    for (Change const& change : single_changes(run.training, run.system)) {
      if (change.what.find("dualpipe") != std::string::npos) wanted.push_back(change);
    }
    REQUIRE(wanted.size() == 2);
    for (ChangeEffect const& effect : simulate_changes(run, wanted, 1)) {
      CAPTURE(effect.change.what, effect.refusal);
      REQUIRE(effect.figures);
      std::vector<std::string> settings = overrides;
      settings.insert(settings.end(), effect.change.set.begin(), effect.change.set.end());
      RunConfig const changed = load_run_config(file, settings);
      ScheduleKind const kind = changed.training.schedule.kind;
      bool const is_copied = effect.change.what == "split backward, dualpipe, 2 copies";
      REQUIRE(kind == (is_copied ? ScheduleKind::dualpipe : ScheduleKind::dualpipev));
      REQUIRE(
          effect.figures->iteration ==
          simulate(make_plan(settled(changed.training, changed.system)), changed.system).iteration);
    }
  }
}

TEST_CASE("two changes together do what simulate says of both their settings") {
  std::string const file = paper + "175b-full.yaml";
  RunConfig const run = load_run_config(file, {});
  std::vector<Change> wanted;
  for (Change const& change : single_changes(run.training, run.system)) {
    for (char const* const what : {"selective recompute", "no recompute", "sequence parallelism",
                                   "flash attention", "split backward, zb_h1"}) {
      if (change.what == what) wanted.push_back(change);
    }
  }
  REQUIRE(wanted.size() == 5);
  std::size_t last = 0;
  std::vector<ChangeEffect> const pairs =
      simulate_pairs(run, simulate_changes(run, wanted, 2), 2,
                     [&](std::size_t done, std::size_t) { REQUIRE(done == ++last); });
  // Ten pairs less the two policies, which set one key.
  REQUIRE(last == 9);
  REQUIRE(pairs.size() > 5);
  for (ChangeEffect const& pair : pairs) {
    INFO(pair.change.what);
    RunConfig const changed = load_run_config(file, pair.change.set);
    Simulation const simulation =
        simulate(make_plan(settled(changed.training, changed.system)), changed.system);
    REQUIRE(pair.figures->iteration == simulation.iteration);
    REQUIRE(pair.figures->peak == fullest(simulation));
  }
  // What the paper proposes is such a pair.
  RunConfig const present = load_run_config(paper + "175b-present.yaml", {});
  REQUIRE(effect_of(pairs, "selective recompute + sequence parallelism").figures->iteration ==
          simulate(make_plan(as_settled(present.training)), present.system).iteration);
}

TEST_CASE("of a model with experts, other numbers of ranks that split them are tried") {
  std::string const file = STAGECRAFT_SOURCE_DIR "/configs/examples/llama2-70b-64-h100.yaml";
  std::vector<std::string> overrides{"model=mixtral-8x7b", "parallel.expert=4"};
  RunConfig const run = load_run_config(file, overrides);
  std::vector<Change> wanted;
  for (Change const& change : single_changes(run.training, run.system)) {
    if (change.what.starts_with("expert ")) wanted.push_back(change);
  }
  std::vector<ChangeEffect> const effects = simulate_changes(run, wanted, 2);
  REQUIRE(effects.size() == 2);
  REQUIRE(effects[0].change.what == "expert 4 -> 2");
  REQUIRE(effects[1].change.what == "expert 4 -> 8");
  for (ChangeEffect const& effect : effects) {
    overrides.back() = effect.change.set.front();
    RunConfig const changed = load_run_config(file, overrides);
    REQUIRE(effect.figures->iteration ==
            simulate(make_plan(as_settled(changed.training)), changed.system).iteration);
  }
  REQUIRE(effects[1].figures->peak < effects[0].figures->peak);  // a rank holds fewer experts
}

TEST_CASE("of a model with shared experts, computing them beside the exchanges is tried") {
  std::string const file = STAGECRAFT_SOURCE_DIR "/configs/examples/llama2-70b-64-h100.yaml";
  std::vector<std::string> overrides{"model=mixtral-8x7b", "parallel.expert=4"};
  auto const changes_of = [&] {
    std::vector<std::string> found;
    RunConfig const run = load_run_config(file, overrides);
    for (Change const& change : single_changes(run.training, run.system)) {
      if (change.what.find("shared experts beside") != std::string::npos) {
        found.push_back(change.what + ": " + change.set.front());
      }
    }
    return found;
  };
  REQUIRE(changes_of().empty());
  overrides.emplace_back("model.experts.shared_ffn_hidden=14336");
  REQUIRE(changes_of() == std::vector<std::string>{"shared experts beside the exchanges: "
                                                   "parallel.shared_expert_overlap=true"});
  overrides.emplace_back("parallel.shared_expert_overlap=true");
  REQUIRE(changes_of() == std::vector<std::string>{"no shared experts beside the exchanges: "
                                                   "parallel.shared_expert_overlap=false"});
}

TEST_CASE("of a run in 32 bits, products in TF32 are tried where the accelerator has them") {
  auto const change_of = [](std::string const& system, std::string const& precision) {
    RunConfig const run = load_run_config(paper + "22b-present.yaml",
                                          {"model.precision=" + precision, "system=" + system});
    std::string found;
    for (Change const& change : single_changes(run.training, run.system)) {
      if (change.what.find("TF32") != std::string::npos) {
        found += change.what + ": " + change.set.front();
      }
    }
    return found;
  };
  REQUIRE(change_of("dgx-h100", "fp32") == "products in TF32: tf32=true");
  REQUIRE(change_of("dgx-h100", "bf16").empty());
  REQUIRE(change_of("v100-dgx2", "fp32").empty());  // Volta has none
}

TEST_CASE("another number of stages has a layout of its own") {
  // 32 layers on two stages, as a plan wrote them: what suits two stages does not suit others.
  auto const layout_of = [](std::vector<std::string> const& overrides, std::string const& what) {
    RunConfig const run =
        load_run_config(STAGECRAFT_SOURCE_DIR "/configs/examples/eight.yaml", overrides);
    std::vector<Change> const changes = single_changes(run.training, run.system);
    auto const found = std::ranges::find(changes, what, &Change::what);
    REQUIRE(found != changes.end());
    auto const set = std::ranges::find_if(
        found->set, [](std::string const& text) { return text.starts_with("layout="); });
    return set == found->set.end() ? std::string{} : *set;
  };
  std::vector<std::string> uneven{"parallel={tensor: 2, pipeline: 2, data: 2}", "schedule=1f1b",
                                  "model.layers=32", "layout={first: 17, last: 15}"};
  REQUIRE(layout_of(uneven, "tensor 2 -> 1, pipeline 2 -> 4") == "layout=even");
  REQUIRE(layout_of(uneven, "pipeline 2 -> 1, data 2 -> 4") == "layout=even");
  REQUIRE(layout_of(uneven, "tensor 2 -> 1, data 2 -> 4").empty());
  // 30 layers on four stages: 8 in the middle, 14 are left for the ends.
  uneven[2] = "model.layers=30";
  uneven[3] = "layout={first: 16, last: 14}";
  REQUIRE(layout_of(uneven, "data 2 -> 1, pipeline 2 -> 4") == "layout={first: 7, last: 7}");
}

TEST_CASE("a change that is not legal is refused with its key and what is accepted") {
  // 22B: one stage of 48 layers, 4 sequences in one microbatch of 4.
  RunConfig const run = load_run_config(paper + "22b-full.yaml", {});
  std::vector<ChangeEffect> const effects =
      simulate_changes(run, single_changes(run.training, run.system), 1);
  ChangeEffect const& doubled = effect_of(effects, "microbatch 4 -> 8");
  REQUIRE_FALSE(doubled.figures);
  REQUIRE(doubled.refusal ==
          "batch.global: found '4'; accepted: a multiple of batch.micro x parallel.data (8)");
  REQUIRE(effect_of(effects, "full recompute, layer by layer").is_same_run);
}

TEST_CASE("a number of stages for which the schedule has no order is a change that is not legal") {
  // The order is made of costs, so that nobody knows before that it cannot be.
  RunConfig const run = load_run_config(STAGECRAFT_SOURCE_DIR "/configs/examples/eight.yaml",
                                        {"schedule={kind: v_auto}"});
  std::vector<ChangeEffect> const effects =
      simulate_changes(run, single_changes(run.training, run.system), 1);
  ChangeEffect const& lone = effect_of(effects, "pipeline 2 -> 1, data 2 -> 4");
  REQUIRE_FALSE(lone.figures);
  REQUIRE(lone.refusal == "pipeline stages of v_auto: found '1'; accepted: at least 2");
}

TEST_CASE(
    "changes that make the same run are one: a window of all microbatches recomputes nothing") {
  auto const distinct = [](std::vector<std::string> const& overrides) {
    RunConfig const run = load_run_config(paper + "22b-full.yaml", overrides);
    std::vector<ChangeEffect> const all =
        simulate_changes(run, single_changes(run.training, run.system), 2);
    REQUIRE(effect_of(all, "no recompute").figures->iteration ==
            effect_of(all, "full recompute, stored window").figures->iteration);
    return distinct_effects(all);
  };
  auto const has = [](std::vector<ChangeEffect> const& effects, std::string const& what) {
    return std::any_of(effects.begin(), effects.end(),
                       [&](ChangeEffect const& effect) { return effect.change.what == what; });
  };
  // One microbatch of 4 sequences, of which memory holds everything.
  std::string const memory = "system.accelerator.memory.value=800 GB";
  std::vector<ChangeEffect> const of_one = distinct({memory});
  REQUIRE(has(of_one, "no recompute"));
  REQUIRE_FALSE(has(of_one, "selective recompute, stored window"));
  REQUIRE_FALSE(has(of_one, "full recompute, stored window"));
  REQUIRE_FALSE(has(of_one, "full recompute, layer by layer"));  // the run itself
  // The run stores all that it could recompute: nothing to take back.
  std::vector<ChangeEffect> const of_window =
      distinct({memory, "recompute={granularity: full, store_microbatches: auto}"});
  REQUIRE_FALSE(has(of_window, "no recompute"));
  REQUIRE(has(of_window, "full recompute, layer by layer"));
  for (ChangeEffect const& effect : of_one) {
    if (effect.figures) REQUIRE((effect.refusal.empty() && !effect.is_same_run));
  }
}

TEST_CASE("taking interleaving back keeps how messages are sent") {
  RunConfig const run = load_run_config(
      paper + "175b-full.yaml", {"schedule.p2p=overlapped", "schedule.scatter_gather=false"});
  std::vector<Change> const changes = single_changes(run.training, run.system);
  auto const plain = std::find_if(changes.begin(), changes.end(), [](Change const& change) {
    return change.what == "no interleaving (1f1b)";
  });
  REQUIRE(plain != changes.end());
  RunConfig const changed = parse_run_config(to_yaml(run), "run", plain->set);
  REQUIRE(changed.training.schedule.kind == ScheduleKind::one_f_one_b);
  REQUIRE(changed.training.schedule.p2p == P2p::overlapped);
  REQUIRE_FALSE(changed.training.schedule.scatter_gather);
  REQUIRE(changed.training.parallel.interleave == 1);
}

TEST_CASE("of the changes the fastest that fits, the smallest and the cheapest are found") {
  RunFigures const run{.iteration = SimTime{10'000'000'000'000}, .peak = 1000, .room = 100};
  std::vector<ChangeEffect> const effects{effect(9.0, 1200, -100),  // fastest, but does not fit
                                          effect(9.5, 1050, 50),   effect(10.05, 900, 200),
                                          effect(15.0, 500, 600),  effect(21.0, 100, 900),
                                          ChangeEffect{}};  // not legal
  BestChanges const best = best_changes(run, effects);
  REQUIRE(best.fastest == 1);
  REQUIRE(best.smallest == 3);
  REQUIRE(best.cheapest == 2);
  // A run that does not fit is helped by what is slower and fits.
  RunFigures const too_large{.iteration = run.iteration, .peak = 1000, .room = -1};
  REQUIRE(best_changes(too_large, {effect(9.0, 1200, -200), effect(12.0, 900, 99)}).fastest == 1);
  BestChanges const none = best_changes(run, {effect(10.0, 1000, 100)});
  REQUIRE_FALSE(none.fastest);
  REQUIRE_FALSE(none.smallest);
  REQUIRE_FALSE(none.cheapest);
}

}  // namespace stagecraft::change_effect_test
