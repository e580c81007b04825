#include "libsim/fit/least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "libsim/fit/symmetric_matrix.hpp"
#include "libsim/validation/prediction_errors.hpp"

namespace stagecraft {
namespace {

constexpr double huber_noises = 1.345;  ///< 95 % as efficient as squares if errors are normal
constexpr double normal_by_median = 1.4826;
constexpr double least_noise = 0.005;

/// The point that a search has reached.
struct Point {
  std::vector<double> unknowns;
  std::vector<double> deviations;
};

/// Derivatives of the rows' deviations, by unknown.
using Jacobian = std::vector<std::vector<double>>;

double noise_of(LeastSquaresProblem const& problem, std::vector<double> const& deviations) {
  if (problem.noise > 0) return problem.noise;
  std::vector<double> used;
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    if (problem.weights[i] > 0) used.push_back(deviations[i]);
  }
  if (used.empty()) return least_noise;
  double const middle = quantile(used, 0.5);
  for (double& deviation : used) deviation = std::abs(deviation - middle);
  return std::max(least_noise, normal_by_median * quantile(std::move(used), 0.5));
}

/// Of a row in the sum of squares: its own weight, less if it is far off, over the noise's square.
std::vector<double> row_weights(LeastSquaresProblem const& problem,
                                std::vector<double> const& deviations,
                                double noise) {
  std::vector<double> weights = problem.weights;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    double const size = std::abs(deviations[i]) / noise;
    weights[i] *= std::min(1.0, huber_noises / std::max(size, 1e-300)) / (noise * noise);
  }
  return weights;
}

double cost_of(LeastSquaresProblem const& problem, Point const& point, double noise) {
  double sum = 0;
  for (std::size_t i = 0; i < point.deviations.size(); ++i) {
    double const size = std::abs(point.deviations[i]) / noise;
    double const rho =
        size <= huber_noises ? size * size / 2 : huber_noises * (size - huber_noises / 2);
    sum += problem.weights[i] * rho;
  }
  for (double const z : point.unknowns) sum += z * z / 2;
  return sum;
}

Jacobian jacobian_at(LeastSquaresProblem const& problem, Point const& point) {
  Jacobian jacobian;
  for (std::size_t k = 0; k < point.unknowns.size(); ++k) {
    std::vector<double> moved = point.unknowns;
    bool const is_at_top = moved[k] + problem.steps[k] > problem.most[k];
    double const step = is_at_top ? -problem.steps[k] : problem.steps[k];
    moved[k] += step;
    std::vector<double> column = problem.deviations(moved);
    for (std::size_t i = 0; i < column.size(); ++i) {
      column[i] = (column[i] - point.deviations[i]) / step;
    }
    jacobian.push_back(std::move(column));
  }
  return jacobian;
}

/// The curvature of the cost, the prior's included.
SymmetricMatrix curvature_of(Jacobian const& jacobian, std::vector<double> const& weights) {
  std::size_t const count = jacobian.size();
  SymmetricMatrix curvature(count, std::vector<double>(count, 0.0));
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      for (std::size_t i = 0; i < weights.size(); ++i) {
        curvature[a][b] += weights[i] * jacobian[a][i] * jacobian[b][i];
      }
    }
    curvature[a][a] += 1;
  }
  return curvature;
}

std::vector<double> gradient_of(Jacobian const& jacobian,
                                std::vector<double> const& weights,
                                Point const& point) {
  std::vector<double> gradient = point.unknowns;
  for (std::size_t k = 0; k < jacobian.size(); ++k) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      gradient[k] += weights[i] * jacobian[k][i] * point.deviations[i];
    }
  }
  return gradient;
}

