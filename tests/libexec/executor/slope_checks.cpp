#include "tests/libexec/executor/slope_checks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "libexec/backends/numbers.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"

namespace stagecraft {

double loss_beside(TrainingConfig const& config,
                   std::string const& name,
                   std::size_t element,
                   double by) {
  SmallRun run;
  run.options.before_first = [&](RankContext const& context, RankExecutor& executor) {
    ParameterStore& store = executor.parameters();
    for (PlacedParameter const& placed : store.layout()) {
      if (placed.name() != name) continue;
      FlatRange const range = store.weights().part(placed.offset, placed.elements());
      std::vector<std::byte> bytes(static_cast<std::size_t>(range.elements * 8));
      context.backend.read(bytes.data(), range.data, bytes.size());
      std::vector<double> values = decode(bytes, range.type);
      values[element] += by;
      store.set(context.backend, placed, values);
    }
  };
  return execute(config, run).steps.front().loss;
}

int require_slopes(TrainingConfig const& config,
                   std::function<bool(std::string const&)> const& is_meant) {
  constexpr double step = 1e-4;
  int compared = 0;
  for (WholeTensor const& gradient : gradients_of(config)) {
    if (!is_meant(gradient.name)) continue;
    CAPTURE(gradient.name);
    ++compared;
    std::size_t const count = gradient.values.size();
    double largest = 0;
    for (double const value : gradient.values) largest = std::max(largest, std::abs(value));
    REQUIRE(largest > 1e-9);
    for (std::size_t const i : {std::size_t{0}, count / 3, 2 * count / 3, count - 1}) {
      CAPTURE(i);
      double const slope = (loss_beside(config, gradient.name, i, step) -
                            loss_beside(config, gradient.name, i, -step)) /
                           (2 * step);
      REQUIRE(gradient.values[i] == Approx(slope).margin(1e-5 * largest).epsilon(1e-6));
    }
  }
  return compared;
}

void require_predicted_bytes(TrainingConfig const& config) {
  Simulation const predicted =
      simulate(make_plan(as_settled(completed(config))), invented_system());
  for (RankReport const& rank : execute(config, {.gemm = GemmKind::openblas}).ranks) {
    StageResult const& stage = predicted.stages[rank.stage.index()];
    for (int i = 0; i < category_count; ++i) {
      auto const category = static_cast<Category>(i);
      CAPTURE(name_of(category));
      if (category == Category::workspace) continue;
      CHECK(rank.at_peak[category] == stage.at_peak[category]);
    }
    CHECK(rank.activation_peak == stage.activation_peak);
  }
}

}  // namespace stagecraft
