#include "libsim/cost/gemm_time.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "libsim/units/divide_up.hpp"

namespace stagecraft {
namespace {

struct Tile {
  std::int64_t m, n;
  bool is_small;  ///< loses main-loop efficiency to operand traffic
};

constexpr std::array<Tile, 3> tiles{{{256, 128, false}, {128, 256, false}, {128, 128, true}}};

/// The tiles of a product, and the depths of their sums.
struct Cut {
  std::int64_t count = 0;
  double mean_depth = 0;
  double most_depth = 0;
};

Cut cut(GemmAttributes const& gemm, Tile const& tile) {
  GemmShape const& shape = gemm.shape;
  std::int64_t const columns = divide_up(shape.n, tile.n);
  std::int64_t const of_mean = divide_up(shape.m, tile.m) * columns;
  auto const depth = static_cast<double>(shape.k);
  if (gemm.rows == nullptr) return {shape.batch * of_mean, depth, depth};
  std::int64_t count = 0;
  double steps = 0;
  double most = 0;
  for (std::int64_t const rows : *gemm.rows) {
    if (rows == 0) continue;
    std::int64_t const of_group = gemm.sums_rows() ? of_mean : divide_up(rows, tile.m) * columns;
    count += of_group;
    steps += static_cast<double>(of_group) * static_cast<double>(rows);
    most = std::max(most, static_cast<double>(rows));
  }
  if (!gemm.sums_rows() || count == 0) return {count, depth, depth};
  return {count, steps / static_cast<double>(count), most};
}

}  // namespace

double main_loop_efficiency(ElementType operands, Calibration const& constants) {
  double const of_16_bits = constants.gemm_efficiency.value;
  if (!is_quantised(operands)) return of_16_bits;
  bool const is_of_4 = element_bits(operands) == 4;
  double const own =
      (is_of_4 ? constants.fp4_gemm_efficiency : constants.low_gemm_efficiency).value;
  return own > 0 ? own : of_16_bits;
}

Seconds gemm_time(GemmAttributes const& gemm,
                  Bytes traffic,
                  Bytes output,
                  FlopsPerSecond peak,
                  System const& system) {
  Calibration const& constants = system.calibration;
  auto const processors = static_cast<std::int64_t>(system.accelerator.multiprocessors.value);
  double const efficiency = main_loop_efficiency(gemm.operands(), constants);
  double const rate = peak.value / static_cast<double>(processors) * efficiency;
  BytesPerSecond const stream{system.accelerator.bandwidth.value.value *
                              constants.stream_efficiency.value};

  double best = std::numeric_limits<double>::infinity();
  for (Tile const& tile : tiles) {
    Cut const made = cut(gemm, tile);
    std::int64_t const waves = divide_up(made.count, processors);
    double const tile_rate = tile.is_small ? rate * constants.gemm_small_tile.value : rate;
    auto const wave = [&](double depth) {
      double const flops = 2.0 * static_cast<double>(tile.m * tile.n) * depth;
      return constants.gemm_tile_prologue.value.value + flops / tile_rate;
    };
    double const all = static_cast<double>(waves) * wave(made.mean_depth);
    best = std::min(best, waves == 0 ? 0 : std::max(all, wave(made.most_depth)));
  }
  double const compute = best + (output / stream).value;
  double const memory = (traffic / stream).value;
  return Seconds{constants.kernel_launch.value.value + std::max(compute, memory)};
}

}  // namespace stagecraft
