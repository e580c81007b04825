#include "libsim/cost/measured_time.hpp"

#include <algorithm>
#include <cmath>

namespace stagecraft {
namespace {

/// The place of an extent on an axis: `share` of the way from entry `lower` to `lower + 1`.
struct AxisPlace {
  std::size_t lower = 0;
  double share = 0;
};

AxisPlace place_on(std::vector<std::int64_t> const& axis, std::int64_t extent) {
  if (extent <= axis.front() || axis.size() == 1) return {};
  if (extent >= axis.back()) return {axis.size() - 2, 1};
  auto const above = std::upper_bound(axis.begin(), axis.end(), extent);
  auto const upper = static_cast<std::size_t>(above - axis.begin());
  double const low = std::log(static_cast<double>(axis[upper - 1]));
  double const high = std::log(static_cast<double>(axis[upper]));
  return {upper - 1, (std::log(static_cast<double>(extent)) - low) / (high - low)};
}

/// Rate of one product, from the eight shapes around it.
double rate_of(GemmGrid const& grid, GemmShape const& gemm) {
  AxisPlace const m = place_on(grid.m, gemm.m);
  AxisPlace const n = place_on(grid.n, gemm.n);
  AxisPlace const k = place_on(grid.k, gemm.k);
  double logarithm = 0;
  for (std::size_t corner = 0; corner < 8; ++corner) {
    auto const weight_and_index = [&](AxisPlace const& place, std::size_t bit, std::size_t size) {
      bool const is_upper = (corner & bit) != 0;
      return std::pair{is_upper ? place.share : 1 - place.share,
                       std::min(place.lower + (is_upper ? 1 : 0), size - 1)};
    };
    auto const [wm, im] = weight_and_index(m, 1, grid.m.size());
    auto const [wn, in] = weight_and_index(n, 2, grid.n.size());
    auto const [wk, ik] = weight_and_index(k, 4, grid.k.size());
    double const weight = wm * wn * wk;
    if (weight == 0) continue;
    std::size_t const index = (im * grid.n.size() + in) * grid.k.size() + ik;
    logarithm += weight * std::log(grid.rates[index].value);
  }
  return std::exp(logarithm);
}

}  // namespace

std::optional<Seconds> measured_time(MeasuredDevice const& measured, Op const& op) {
  if (auto const* const gemm = std::get_if<GemmAttributes>(&op.attributes)) {
    if (is_quantised(gemm->operands())) return std::nullopt;
    auto const forms = measured.gemm.value.find(precision_of(gemm->operands()));
    if (forms == measured.gemm.value.end()) return std::nullopt;
    GemmForm const form = form_of(gemm->shape);
    auto grid = forms->second.find(form);
    if (grid == forms->second.end()) grid = forms->second.find(without_batch(form));
    if (grid == forms->second.end()) return std::nullopt;
    auto const time = [&](GemmShape const& shape) {
      return static_cast<double>(shape.flops()) / rate_of(grid->second, shape);
    };
    if (gemm->rows == nullptr) return Seconds{time(gemm->shape)};
    double sum = 0;
    for (std::int64_t const rows : *gemm->rows) {
      GemmShape of_group = gemm->shape;
      of_group.batch = 1;
      (gemm->sums_rows() ? of_group.k : of_group.m) = rows;
      if (rows > 0) sum += time(of_group);
    }
    return Seconds{sum};
  }
  auto const* const flash = std::get_if<FlashAttributes>(&op.attributes);
  if (flash != nullptr && flash->is_low) return std::nullopt;
  auto const kinds = measured.kernels.value.find(precision_of(op.type));
  if (kinds == measured.kernels.value.end()) return std::nullopt;
  auto const cost = kinds->second.find(op.kind);
  if (cost == kinds->second.end()) return std::nullopt;
  return Seconds{cost->second.latency.value + (op.traffic / cost->second.bandwidth).value};
}

}  // namespace stagecraft
