#include "libsim/fit/fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/option_problem.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/fit/fit_data.hpp"
#include "libsim/fit/least_squares.hpp"
#include "libsim/hardware/tunable_constants.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

namespace {

/// How far a constant may be from its value before any run was measured: the standard deviation of
/// its logarithm, by what the constant is of. Used for constants that give no `spread`.
///
/// Matrix products and attention 3.2 % (2.5 % between shapes, 2 % in common), other kernels 4 %,
/// collectives within a node 5 %, the network 15 %, whatever the host does and fixed costs 20 %,
/// shares that overlap 29 % (a hidden part that is anything from none to all), the stack's factor
/// 10 % (what releases of one stack differ by).
/// Sources: the products' 2.5 % are what a good heuristic errs by over shapes; stacks differ by 0
/// to 7 % between releases of half a year (NVIDIA, dgxc-benchmarking); the rest are guesses of this
/// size.
double default_spread(std::string_view key) {
  constexpr double host = 0.20;
  // The first part of a key's name that is found decides.
  constexpr std::array<std::pair<std::string_view, double>, 11> spreads{{
      {"software.factor", 0.10},
      {"_slowdown", 0.29},
      {"calibration.gemm_tile_prologue", host},
      {"calibration.gemm_", 0.032},
      {"calibration.flash_", 0.032},
      {"calibration.stream_", 0.04},
      {"calibration.dropout_", 0.04},
      {"accelerator.", 0.04},
      {"software.kernels.", 0.04},
      {"system.node.", 0.05},
      {"system.network.", 0.15},
  }};
  for (auto const& [part, spread] : spreads) {
    if (key.find(part) != std::string_view::npos) return spread;
  }
  return host;
}

TunableConstant const* find_key(std::vector<TunableConstant> const& constants,
                                std::string const& key) {
  auto const found = std::find_if(constants.begin(), constants.end(),
                                  [&](TunableConstant const& one) { return one.key() == key; });
  return found == constants.end() ? nullptr : &*found;
}

void set_constant(std::vector<TunableConstant> const& constants,
                  ConstantChoice const& choice,
                  double value) {
  TunableConstant const* const leader = find_key(constants, choice.key);
  if (leader == nullptr) return;
  double const scale = value / leader->value();
  leader->set_value(value);
  for (std::string const& key : choice.followers) {
    if (TunableConstant const* const follower = find_key(constants, key)) {
      follower->set_value(
          std::clamp(follower->value() * scale, follower->least(), follower->most()));
    }
  }
}

Problem refused_key(std::string const& key, std::string accepted) {
  return option_problem("--constants", "'" + printable(key) + "'", std::move(accepted));
}

bool follows_another(TunableConstant const& constant,
                     std::vector<TunableConstant> const& constants) {
  std::string const leader = leader_of(constant);
  return !leader.empty() && find_key(constants, leader) != nullptr;
}

std::vector<std::string> keys_marked(std::vector<TunableConstant> const& constants,
                                     std::vector<std::string>& left_out) {
  std::vector<std::string> keys;
  int of_stack = 0;
  int of_system = 0;
  for (TunableConstant const& constant : constants) {
    if (constant.fitted().empty() || constant.value() == 0) continue;
    if (follows_another(constant, constants)) continue;
    if (constant.key() == "system.node.host_adam") continue;  // matters only to runs that offload
    bool const is_of_stack = constant.key().starts_with("software.");
    int& count = is_of_stack ? of_stack : of_system;
    bool const is_one_too_many =
        count == (is_of_stack ? most_stack_constants : most_system_constants);
    (is_one_too_many ? left_out : keys).push_back(constant.key());
    if (!is_one_too_many) ++count;
  }
  return keys;
}

/// Constants as the unknowns of a least-squares problem.
class Unknowns {
 public:
  Unknowns(FitData const& data, std::vector<ConstantChoice> const& choices) : choices_{choices} {
    System system = data.system;
    std::vector<TunableConstant> const constants = tunable_constants(system);
    for (ConstantChoice const& choice : choices) {
      TunableConstant const& constant = *find_key(constants, choice.key);
      FittedConstant& fitted = constants_.emplace_back();
      fitted.choice = choice;
      fitted.unit = constant.unit();
      fitted.value = constant.value();
      fitted.prior = constant.value();
      fitted.spread = constant.spread() > 0 ? constant.spread() : default_spread(choice.key);
      least_.push_back(std::log(constant.least() / fitted.prior) / fitted.spread);
      most_.push_back(std::log(constant.most() / fitted.prior) / fitted.spread);
    }
  }

