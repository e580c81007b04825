#include "libsim/program/forced_routing.hpp"

#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>

namespace stagecraft {
namespace {

/// The number nearest to the golden section of `count` that has no divisor in common with it; of
/// two equally near the smaller.
std::int64_t spreading_stride(std::int64_t count) {
  auto const golden = static_cast<std::int64_t>(
      std::llround(static_cast<double>(count) * (std::sqrt(5.0) - 1) / 2));
  for (std::int64_t away = 0; away < count; ++away) {
    for (std::int64_t const stride : {golden - away, golden + away}) {
      if (stride >= 1 && stride < count && std::gcd(stride, count) == 1) return stride;
    }
  }
  return 1;
}

}  // namespace

ForcedCounts::ForcedCounts(std::vector<std::int64_t> const& rows, std::int64_t tokens)
    : tokens_{tokens}, stride_{spreading_stride(tokens)}, ends_(rows.size()) {
  std::partial_sum(rows.begin(), rows.end(), ends_.begin());
}

std::int64_t ForcedCounts::rows(std::int64_t expert) const {
  auto const e = static_cast<std::size_t>(expert);
  return e == 0 ? ends_[0] : ends_[e] - ends_[e - 1];
}

void ForcedCounts::add_rows(std::int64_t first,
                            std::int64_t count,
                            std::vector<std::int64_t>& rows) const {
  std::int64_t const k = per_token();
  for (std::int64_t token = first; token < first + count; ++token) {
    for (std::int64_t j = 0; j < k; ++j) ++rows[static_cast<std::size_t>(expert_of(token, j))];
  }
}

void ForcedRouting::add(std::int64_t layer, BatchMicrobatchId microbatch, ForcedCounts counts) {
  auto const [known, is_new] =
      known_.try_emplace(counts, static_cast<std::int32_t>(counts_.size()));
  numbers_[{layer, microbatch}] = known->second;
  if (is_new) counts_.push_back(std::move(counts));
  depends_on_microbatch_ = depends_on_microbatch_ || microbatch != every_microbatch;
}

std::int32_t ForcedRouting::number_of(std::int64_t layer, BatchMicrobatchId microbatch) const {
  if (depends_on_microbatch_) {
    auto const own = numbers_.find({layer, microbatch});
    if (own != numbers_.end()) return own->second;
  }
  auto const common = numbers_.find({layer, every_microbatch});
  if (common != numbers_.end()) return common->second;
  throw std::out_of_range{"no counts of layer " + std::to_string(layer) + ", microbatch " +
                          std::to_string(microbatch.value())};
}

}  // namespace stagecraft
