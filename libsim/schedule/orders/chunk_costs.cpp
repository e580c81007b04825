#include "libsim/schedule/orders/chunk_costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

constexpr double smallest_cost = 1e-100;  ///< other than 0; the scale below stays finite
constexpr double largest_cost = 1e100;

}  // namespace

double ChunkCosts::of(Pass pass) const {
  switch (pass) {
    case Pass::backward:
      return backward;
    case Pass::input_gradient:
      return input_gradient;
    case Pass::weight_gradient:
      return weight_gradient;
    case Pass::forward:
    case Pass::recompute:
      break;
  }
  return forward;
}

void check_costs(ChunkCosts const& costs) {
  for (double const cost : {costs.forward, costs.backward, costs.transfer, costs.input_gradient,
                            costs.weight_gradient}) {
    bool const is_accepted = cost == 0 || (cost >= smallest_cost && cost <= largest_cost);
    if (!is_accepted) {  // also when it is not a number
      throw ScheduleError{"costs", fmt::format("'{:g}'", cost),
                          fmt::format("0, or {:g} to {:g}", smallest_cost, largest_cost)};
    }
  }
  if (costs.forward + costs.backward == 0) {
    throw ScheduleError{"costs", "forward and backward '0'", "at least one above 0"};
  }
}

CostTicks::CostTicks(ChunkCosts const& costs, double operations)
    : scale_{std::pow(
          10.0,
          std::floor(std::log10(std::min(1e12, 4e18 / operations) /
                                std::max({costs.forward, costs.backward, costs.transfer,
                                          costs.input_gradient, costs.weight_gradient}))))} {}

SimTime CostTicks::of(double cost) const { return SimTime{std::llround(cost * scale_)}; }

}  // namespace stagecraft
