#pragma once

#include <cstdint>

/// Reductions in a fixed order: over 16 lanes, then over a tree of them. The order depends only on
/// the number of terms, and the lanes become vector code.
namespace stagecraft {

inline constexpr std::int64_t reduction_lanes = 16;

/// term(0) + ... + term(n - 1).
template <typename T, typename Term>
T lane_sum(std::int64_t n, Term const& term) {
  T lane[reduction_lanes] = {};
  std::int64_t i = 0;
  for (; i + reduction_lanes <= n; i += reduction_lanes) {
    for (std::int64_t l = 0; l < reduction_lanes; ++l) lane[l] += term(i + l);
  }
  for (std::int64_t l = 0; i + l < n; ++l) lane[l] += term(i + l);
  for (std::int64_t width = reduction_lanes / 2; width > 0; width /= 2) {
    for (std::int64_t l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

/// The largest of `start` and all terms. NaNs among the terms are ignored.
template <typename T, typename Term>
T lane_maximum(std::int64_t n, T start, Term const& term) {
  T lane[reduction_lanes];
  for (T& value : lane) value = start;
  std::int64_t i = 0;
  for (; i + reduction_lanes <= n; i += reduction_lanes) {
    for (std::int64_t l = 0; l < reduction_lanes; ++l) {
      T const value = term(i + l);
      lane[l] = value > lane[l] ? value : lane[l];
    }
  }
  for (std::int64_t l = 0; i + l < n; ++l) {
    T const value = term(i + l);
    lane[l] = value > lane[l] ? value : lane[l];
  }
  T largest = start;
  for (T const value : lane) largest = value > largest ? value : largest;
  return largest;
}

}  // namespace stagecraft