  std::vector<FittedConstant> const& constants() const { return constants_; }
  double least(std::size_t k) const { return std::min(least_[k], 0.0); }
  double most(std::size_t k) const { return std::max(most_[k], 0.0); }
  /// A change of 1 % of the value.
  double step(std::size_t k) const { return std::log(1.01) / constants_[k].spread; }
  double value(std::size_t k, double unknown) const {
    return constants_[k].prior * std::exp(unknown * constants_[k].spread);
  }
  void apply(std::size_t k, double unknown, std::vector<TunableConstant> const& system) const {
    set_constant(system, choices_[k], value(k, unknown));
  }

 private:
  std::vector<ConstantChoice> const& choices_;
  std::vector<FittedConstant> constants_;
  std::vector<double> least_;
  std::vector<double> most_;
};

/// Predicts all runs again and again, each time with a copy of the systems in which only the chosen
/// unknowns are changed. Counts its predictions, for the progress display.
class Predictor {
 public:
  Predictor(FitData const& data,
            Unknowns const& unknowns,
            int jobs,
            std::function<void(std::int64_t predictions)> progress)
      : data_{data}, unknowns_{unknowns}, jobs_{jobs}, progress_{std::move(progress)} {}

  /// ln(measured / predicted) of each run, if the unknowns `chosen` are `values`, and the others 0.
  std::vector<double> deviations(std::vector<std::size_t> const& chosen,
                                 std::vector<double> const& values) {
    std::vector<System> systems = data_.systems;
    for (System& system : systems) {
      std::vector<TunableConstant> const constants = tunable_constants(system);
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        unknowns_.apply(chosen[i], values[i], constants);
      }
    }
    std::vector<double> result(data_.runs.size());
    parallel_for(jobs_, data_.runs.size(), [&](std::size_t i) {
      MeasuredRun const& run = data_.runs[i];
      double const predicted =
          to_seconds(predict(as_settled(run.training), systems[run.system]).iteration);
      result[i] = std::log(run.seconds / predicted);
    });
    predictions_ += static_cast<std::int64_t>(result.size());
    progress_(predictions_);
    return result;
  }

 private:
  FitData const& data_;
  Unknowns const& unknowns_;
  int jobs_;
  std::function<void(std::int64_t predictions)> progress_;
  std::int64_t predictions_ = 0;
};

LeastSquaresProblem problem_of(FitData const& data,
                               Unknowns const& unknowns,
                               std::vector<std::size_t> const& chosen,
                               Predictor& predictor) {
  LeastSquaresProblem problem;
  problem.deviations = [&](std::vector<double> const& values) {
    return predictor.deviations(chosen, values);
  };
  std::map<std::string, std::size_t> sources;
  for (MeasuredRun const& run : data.runs) {
    problem.weights.push_back(run.weight);
    problem.sources.push_back(sources.try_emplace(run.group, sources.size()).first->second);
  }
  for (std::size_t const k : chosen) {
    problem.least.push_back(unknowns.least(k));
    problem.most.push_back(unknowns.most(k));
    problem.steps.push_back(unknowns.step(k));
  }
  return problem;
}

PredictionErrors errors_of(std::vector<double> const& deviations) {
  std::vector<double> ratios;
  ratios.reserve(deviations.size());
  for (double const deviation : deviations) ratios.push_back(std::exp(-deviation));
  return prediction_errors(ratios);
}

/// Writes what a fit of all constants together says of them; returns those that are separable.
std::vector<std::size_t> judge(LeastSquaresSolution const& solution,
                               std::vector<std::size_t> const& chosen,
                               std::vector<FittedConstant>& constants) {
  std::vector<std::size_t> separable;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    FittedConstant& constant = constants[chosen[i]];
    constant.standard_error = solution.standard_errors[i];
    constant.separable = solution.standard_errors[i] <= separable_error;
    if (constant.separable) separable.push_back(chosen[i]);
    for (std::size_t j = 0; j < chosen.size(); ++j) {
      double const correlation = solution.correlations[i][j];
      if (j == i || std::abs(correlation) <= std::abs(constant.correlation)) continue;
      constant.correlation = correlation;
      constant.nearest = constants[chosen[j]].choice.key;
    }
  }
  return separable;
}

/// The standard error of an estimate by how much it moves if each part of the data is left out.
/// Source: Efron and Stein 1981, "The jackknife estimate of variance".
double jackknife_error(std::vector<double> const& without_each) {
  auto const count = static_cast<double>(without_each.size());
  double const mean = std::accumulate(without_each.begin(), without_each.end(), 0.0) / count;
  double squares = 0;
  for (double const one : without_each) squares += (one - mean) * (one - mean);
  return std::sqrt((count - 1) / count * squares);
}

std::map<int, std::set<std::string>> groups_by_fold(FitData const& data) {
  std::map<int, std::set<std::string>> folds;
  for (MeasuredRun const& run : data.runs) folds[fold_of(run.group)].insert(run.group);
  return folds;
}

}  // namespace

