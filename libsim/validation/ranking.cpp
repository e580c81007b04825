#include "libsim/validation/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stagecraft {

double regret(CompetingRuns const& runs) {
  auto const chosen = std::min_element(runs.predicted.begin(), runs.predicted.end());
  auto const index = static_cast<std::size_t>(chosen - runs.predicted.begin());
  return runs.measured[index] / *std::min_element(runs.measured.begin(), runs.measured.end()) - 1;
}

std::vector<double> average_ranks(std::vector<double> const& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    double const average = (static_cast<double>(begin + 1) + static_cast<double>(end)) / 2;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = average;
    begin = end;
  }
  return ranks;
}

std::optional<double> rank_correlation(CompetingRuns const& runs) {
  std::vector<double> const a = average_ranks(runs.predicted);
  std::vector<double> const b = average_ranks(runs.measured);
  double const middle = (static_cast<double>(a.size()) + 1) / 2;
  double product = 0;
  double square_a = 0;
  double square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += (a[i] - middle) * (b[i] - middle);
    square_a += (a[i] - middle) * (a[i] - middle);
    square_b += (b[i] - middle) * (b[i] - middle);
  }
  if (square_a == 0 || square_b == 0) return std::nullopt;
  return product / std::sqrt(square_a * square_b);
}

}  // namespace stagecraft
