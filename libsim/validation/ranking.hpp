#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace stagecraft {

/// Times of runs that compete, in two vectors of one length.
struct CompetingRuns {
  std::vector<double> predicted;
  std::vector<double> measured;
};

/// Fewer runs say little about how well runs are ranked.
inline constexpr std::size_t fewest_ranked_runs = 8;

/// What following the prediction costs: the measured time of the run that is predicted fastest (of
/// equals the first), over the least measured time, minus 1. Pre: not empty.
double regret(CompetingRuns const& runs);

/// The correlation of the ranks of predicted and measured times, -1 to 1. nullopt if all predicted
/// or all measured times are equal.
/// Source: Spearman 1904; equal values have the average of their ranks.
std::optional<double> rank_correlation(CompetingRuns const& runs);

/// The rank of each value, from 1; equal values have the average of their ranks.
std::vector<double> average_ranks(std::vector<double> const& values);

}  // namespace stagecraft
