#include "libexec/executor/parameter_start.hpp"

#include <cmath>
#include <numbers>
#include <string_view>
#include <vector>

#include "libexec/backends/random_numbers.hpp"
#include "libexec/kernels/dropout.hpp"

namespace stagecraft {
namespace {

constexpr std::uint32_t stream = 0x1417a115U;  ///< differs from masks and data

/// FNV-1a. Source: Fowler, Noll, Vo; draft-eastlake-fnv.
std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

/// A normal number for each index of a tensor.
/// Source: Box and Muller 1958, "A note on the generation of random normal deviates".
class NormalNumbers {
 public:
  NormalNumbers(std::uint32_t seed, std::string_view tensor)
      : seed_{seed}, tensor_{hash_of(tensor)} {}

  double operator()(std::int64_t index) const {
    auto const i = static_cast<std::uint64_t>(index);
    PhiloxBlock const words = philox(
        {{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), tensor_, stream}},
        seed_, stream);
    double const u = (words.word[0] + 1.0) * 0x1p-32;  // in (0, 1]
    double const v = words.word[1] * 0x1p-32;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }

 private:
  std::uint32_t seed_;
  std::uint32_t tensor_;
};

/// The rank's part of a tensor.
std::vector<double> values_of(RankContext const& context, PlacedParameter const& placed) {
  TrainingConfig const& config = context.plan.config;
  std::vector<double> values(static_cast<std::size_t>(placed.elements()));
  ParameterWindow const window = context.window(placed);
  ParameterStart const start = placed.parameter->start;
  double deviation = config.training.init_std;
  if (start == ParameterStart::normal_output) {
    deviation /= std::sqrt(2.0 * static_cast<double>(config.model.layers));
  }
  NormalNumbers const normal{static_cast<std::uint32_t>(config.training.seed), placed.name()};
  for (RowRange const& rows : window.rows) {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      for (std::int64_t j = 0; j < window.columns; ++j) {
        std::int64_t const whole =
            (rows.whole + i) * window.whole_columns + window.first_column + j;
        double& value = values[static_cast<std::size_t>((rows.local + i) * window.columns + j)];
        switch (start) {
          case ParameterStart::normal:
          case ParameterStart::normal_output:
            value = deviation * normal(whole);
            break;
          case ParameterStart::zero:
            value = 0;
            break;
          case ParameterStart::one:
            value = 1;
            break;
        }
      }
    }
  }
  return values;
}

}  // namespace

void start_parameters(RankContext const& context, ParameterStore& store) {
  for (PlacedParameter const& placed : store.layout()) {
    store.set(context.backend, placed, values_of(context, placed));
  }
}

void fill_parameters(RankContext const& context, ParameterStore& store) {
  // Uniform numbers of this width have the standard deviation that parameters start with.
  double const width = 2 * std::sqrt(3.0) * context.plan.config.training.init_std;
  auto const fill = [&](FlatRange const& range) {
    RandomNumbers{range.type, stream, width}.write(context.backend, range.data, range.bytes());
  };
  fill(store.weights());
  if (!store.has_master()) return;
  for (auto const& run : store.owned()) fill(store.master(run));
}

}  // namespace stagecraft
