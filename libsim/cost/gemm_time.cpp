#include "libsim/cost/gemm_time.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace stagecraft {
namespace {

struct Tile {
  std::int64_t m, n;
  bool is_small;  ///< loses main-loop efficiency to operand traffic
};

constexpr std::array<Tile, 3> tiles{{{256, 128, false}, {128, 256, false}, {128, 128, true}}};

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

Seconds gemm_time(
    GemmShape const& gemm, Bytes traffic, Bytes output, FlopsPerSecond peak, System const& system) {
  Calibration const& constants = system.calibration;
  auto const processors = static_cast<std::int64_t>(system.accelerator.multiprocessors.value);
  double const rate =
      peak.value / static_cast<double>(processors) * constants.gemm_efficiency.value;
  BytesPerSecond const stream{system.accelerator.bandwidth.value.value *
                              constants.stream_efficiency.value};

  double best = std::numeric_limits<double>::infinity();
  for (Tile const& tile : tiles) {
    std::int64_t const count = gemm.batch * divide_up(gemm.m, tile.m) * divide_up(gemm.n, tile.n);
    std::int64_t const waves = divide_up(count, processors);
    double const flops = 2.0 * static_cast<double>(tile.m * tile.n) * static_cast<double>(gemm.k);
    double const tile_rate = tile.is_small ? rate * constants.gemm_small_tile.value : rate;
    double const wave = constants.gemm_tile_prologue.value.value + flops / tile_rate;
    best = std::min(best, static_cast<double>(waves) * wave);
  }
  double const compute = best + (output / stream).value;
  double const memory = (traffic / stream).value;
  return Seconds{constants.kernel_launch.value.value + std::max(compute, memory)};
}

}  // namespace stagecraft
