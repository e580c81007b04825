#include "libsim/fit/fit.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "libsim/config/yaml_text.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/fit/fit_data.hpp"
#include "libsim/fit/fit_output.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/hardware/tunable_constants.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::fit_test {
namespace {

std::string const base_file =
    STAGECRAFT_SOURCE_DIR "/experiments/validation/vtrain-single-node.yaml";
using Values = std::map<std::string, std::string>;

/// Runs of different sizes and layouts, each in a group of its own width.
std::vector<std::vector<std::string>> layouts() {
  std::vector<std::vector<std::string>> rows;
  for (char const* const hidden : {"1024", "2048", "4096"}) {
    for (char const* const tensor : {"1", "2", "4"}) {
      for (char const* const micro : {"1", "2", "8"}) rows.push_back({hidden, tensor, micro});
    }
  }
  return rows;
}

std::vector<std::string> overrides_of(Values const& truth) {
  std::vector<std::string> overrides;
  for (auto const& [key, value] : truth) {
    bool const is_of_system = key.starts_with("system.");
    overrides.push_back(key + (is_of_system ? ".value=" : ".value=") + value);
  }
  return overrides;
}

/// A data file with times as predicted if the constants were `truth`. One time, of row `bad`, is
/// five times as long.
DataFile data_file(Values const& truth, std::size_t bad = 1000) {
  std::string text =
      "group,model.hidden,parallel.tensor,parallel.data,batch.micro,measured.iteration_seconds\n";
  std::size_t row = 0;
  for (auto const& cells : layouts()) {
    std::vector<std::string> overrides = overrides_of(truth);
    overrides.push_back("model.hidden=" + cells[0]);
    overrides.push_back("parallel.tensor=" + cells[1]);
    overrides.push_back("parallel.data=2");
    overrides.push_back("batch.micro=" + cells[2]);
    RunConfig const run = load_run_config(base_file, overrides);
    double seconds = to_seconds(predict(as_settled(run.training), run.system).iteration);
    if (row++ == bad) seconds *= 5;
    text += cells[0] + "-" + cells[1] + "," + cells[0] + "," + cells[1] + ",2," + cells[2] + "," +
            std::to_string(seconds) + "\n";
  }
  return DataFile{text, "synthetic.csv"};
}

FitData read_data(Values const& truth,
                  std::vector<std::string> const& overrides = {},
                  std::size_t bad = 1000) {
  std::vector<DataFile> files;
  files.push_back(data_file(truth, bad));
  return read_fit_data(files, load_run_variants(base_file, overrides), 2,
                       [](std::int64_t /*rows*/) {});
}

Fit fit_keys(FitData const& data, std::vector<std::string> const& keys) {
  std::vector<std::string> left_out;
  return fit(data, choose_constants(data.system, keys, left_out), 2,
             [](double /*share*/, std::int64_t /*predictions*/) {});
}

}  // namespace

TEST_CASE("a fit finds the constants with which the data were made", "[fit]") {
  FitData const data = read_data({{"system.calibration.gemm_efficiency", "0.7"},
                                  {"software.host.kernel", "60 us"},
                                  {"software.host.gemm", "60 us"},
                                  {"software.host.collective", "60 us"}});
  REQUIRE(data.runs.size() == layouts().size());
  Fit const result = fit_keys(data, {"system.calibration.gemm_efficiency", "software.host.kernel"});
  REQUIRE(result.constants[0].prior == 0.868);
  REQUIRE(result.constants[0].value == Approx(0.7).epsilon(0.01));
  REQUIRE(result.constants[1].choice.followers ==
          std::vector<std::string>{"software.host.gemm", "software.host.collective"});
  REQUIRE(result.constants[1].value == Approx(60e-6).epsilon(0.01));
  for (FittedConstant const& constant : result.constants) {
    REQUIRE(constant.separable);
    REQUIRE(constant.standard_error < 0.05 * constant.value);
  }
  REQUIRE(result.before.mean > 0.1);
  REQUIRE(result.after.mean < 0.005);
  REQUIRE(result.held_out->mean < 0.005);
  // The files that are written predict the same.
  System const system = fitted_system(data.system, result, provenance_text(result, {"data.csv"}));
  REQUIRE(system.calibration.gemm_efficiency.value == result.constants[0].value);
  REQUIRE(system.software.host.gemm.value.value == Approx(result.constants[1].value));
  REQUIRE_FALSE(system.validated);
  REQUIRE_THAT(system.calibration.gemm_efficiency.fitted,
               Catch::Contains("on 27 runs in 9 groups of data.csv") &&
                   Catch::Contains("from a prior of 0.868"));
  REQUIRE(system.calibration.stream_efficiency == data.system.calibration.stream_efficiency);
}

TEST_CASE("an outlier hardly moves a fit", "[fit]") {
  Values const truth{{"system.calibration.gemm_efficiency", "0.8"}};
  FitData const data = read_data(truth, {}, 20);
  Fit const result = fit_keys(data, {"system.calibration.gemm_efficiency"});
  REQUIRE(result.constants[0].value == Approx(0.8).epsilon(0.01));
}