/// A step downhill from `point` that lowers the cost; the point itself if there is none.
Point step_from(LeastSquaresProblem const& problem,
                Point const& point,
                SymmetricMatrix const& curvature,
                std::vector<double> const& gradient,
                double noise) {
  double const before = cost_of(problem, point, noise);
  constexpr int tries = 7;  // up to a damping of 1000
  double damping = 1e-3;
  for (int i = 0; i < tries; ++i, damping *= 10) {
    SymmetricMatrix damped = curvature;
    for (std::size_t k = 0; k < damped.size(); ++k) damped[k][k] *= 1 + damping;
    std::vector<double> const move = product_of(inverse_of(std::move(damped)), gradient);
    Point next{point.unknowns, {}};
    for (std::size_t k = 0; k < move.size(); ++k) {
      next.unknowns[k] = std::clamp(point.unknowns[k] - move[k], problem.least[k], problem.most[k]);
    }
    next.deviations = problem.deviations(next.unknowns);
    if (cost_of(problem, next, noise) < before) return next;
  }
  return point;
}

double distance(Point const& a, Point const& b) {
  double largest = 0;
  for (std::size_t k = 0; k < a.unknowns.size(); ++k) {
    largest = std::max(largest, std::abs(a.unknowns[k] - b.unknowns[k]));
  }
  return largest;
}

/// Covariance of the unknowns if each source errs as a whole.
SymmetricMatrix covariance_by_source(LeastSquaresProblem const& problem,
                                     Jacobian const& jacobian,
                                     std::vector<double> const& weights,
                                     std::vector<double> const& deviations,
                                     SymmetricMatrix const& covariance) {
  std::size_t const count = jacobian.size();
  std::map<std::size_t, std::vector<double>> scores;
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    if (problem.weights[i] == 0) continue;
    auto& score = scores.try_emplace(problem.sources[i], count, 0.0).first->second;
    for (std::size_t k = 0; k < count; ++k) score[k] += weights[i] * jacobian[k][i] * deviations[i];
  }
  auto const groups = static_cast<double>(scores.size());
  double const few = groups > 1 ? groups / (groups - 1) : 1;
  SymmetricMatrix spread(count, std::vector<double>(count, 0.0));
  for (std::size_t a = 0; a < count; ++a) {
    for (auto const& [source, score] : scores) {
      for (std::size_t b = 0; b < count; ++b) spread[a][b] += few * score[a] * score[b];
    }
    spread[a][a] += 1;  // the prior's own
  }
  return sandwich_of(covariance, spread);
}

}  // namespace

LeastSquaresSolution solve(LeastSquaresProblem const& problem, std::vector<double> start) {
  constexpr int most_steps = 20;
  constexpr double least_move = 2e-3;  // of a prior's standard deviation
  Point point{std::move(start), {}};
  point.deviations = problem.deviations(point.unknowns);
  for (int step = 0; step < most_steps && !point.unknowns.empty(); ++step) {
    double const noise = noise_of(problem, point.deviations);
    std::vector<double> const weights = row_weights(problem, point.deviations, noise);
    Jacobian const jacobian = jacobian_at(problem, point);
    Point next = step_from(problem, point, curvature_of(jacobian, weights),
                           gradient_of(jacobian, weights, point), noise);
    double const moved = distance(next, point);
    point = std::move(next);
    if (moved < least_move) break;
  }
  LeastSquaresSolution solution;
  solution.noise = noise_of(problem, point.deviations);
  std::vector<double> const weights = row_weights(problem, point.deviations, solution.noise);
  Jacobian const jacobian = jacobian_at(problem, point);
  SymmetricMatrix const covariance = inverse_of(curvature_of(jacobian, weights));
  SymmetricMatrix const by_source =
      covariance_by_source(problem, jacobian, weights, point.deviations, covariance);
  std::size_t const count = point.unknowns.size();
  solution.correlations = covariance;
  for (std::size_t a = 0; a < count; ++a) {
    solution.standard_errors.push_back(std::sqrt(std::max(covariance[a][a], by_source[a][a])));
    for (std::size_t b = 0; b < count; ++b) {
      solution.correlations[a][b] /= std::sqrt(covariance[a][a] * covariance[b][b]);
    }
  }
  solution.unknowns = std::move(point.unknowns);
  solution.deviations = std::move(point.deviations);
  return solution;
}

}  // namespace stagecraft
