#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/training/key_values.hpp"
#include "libsim/training/training_names.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"

/// Plans whose experts compute different numbers of rows: forced ones, and those of routers.
namespace stagecraft::routing_test {
namespace {

/// Counts that differ from layer to layer, and in one microbatch from the others.
Routing counted(bool by_microbatch) {
  CountsFile file{"counts.csv",
                  {{0, every_microbatch, {16, 9, 4, 3}},
                   {1, every_microbatch, {0, 16, 0, 16}},
                   {2, every_microbatch, {8, 8, 8, 8}},
                   {3, every_microbatch, {1, 2, 15, 14}}}};
  if (by_microbatch) {
    file.layers.push_back({0, BatchMicrobatchId{2}, {3, 4, 9, 16}});
    file.layers.push_back({3, BatchMicrobatchId{0}, {10, 10, 6, 6}});
    file.layers.push_back({3, BatchMicrobatchId{3}, {16, 0, 16, 0}});
  }
  return {.counts = SharedCounts{std::move(file)}};
}

Routing hot(double factor) { return {.factor = factor}; }
Routing natural() { return {.is_natural = true}; }
Routing dropping(double capacity, bool pads, DropBy drop) {
  return {.capacity = capacity, .pads = pads, .drop = drop};
}

Routing of_microbatch(double capacity, bool pads, DropBy drop) {
  return {.capacity = capacity, .pads = pads, .is_of_microbatch = true, .drop = drop};
}

TrainingConfig with(TrainingConfig config, Routing routing) {
  config.routing = std::move(routing);
  return config;
}

struct Layout {
  std::string name;
  ParallelLayout parallel;
  bool is_sharded = false;
};

ParallelLayout of(int t, int p, int d, int expert) {
  return {.tensor = t, .pipeline = p, .data = d, .sequence = t > 1, .expert = expert};
}

std::vector<Layout> layouts() {
  ParallelLayout ring = of(1, 1, 1, 2);
  ring.context = 2;
  ParallelLayout wide = of(2, 1, 1, 4);
  wide.context = 2;
  return {{"d2", of(1, 1, 2, 1)},
          {"d2 ep2", of(1, 1, 2, 2)},
          {"d4 ep4", of(1, 1, 4, 4)},
          {"d4 ep2", of(1, 1, 4, 2)},
          {"t2", of(2, 1, 1, 1)},
          {"t2 ep2", of(2, 1, 1, 2)},
          {"t2 d2 ep4", of(2, 1, 2, 4)},
          {"t4 ep2", of(4, 1, 1, 2)},
          {"p2 d2 ep2", of(1, 2, 2, 2)},
          {"d4 ep2 sharded", of(1, 1, 4, 2), true},
          {"t2 p2 d2 ep2 sharded", of(2, 2, 2, 2), true},
          {"c2 ep2", ring},
          {"t2 c2 ep4", wide}};
}

/// Layouts whose experts are shared by expert tensor ranks, each of which receives other rows.
std::vector<Layout> spread_layouts() {
  std::vector<Layout> made{{"d2 etp2", of(1, 1, 2, 1)},
                           {"t2 etp2", of(2, 1, 1, 1)},
                           {"t2 d2 ep2 etp2", of(2, 1, 2, 2)},
                           {"d4 ep2 etp2 sharded", of(1, 1, 4, 2), true},
                           {"p2 t2 d2 ep2 etp2", of(2, 2, 2, 2)}};
  for (Layout& layout : made) layout.parallel.expert_tensor = 2;
  return made;
}

/// With the attention that sequences are split with, if a layout splits them.
TrainingConfig comparable(TrainingConfig config, Layout const& layout) {
  if (layout.parallel.context == 1) return config;
  config.model.attention = Attention::flash;
  config.model.attention_dropout = 0;
  return config;
}

TrainingConfig with(TrainingConfig config, Layout const& layout) {
  config = comparable(std::move(config), layout);
  config.parallel = layout.parallel;
  config.sharding = sharding_of(layout.is_sharded);
  return config;
}

std::vector<RecomputePolicy> policies() {
  return {{},
          selective({"moe"}),
          selective({"moe_act"}),
          selective({"layernorm", "moe_act", "core_attention"}),
          {.granularity = RecomputeGranularity::full},
          {.granularity = RecomputeGranularity::full, .layers = 2}};
}

TEST_CASE("forced counts on any number of ranks have the gradients of one rank", "[routing]") {
  bool const by_microbatch = GENERATE(false, true);
  TrainingConfig base = with(small_mixture(Precision::fp64), counted(by_microbatch));
  for (Layout const& layout : layouts()) {
    CAPTURE(layout.name, by_microbatch);
    require_close(comparable(base, layout), with(base, layout), 1e-12);
  }
}

TEST_CASE("ranks that share experts compute uneven rows as one rank does", "[routing]") {
  Routing const routing = GENERATE(counted(false), counted(true), natural(),
                                   of_microbatch(0.75, true, DropBy::probabilities));
  TrainingConfig const base = with(small_mixture(Precision::fp64), routing);
  for (Layout const& layout : spread_layouts()) {
    CAPTURE(layout.name, to_json(routing).dump());
    require_close(base, with(base, layout), 1e-12);
  }
}

TEST_CASE("what a router chooses without a limit does not depend on the layout", "[routing]") {
  TrainingConfig base = with(small_mixture(Precision::fp64), natural());
  for (Layout const& layout : layouts()) {
    CAPTURE(layout.name);
    require_close(comparable(base, layout), with(base, layout), 1e-12);
  }
}

TEST_CASE("with a capacity that drops nothing, padding changes no gradient", "[routing]") {
  TrainingConfig const base = small_mixture(Precision::fp64);
  // 16 tokens x 2 choices / 4 experts x 2 = 16 rows, as many as there are tokens.
  TrainingConfig const padded = with(base, dropping(2, true, DropBy::probabilities));
  require_close(padded, with(base, natural()), 1e-12);
  for (Layout const& layout : layouts()) {
    CAPTURE(layout.name);
    if (layout.parallel.context > 1) continue;
    require_close(padded, with(with(base, dropping(2, false, DropBy::position)), layout), 1e-12);
  }
}

TEST_CASE("with a capacity that drops choices, padding changes no gradient", "[routing]") {
  TrainingConfig const base = with(small_mixture(Precision::fp64), Layout{"", of(2, 1, 2, 4)});
  DropBy const drop = GENERATE(DropBy::probabilities, DropBy::position);
  require_close(with(base, dropping(1, true, drop)), with(base, dropping(1, false, drop)), 1e-12);
}

TEST_CASE("capacities of a microbatch drop the same tokens in every layout", "[routing][long]") {
  bool const pads = GENERATE(true, false);
  DropBy const drop = GENERATE(DropBy::probabilities, DropBy::position);
  Dispatch const dispatch = GENERATE(Dispatch::alltoall, Dispatch::allgather, Dispatch::deepep);
  // Padding takes rows, but neither probabilities nor gradients.
  TrainingConfig const base =
      with(small_mixture(Precision::fp64), of_microbatch(0.75, !pads, drop));
  REQUIRE(execute(base).steps.front().loss !=
          execute(with(base, natural())).steps.front().loss);  // some are dropped
  ParallelLayout exchange = of(1, 1, 1, 2);
  exchange.context = 2;
  exchange.context_method = ContextMethod::ulysses;
  ParallelLayout both = of(2, 1, 1, 2);
  both.context = 2;
  both.context_method = ContextMethod::all_gather;
  std::vector<Layout> all = layouts();
  all.push_back({"ulysses c2 ep2", exchange});
  all.push_back({"t2 gathered c2 ep2", both});
  for (Layout const& layout : all) {
    CAPTURE(layout.name, pads, name_of(drop), name_of(dispatch));
    TrainingConfig split = with(with(base, of_microbatch(0.75, pads, drop)), layout);
    split.dispatch = dispatch;
    require_close(comparable(base, layout), split, 1e-12);
    REQUIRE(execute(split).steps.front().loss ==
            Approx(execute(comparable(base, layout)).steps.front().loss).epsilon(1e-13));
  }
}

TEST_CASE("experts with biases compute uneven rows as one rank does", "[routing]") {
  TrainingConfig config = small_gpt(Precision::fp64);
  config.model.experts =
      ExpertsConfig{.count = 4, .per_token = 2, .ffn_hidden = 12, .biases = true};
  config.model.experts->probabilities_on =
      GENERATE(ProbabilitiesOn::output, ProbabilitiesOn::input);
  config.routing = GENERATE(natural(), of_microbatch(0.75, true, DropBy::probabilities));
  for (Layout const& layout : layouts()) {
    CAPTURE(layout.name);
    require_close(comparable(config, layout), with(config, layout), 1e-12);
  }
}

TEST_CASE("gathered tokens, and those sent once, have the gradients of exchanged ones",
          "[routing][long]") {
  Routing const routing =
      GENERATE(Routing{}, counted(true), natural(), dropping(2, true, DropBy::probabilities),
               dropping(1, false, DropBy::position));
  Dispatch const dispatch = GENERATE(Dispatch::allgather, Dispatch::deepep);
  std::vector<Layout> all = layouts();
  for (Layout const& layout : spread_layouts()) all.push_back(layout);
  for (Layout const& layout : all) {
    CAPTURE(layout.name);
    TrainingConfig const exchanged = with(with(small_mixture(Precision::fp64), routing), layout);
    TrainingConfig gathered = exchanged;
    gathered.dispatch = dispatch;
    require_close(exchanged, gathered, 1e-12);
  }
}

TEST_CASE("tokens are sent once to experts that differ by layer", "[routing]") {
  TrainingConfig config = small_mixture(Precision::fp64);
  LayerConfig other = config.model;
  other.experts = ExpertsConfig{.count = 8, .per_token = 2, .ffn_hidden = 16};
  config.model.pattern = {{config.model, 1}, {other, 1}};
  config.routing = GENERATE(Routing{}, natural(), of_microbatch(0.75, true, DropBy::probabilities));
  for (Layout const& layout : layouts()) {
    CAPTURE(layout.name);
    if (layout.parallel.context > 1) continue;  // the kinds of layers attend as one rank does
    TrainingConfig once = with(config, layout);
    once.dispatch = Dispatch::deepep;
    require_close(config, once, 1e-12);
  }
}

TEST_CASE("recomputed experts of uneven rows have the gradients of stored ones", "[routing]") {
  TrainingConfig base = with(small_mixture(Precision::fp64), Layout{"", of(2, 1, 2, 2)});
  Routing const routing =
      GENERATE(counted(true), hot(1.5), natural(), dropping(1.25, false, DropBy::probabilities),
               of_microbatch(0.75, true, DropBy::probabilities));
  base = with(base, routing);
  base.dispatch = GENERATE(Dispatch::alltoall, Dispatch::allgather, Dispatch::deepep);
  for (RecomputePolicy const& policy : policies()) {
    CAPTURE(policy.modules);
    TrainingConfig again = base;
    again.recompute = {policy};
    require_close(base, again, 0);
  }
}

TEST_CASE("tokens reach all ranks that share the weights of their experts", "[routing]") {
  TrainingConfig const base = with(small_mixture(Precision::fp64), natural());
  for (Layout const& layout : spread_layouts()) {
    for (Dispatch const dispatch : {Dispatch::allgather, Dispatch::deepep}) {
      CAPTURE(layout.name, name_of(dispatch));
      TrainingConfig split = with(base, layout);
      split.dispatch = dispatch;
      require_close(base, split, 1e-12);
      TrainingConfig again = split;
      again.recompute = {selective({"moe"})};
      require_close(split, again, 0);
    }
  }
}

/// Rows that the experts of each rank compute in each layer and microbatch, as executed.
class RowsSeen {
 public:
  OpObserver observer() {
    return [this](RankContext const& context, Op const& op, KernelCall const& call) {
      if (op.kind != OpKind::grouped_gemm || op.phase != Phase::forward) return;
      Operand const& counts = call.reads[2];
      auto const* const first = static_cast<std::int32_t const*>(counts.data);
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < counts.shape.elements(); ++i) sum += first[i];
      std::scoped_lock const lock{mutex_};
      rows_[{context.rank.value(), call.draw.layer, call.draw.microbatch}] = sum;
      room_[{context.rank.value(), call.draw.layer, call.draw.microbatch}] = call.reads[0].shape[0];
    };
  }
  using Key = std::tuple<int, std::int64_t, std::int64_t>;
  std::map<Key, std::int64_t> const& rows() const { return rows_; }
  std::map<Key, std::int64_t> const& room() const { return room_; }

