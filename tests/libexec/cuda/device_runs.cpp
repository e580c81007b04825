#include "tests/libexec/cuda/device_runs.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

namespace stagecraft {
namespace {

double norm(std::vector<double> const& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

}  // namespace

SmallRun on_device(int steps) { return {.options = {.steps = steps}, .device = DeviceKind::cuda}; }

double device_tolerance(Precision precision) {
  switch (precision) {
    case Precision::fp64:
      return 1e-12;
    case Precision::fp32:
      return 1e-5;
    default:
      return 1e-2;
  }
}

double relative_distance(WholeTensor const& got, WholeTensor const& wanted) {
  std::vector<double> difference = got.values;
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= wanted.values[i];
  return norm(difference) / norm(wanted.values);
}

void require_close(std::vector<WholeTensor> const& got,
                   std::vector<WholeTensor> const& wanted,
                   double allowed) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(got[i].name);
    REQUIRE(got[i].name == wanted[i].name);
    REQUIRE(got[i].values.size() == wanted[i].values.size());
    REQUIRE(norm(wanted[i].values) > 0);
    REQUIRE(relative_distance(got[i], wanted[i]) <= allowed);
  }
}

void require_same_bits(std::vector<WholeTensor> const& a, std::vector<WholeTensor> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].name);
    bool const has_same_bits = a[i].values == b[i].values;
    REQUIRE(has_same_bits);
  }
}

void require_same_memory(TrainingConfig const& config) {
  auto const device = execute(config, on_device()).ranks;
  auto const cpu = execute(config).ranks;
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    CategoryBytes got = device[i].at_peak;
    CategoryBytes wanted = cpu[i].at_peak;
    got[Category::workspace] = 0;
    wanted[Category::workspace] = 0;
    REQUIRE(got == wanted);
    REQUIRE(device[i].activation_peak == cpu[i].activation_peak);
  }
}

}  // namespace stagecraft
