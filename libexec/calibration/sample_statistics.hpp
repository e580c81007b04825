#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace stagecraft {

/// The value below which a share of the samples lies. Pre: at least one sample; 0 <= share <= 1.
inline double quantile(std::vector<double> samples, double share) {
  std::sort(samples.begin(), samples.end());
  auto const place = share * static_cast<double>(samples.size() - 1) + 0.5;
  return samples[static_cast<std::size_t>(place)];
}

inline double median(std::vector<double> const& samples) { return quantile(samples, 0.5); }

/// The distance from the first to the third quartile in percent of the median. Pre: that is not 0.
inline double spread_percent(std::vector<double> const& samples) {
  return 100 * (quantile(samples, 0.75) - quantile(samples, 0.25)) / median(samples);
}

}  // namespace stagecraft
