#include "libsim/fit/least_squares.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "libsim/validation/prediction_errors.hpp"

namespace stagecraft {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using RealVector = std::vector<double>;

constexpr double huber_noises = 1.345;  ///< 95 % as efficient as squares if errors are normal
constexpr double normal_by_median = 1.4826;
constexpr double least_noise = 0.005;

Eigen::Map<VectorXd const> eigen(RealVector const& values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}

/// The point that a search has reached.
struct Point {
  RealVector unknowns;
  RealVector deviations;
};

double noise_of(LeastSquaresProblem const& problem, RealVector const& deviations) {
  if (problem.noise > 0) return problem.noise;
  RealVector used;
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    if (problem.weights[i] > 0) used.push_back(deviations[i]);
  }
  if (used.empty()) return least_noise;
  double const middle = quantile(used, 0.5);
  for (double& deviation : used) deviation = std::abs(deviation - middle);
  return std::max(least_noise, normal_by_median * quantile(std::move(used), 0.5));
}

/// The weight of each row in the sum of squares: its own weight, less if the row is far off,
/// divided by the square of the noise.
VectorXd row_weights(LeastSquaresProblem const& problem,
                     RealVector const& deviations,
                     double noise) {
  auto const sizes = (eigen(deviations).array().abs() / noise).max(1e-300);
  return eigen(problem.weights).array() * (huber_noises / sizes).min(1.0) / (noise * noise);
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

/// The derivatives of the deviations: a row for each row of the problem, a column per unknown.
MatrixXd jacobian_at(LeastSquaresProblem const& problem, Point const& point) {
  MatrixXd jacobian(point.deviations.size(), point.unknowns.size());
  for (std::size_t k = 0; k < point.unknowns.size(); ++k) {
    RealVector moved = point.unknowns;
    bool const is_at_top = moved[k] + problem.steps[k] > problem.most[k];
    double const step = is_at_top ? -problem.steps[k] : problem.steps[k];
    moved[k] += step;
    jacobian.col(static_cast<Eigen::Index>(k)) =
        (eigen(problem.deviations(moved)) - eigen(point.deviations)) / step;
  }
  return jacobian;
}

/// The curvature of the cost; the prior adds 1 to each unknown.
MatrixXd curvature_of(MatrixXd const& jacobian, VectorXd const& weights) {
  MatrixXd curvature = jacobian.transpose() * weights.asDiagonal() * jacobian;
  curvature.diagonal().array() += 1;
  return curvature;
}

/// A step downhill from `point` that lowers the cost; the point itself if there is none.
Point step_from(LeastSquaresProblem const& problem, Point const& point, double noise) {
  VectorXd const weights = row_weights(problem, point.deviations, noise);
  MatrixXd const jacobian = jacobian_at(problem, point);
  MatrixXd const curvature = curvature_of(jacobian, weights);
  VectorXd const gradient =
      eigen(point.unknowns) + jacobian.transpose() * weights.cwiseProduct(eigen(point.deviations));
  double const before = cost_of(problem, point, noise);
  constexpr int tries = 7;  // up to a damping of 1000
  double damping = 1e-3;
  for (int i = 0; i < tries; ++i, damping *= 10) {
    MatrixXd damped = curvature;
    damped.diagonal() *= 1 + damping;
    VectorXd const unknowns = (eigen(point.unknowns) - damped.ldlt().solve(gradient))
                                  .cwiseMax(eigen(problem.least))
                                  .cwiseMin(eigen(problem.most));
    Point next{{unknowns.begin(), unknowns.end()}, {}};
    next.deviations = problem.deviations(next.unknowns);
    if (cost_of(problem, next, noise) < before) return next;
  }
  return point;
}

/// Covariance of the unknowns if each source errs as a whole.
MatrixXd covariance_by_source(LeastSquaresProblem const& problem,
                              MatrixXd const& jacobian,
                              VectorXd const& weights,
                              RealVector const& deviations,
                              MatrixXd const& covariance) {
  std::map<std::size_t, VectorXd> scores;
  for (std::size_t i = 0; i < deviations.size(); ++i) {
    if (problem.weights[i] == 0) continue;
    auto const row = static_cast<Eigen::Index>(i);
    VectorXd& score =
        scores.try_emplace(problem.sources[i], VectorXd::Zero(jacobian.cols())).first->second;
    score += weights[row] * deviations[i] * jacobian.row(row).transpose();
  }
  auto const groups = static_cast<double>(scores.size());
  double const few = groups > 1 ? groups / (groups - 1) : 1;
  MatrixXd spread = MatrixXd::Identity(jacobian.cols(), jacobian.cols());  // the prior's own
  for (auto const& [source, score] : scores) spread += few * score * score.transpose();
  return covariance * spread * covariance;
}

}  // namespace

LeastSquaresSolution solve(LeastSquaresProblem const& problem, std::vector<double> start) {
  constexpr int most_steps = 20;
  constexpr double least_move = 2e-3;  // of a prior's standard deviation
  Point point{std::move(start), {}};
  point.deviations = problem.deviations(point.unknowns);
  for (int step = 0; step < most_steps && !point.unknowns.empty(); ++step) {
    Point next = step_from(problem, point, noise_of(problem, point.deviations));
    double const moved = (eigen(next.unknowns) - eigen(point.unknowns)).cwiseAbs().maxCoeff();
    point = std::move(next);
    if (moved < least_move) break;
  }
  LeastSquaresSolution solution;
  solution.noise = noise_of(problem, point.deviations);
  VectorXd const weights = row_weights(problem, point.deviations, solution.noise);
  MatrixXd const jacobian = jacobian_at(problem, point);
  MatrixXd const covariance = curvature_of(jacobian, weights).inverse();
  MatrixXd const by_source =
      covariance_by_source(problem, jacobian, weights, point.deviations, covariance);
  VectorXd const errors = covariance.diagonal().cwiseMax(by_source.diagonal()).cwiseSqrt();
  solution.standard_errors.assign(errors.begin(), errors.end());
  VectorXd const scale = covariance.diagonal().cwiseSqrt().cwiseInverse();
  MatrixXd const correlations = scale.asDiagonal() * covariance * scale.asDiagonal();
  for (auto const& row : correlations.rowwise()) {
    solution.correlations.emplace_back(row.begin(), row.end());
  }
  solution.unknowns = std::move(point.unknowns);
  solution.deviations = std::move(point.deviations);
  return solution;
}

}  // namespace stagecraft