TEST_CASE("constants that only their product counts of stay at their priors", "[fit]") {
  // All element-wise kernels run at bandwidth x stream_efficiency (no dropout in these runs).
  FitData const data =
      read_data({{"system.calibration.stream_efficiency", "0.8"}}, {"model.dropout=0"});
  Fit const both = fit_keys(data, {"system.calibration.stream_efficiency",
                                   "system.accelerator.bandwidth", "software.host.kernel"});
  REQUIRE_FALSE(both.constants[0].separable);
  REQUIRE_FALSE(both.constants[1].separable);
  REQUIRE(both.constants[2].separable);
  REQUIRE(both.constants[0].value == 0.85);
  REQUIRE(both.constants[1].value == 2039e9);
  REQUIRE(both.constants[0].nearest == "system.accelerator.bandwidth");
  REQUIRE(both.constants[0].correlation < -0.9);
  System const system = fitted_system(data.system, both, "by a test");
  REQUIRE(system.calibration.stream_efficiency == data.system.calibration.stream_efficiency);
}

TEST_CASE("a constant that no run depends on is not separable", "[fit]") {
  FitData const data = read_data({});
  Fit const result = fit_keys(data, {"system.network.latency"});
  REQUIRE_FALSE(result.constants[0].separable);
  REQUIRE(result.constants[0].standard_error ==
          Approx(result.constants[0].spread * result.constants[0].prior));
}

TEST_CASE("a constant that moves with the fold that is left out is no better known than that",
          "[fit]") {
  // The runs of one fold are slower than the constant explains. Each fit leaves another fold out.
  FitData data = read_data({{"software.host.kernel", "60 us"}});
  int const slow = fold_of(data.runs.front().group);
  for (MeasuredRun& run : data.runs) {
    if (fold_of(run.group) == slow) run.seconds *= 1.2;
  }
  Fit const all = fit_keys(data, {"software.host.kernel"});
  std::vector<double> logarithms;
  for (FitFold const& fold : all.folds) {
    FitData rest = data;
    std::erase_if(rest.runs,
                  [&](MeasuredRun const& run) { return fold_of(run.group) == fold.fold; });
    Fit const without = fit_keys(rest, {"software.host.kernel"});
    logarithms.push_back(std::log(without.constants[0].value));
  }
  auto const folds = static_cast<double>(logarithms.size());
  REQUIRE(folds >= 3);
  double mean = 0;
  for (double const one : logarithms) mean += one / folds;
  double squares = 0;
  for (double const one : logarithms) squares += (one - mean) * (one - mean);
  double const jackknife = std::sqrt((folds - 1) / folds * squares);
  REQUIRE(all.constants[0].standard_error >= 0.95 * jackknife * all.constants[0].value);
}

TEST_CASE("each group is held out once, whole, in the fold of its name", "[fit]") {
  FitData const data = read_data({});
  Fit const result = fit_keys(data, {"software.host.kernel"});
  std::size_t groups = 0;
  std::size_t runs = 0;
  for (FitFold const& fold : result.folds) {
    for (std::string const& group : fold.groups) REQUIRE(fold_of(group) == fold.fold);
    groups += fold.groups.size();
    runs += fold.runs;
  }
  REQUIRE(groups == 9);
  REQUIRE(runs == 27);
}

TEST_CASE("without names those marked as fitted are fitted, at most four and two", "[fit]") {
  System system = read_data({}).system;
  std::vector<std::string> left_out;
  std::vector<std::string> keys;
  for (ConstantChoice const& choice : choose_constants(system, {}, left_out)) {
    keys.push_back(choice.key);
  }
  for (std::string const& key : keys) {
    bool is_marked = false;
    for (TunableConstant const& constant : tunable_constants(system)) {
      is_marked = is_marked || (constant.key() == key && !constant.fitted().empty());
    }
    REQUIRE(is_marked);
  }
  REQUIRE(keys.size() <= most_stack_constants + most_system_constants);
}

TEST_CASE("what cannot be fitted is refused with the nearest key", "[fit]") {
  System const system = read_data({}).system;
  std::vector<std::string> left_out;
  REQUIRE_THROWS_WITH(choose_constants(system, {"software.host.kernal"}, left_out),
                      Catch::Contains("--constants: found 'software.host.kernal'") &&
                          Catch::Contains("did you mean 'software.host.kernel'?"));
  REQUIRE_THROWS_WITH(choose_constants(system, {"system.node.all_reduce"}, left_out),
                      Catch::Contains("a constant with one number"));
  REQUIRE_THROWS_WITH(
      choose_constants(system, {"software.host.kernel", "software.host.kernel"}, left_out),
      Catch::Contains("each constant once"));
}

TEST_CASE("rows of another stack, without a time, or with a problem are left out and counted",
          "[fit]") {
  std::vector<DataFile> files;
  files.emplace_back(
      "group,software,batch.micro,measured.iteration_seconds\n"
      "a,,2,1.0\na,nanotron,2,1.0\na,,2,\na,,7,1.0\n",
      "f.csv");
  FitData const data =
      read_fit_data(files, load_run_variants(base_file, {}), 2, [](std::int64_t /*rows*/) {});
  REQUIRE(data.rows == 4);
  REQUIRE(data.runs.size() == 1);
  REQUIRE(data.others == 1);
  REQUIRE(data.untimed == 1);
  REQUIRE(data.problems.rows.size() == 1);
}

}  // namespace stagecraft::fit_test
