#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>

#include "libsim/sweep/evaluate_point.hpp"
#include "libsim/sweep/point_source.hpp"
#include "libsim/sweep/sweep_check.hpp"
#include "libsim/sweep/sweep_reader.hpp"

namespace stagecraft::sweep_configs_test {
namespace {

std::filesystem::path const sweeps =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs/sweeps";

std::int64_t saved_bytes_of(SweepRow const& row) {
  auto const columns = integer_columns();
  auto const found = std::find_if(columns.begin(), columns.end(), [](IntegerColumn const& column) {
    return column.name == "layer_saved_bytes";
  });
  return row.integers.at(static_cast<std::size_t>(found - columns.begin()));
}

}  // namespace

TEST_CASE("every sweep of configs/sweeps loads, and has no value that no point can have",
          "[sweep]") {
  int files = 0;
  for (auto const& entry : std::filesystem::directory_iterator{sweeps}) {
    CAPTURE(entry.path());
    Sweep const sweep = load_sweep(entry.path());
    REQUIRE(check_sweep(sweep).empty());
    REQUIRE(count_points(sweep, 2, [](double) {}) > 0);
    ++files;
  }
  REQUIRE(files >= 2);
}

TEST_CASE("configs/sweeps/strategies.yaml gives figure 7 of the paper", "[sweep]") {
  // Korthikanti et al. 2022, figure 7: activations in percent of the tensor-parallel baseline, by
  // the formulas of table 2, s = 2048, t = 8.
  std::map<std::string, std::map<std::string, double>> const published{
      {"22B", {{"sequence", 67}, {"selective", 49}, {"present", 16.14}, {"full", 7.6}}},
      {"175B", {{"sequence", 62}, {"selective", 56}, {"present", 18.5}, {"full", 8.7}}},
      {"530B", {{"sequence", 58}, {"selective", 62}, {"present", 20.24}, {"full", 9.52}}},
      {"1T", {{"sequence", 58}, {"selective", 62}, {"present", 20.24}, {"full", 9.52}}}};
  Sweep const sweep = load_sweep(sweeps / "strategies.yaml");
  REQUIRE(sweep.points == 20);
  std::map<std::string, std::map<std::string, double>> saved;
  for (std::int64_t point = 0; point < sweep.points; ++point) {
    std::vector<std::size_t> entries;
    choose_entries(sweep.axes, point, entries);
    SweepRow const row = evaluate_point(sweep, point);
    REQUIRE(row.is_valid);
    saved[sweep.axes[0].entries[entries[0]].label][sweep.axes[1].entries[entries[1]].label] =
        static_cast<double>(saved_bytes_of(row));
  }
  for (auto const& [size, percents] : published) {
    for (auto const& [strategy, percent] : percents) {
      CAPTURE(size, strategy);
      // Whole percents are read off the figure.
      REQUIRE(100 * saved[size][strategy] / saved[size]["baseline"] == Approx(percent).margin(0.6));
    }
  }
}

}  // namespace stagecraft::sweep_configs_test