std::vector<ConstantChoice> choose_constants(System system,
                                             std::vector<std::string> const& keys,
                                             std::vector<std::string>& left_out) {
  std::vector<TunableConstant> const constants = tunable_constants(system);
  std::vector<std::string> chosen = keys.empty() ? keys_marked(constants, left_out) : keys;
  if (chosen.empty()) chosen.emplace_back(factor_key);
  std::vector<std::string> known;
  known.reserve(constants.size());
  for (TunableConstant const& constant : constants) known.push_back(constant.key());
  Diagnostics diagnostics;
  std::vector<ConstantChoice> choices;
  for (std::string const& key : chosen) {
    TunableConstant const* const constant = find_key(constants, key);
    if (constant == nullptr) {
      diagnostics.add(
          refused_key(key, "a constant with one number that the system or its stack gives" +
                               did_you_mean(key, known)));
    } else if (constant->value() == 0) {
      diagnostics.add(refused_key(key, "a constant that is not 0"));
    } else if (std::count(chosen.begin(), chosen.end(), key) > 1) {
      diagnostics.add(refused_key(key, "each constant once"));
    } else {
      ConstantChoice& choice = choices.emplace_back(ConstantChoice{key, {}});
      for (TunableConstant const& other : constants) {
        bool const is_named = std::find(chosen.begin(), chosen.end(), other.key()) != chosen.end();
        if (leader_of(other) == key && !is_named) choice.followers.push_back(other.key());
      }
    }
  }
  diagnostics.throw_if_any();
  return choices;
}

Fit fit(FitData const& data,
        std::vector<ConstantChoice> const& choices,
        int jobs,
        std::function<void(double share, std::int64_t predictions)> const& progress) {
  auto const folds = groups_by_fold(data);
  double const parts = 2.0 + static_cast<double>(folds.size());
  double part = 0;
  Unknowns const unknowns{data, choices};
  Predictor predictor{data, unknowns, jobs,
                      [&](std::int64_t predictions) { progress(part / parts, predictions); }};
  Fit result;
  result.constants = unknowns.constants();
  result.runs = data.runs.size();
  for (auto const& [fold, groups] : folds) result.groups += groups.size();

  std::vector<std::size_t> chosen(choices.size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  result.before = errors_of(predictor.deviations({}, {}));
  LeastSquaresSolution solution =
      solve(problem_of(data, unknowns, chosen, predictor), std::vector<double>(chosen.size(), 0.0));
  std::vector<std::size_t> const separable = judge(solution, chosen, result.constants);
  part = 1;
  if (separable.size() < chosen.size()) {
    chosen = separable;
    solution = solve(problem_of(data, unknowns, chosen, predictor),
                     std::vector<double>(chosen.size(), 0.0));
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    result.constants[chosen[i]].value = unknowns.value(chosen[i], solution.unknowns[i]);
  }
  for (FittedConstant& constant : result.constants) {
    constant.standard_error *= constant.spread * constant.value;
  }
  result.after = errors_of(solution.deviations);
  result.noise = solution.noise;
  part = 2;
  if (folds.size() < 2) return result;

  std::vector<double> all;
  std::vector<std::vector<double>> without_each(chosen.size());  // by constant, of each fold
  for (auto const& [fold, groups] : folds) {
    LeastSquaresProblem problem = problem_of(data, unknowns, chosen, predictor);
    for (std::size_t i = 0; i < data.runs.size(); ++i) {
      if (groups.contains(data.runs[i].group)) problem.weights[i] = 0;
    }
    LeastSquaresSolution const without = solve(problem, solution.unknowns);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      without_each[i].push_back(without.unknowns[i]);
    }
    std::vector<double> held_out;
    for (std::size_t i = 0; i < data.runs.size(); ++i) {
      if (groups.contains(data.runs[i].group)) held_out.push_back(without.deviations[i]);
    }
    all.insert(all.end(), held_out.begin(), held_out.end());
    result.folds.push_back({.fold = fold,
                            .groups = {groups.begin(), groups.end()},
                            .runs = held_out.size(),
                            .errors = errors_of(held_out)});
    part += 1;
  }
  result.held_out = errors_of(all);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    FittedConstant& constant = result.constants[chosen[i]];
    double const by_folds = jackknife_error(without_each[i]) * constant.spread * constant.value;
    constant.standard_error = std::max(constant.standard_error, by_folds);
  }
  return result;
}

System fitted_system(System system, Fit const& fit, std::string const& provenance) {
  std::vector<TunableConstant> const constants = tunable_constants(system);
  for (FittedConstant const& fitted : fit.constants) {
    if (!fitted.separable) continue;
    set_constant(constants, fitted.choice, fitted.value);
    find_key(constants, fitted.choice.key)
        ->set_fitted(provenance + ", from a prior of " + decimals(fitted.prior, 6) + " +- " +
                     decimals(100 * fitted.spread, 0) + " %");
  }
  system.validated = false;
  return system;
}

}  // namespace stagecraft
