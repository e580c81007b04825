#include "tests/libexec/executor/equal_runs.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft {

TrainingConfig untied(TrainingConfig config) {
  config.model.tied_embeddings = false;
  return config;
}

void require_same_bits(TrainingConfig const& a, TrainingConfig const& b) {
  SmallRun const run{.options = {.steps = 3}};
  std::vector<StepReport> const first = execute(a, run).steps;
  std::vector<StepReport> const second = execute(b, run).steps;
  for (std::size_t i = 0; i < first.size(); ++i) {
    REQUIRE(first[i].loss == second[i].loss);
    REQUIRE(first[i].gradient_norm == second[i].gradient_norm);
  }
  std::vector<WholeTensor> const x = parameters_after(a, 3);
  std::vector<WholeTensor> const y = parameters_after(b, 3);
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i].name);
    REQUIRE(x[i].name == y[i].name);
    REQUIRE(x[i].values == y[i].values);
  }
}

void require_close(TrainingConfig const& a, TrainingConfig const& b, double tolerance) {
  std::vector<WholeTensor> const x = gradients_of(a);
  std::vector<WholeTensor> const y = gradients_of(b);
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i].name);
    REQUIRE(x[i].name == y[i].name);
    REQUIRE(x[i].values.size() == y[i].values.size());
    double difference = 0;
    double norm = 0;
    for (std::size_t j = 0; j < x[i].values.size(); ++j) {
      difference += std::pow(x[i].values[j] - y[i].values[j], 2);
      norm += std::pow(x[i].values[j], 2);
    }
    REQUIRE(norm > 0);
    REQUIRE(std::sqrt(difference) <= tolerance * std::sqrt(norm));
  }
}

}  // namespace stagecraft