 private:
  std::mutex mutex_;
  std::map<Key, std::int64_t> rows_;
  std::map<Key, std::int64_t> room_;
};

TEST_CASE("experts compute the rows that a file gives them", "[routing]") {
  // Two replicas of one rank, of which each has half of the experts: a rank's rows are those of its
  // two experts, from both replicas. Replica 0 has microbatches 0 and 1, replica 1 has 2 and 3.
  TrainingConfig const config =
      with(with(small_mixture(Precision::fp64), counted(true)), Layout{"", of(1, 1, 2, 2)});
  RowsSeen seen;
  SmallRun run;
  run.options.on_op = seen.observer();
  execute(config, run);
  REQUIRE(seen.rows().at({0, 0, 0}) == 16 + 9 + 3 + 4);  // with microbatch 2
  REQUIRE(seen.rows().at({1, 0, 2}) == 4 + 3 + 9 + 16);
  REQUIRE(seen.rows().at({0, 0, 1}) == 2 * (16 + 9));  // with microbatch 3
  REQUIRE(seen.rows().at({1, 1, 2}) == 2 * (0 + 16));
  REQUIRE(seen.rows().at({0, 3, 0}) == 10 + 10 + 1 + 2);
  REQUIRE(seen.rows().at({1, 3, 3}) == 15 + 14 + 16 + 0);
  REQUIRE(seen.rows() == seen.room());
}

TEST_CASE("the first rank of an expert group computes as many more rows as the factor says",
          "[routing]") {
  // 16 tokens x 2 choices x 2 replicas / 2 ranks = 32 rows if they are balanced.
  TrainingConfig const config =
      with(with(small_mixture(Precision::fp64), hot(1.5)), Layout{"", of(1, 1, 2, 2)});
  RowsSeen seen;
  SmallRun run;
  run.options.on_op = seen.observer();
  execute(config, run);
  REQUIRE(seen.rows().at({0, 2, 0}) == 48);
  REQUIRE(seen.rows().at({1, 2, 3}) == 16);
  REQUIRE(seen.rows() == seen.room());
}

TEST_CASE("plans of uneven rows hold on every rank what is predicted, to the byte",
          "[routing][long]") {
  int compared = 0;
  std::vector<RecomputePolicy> const all = policies();
  std::size_t turn = 0;
  for (Precision const precision : {Precision::bf16, Precision::fp64}) {
    for (Routing const& routing :
         {Routing{}, counted(false), counted(true), hot(1.5), natural(),
          dropping(1.25, true, DropBy::probabilities), dropping(1.25, false, DropBy::probabilities),
          dropping(1, false, DropBy::position), of_microbatch(0.75, true, DropBy::probabilities),
          of_microbatch(1, false, DropBy::position)}) {
      std::vector<Layout> every = layouts();
      for (Layout const& layout : spread_layouts()) every.push_back(layout);
      for (Layout const& layout : every) {
        bool const fits = !routing.factor || *routing.factor <= layout.parallel.expert;
        if (!fits) continue;
        TrainingConfig config = with(with(small_mixture(precision), routing), layout);
        config.recompute = {all[turn++ % all.size()]};
        if (turn % 3 == 0) config.dispatch = Dispatch::allgather;
        if (turn % 3 == 1) config.dispatch = Dispatch::deepep;
        CAPTURE(layout.name, to_json(routing).dump(), turn);
        require_predicted_bytes(config);
        ++compared;
      }
    }
  }
  REQUIRE(compared >= 330);
}

TEST_CASE("the fullest and the emptiest rank of a stage are those that execute so", "[routing]") {
  TrainingConfig const config =
      with(with(small_mixture(Precision::fp32), hot(1.5)), Layout{"", of(1, 1, 2, 2)});
  Simulation const predicted =
      simulate(make_plan(as_settled(completed(config))), invented_system());
  std::vector<RankReport> const ranks = execute(config).ranks;
  auto const held = [](CategoryBytes bytes) {
    bytes[Category::workspace] = 0;
    return bytes.sum();
  };
  StageResult const& stage = predicted.stages.front();
  REQUIRE(stage.ranks->distinct == 2);
  REQUIRE(stage.ranks->fullest == 0);
  REQUIRE(stage.ranks->emptiest == 1);
  REQUIRE(held(stage.at_peak) == held(ranks[0].at_peak));
  REQUIRE(stage.ranks->least - stage.at_peak[Category::workspace] == held(ranks[1].at_peak));
  REQUIRE(held(ranks[1].at_peak) < held(ranks[0].at_peak));
}

TEST_CASE("training with a router that chooses freely lowers the loss, in all layouts alike",
          "[routing]") {
  TrainingConfig config = with(small_mixture(Precision::fp32), natural());
  config.model.vocabulary = 256;
  config.training.learning_rate = 3e-3;
  auto const text =
      file_tokens(std::string{STAGECRAFT_SOURCE_DIR} + "/README.md", 256, config.model.sequence);
  SmallRun const run{.options = {.steps = 50}, .gemm = GemmKind::openblas, .tokens = text.get()};
  std::vector<StepReport> const one = execute(config, run).steps;
  REQUIRE(one.back().loss < one.front().loss - 1);
  std::vector<StepReport> const four = execute(with(config, Layout{"", of(2, 1, 2, 4)}), run).steps;
  REQUIRE(four.front().loss == Approx(one.front().loss).epsilon(1e-5));
  REQUIRE(four.back().loss < one.front().loss - 1);
}

}  // namespace
}  // namespace stagecraft::routing_test
