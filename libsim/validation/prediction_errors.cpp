#include "libsim/validation/prediction_errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace stagecraft {
namespace {

double mean_of(std::vector<double> const& values) {
  double sum = 0;
  for (double const value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

double quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  double const position = fraction * static_cast<double>(values.size() - 1);
  auto const below = static_cast<std::size_t>(position);
  std::size_t const above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

PredictionErrors prediction_errors(std::vector<double> const& ratios) {
  double const middle = quantile(ratios, 0.5);
  std::vector<double> errors;
  std::vector<double> deviations;
  errors.reserve(ratios.size());
  deviations.reserve(ratios.size());
  for (double const ratio : ratios) {
    errors.push_back(std::abs(ratio - 1));
    deviations.push_back(std::abs(ratio - middle));
  }
  return {.mean = mean_of(errors),
          .median = quantile(errors, 0.5),
          .p90 = quantile(errors, 0.9),
          .bias = middle - 1,
          .spread = mean_of(deviations)};
}

}  // namespace stagecraft
