#pragma once

#include <vector>

namespace stagecraft {

/// How far predictions are from measurements, as fractions: 0.05 is 5 %.
struct PredictionErrors {
  double mean = 0;    ///< mean of the absolute error |predicted / measured - 1|
  double median = 0;  ///< median of the absolute error
  double p90 = 0;     ///< 90th percentile of the absolute error
  double bias = 0;    ///< median of predicted / measured, minus 1
  double spread = 0;  ///< mean absolute deviation of predicted / measured from its median
};

/// The errors of runs whose predicted values are `ratios` times the measured ones.
/// Pre: not empty.
PredictionErrors prediction_errors(std::vector<double> const& ratios);

/// The value below which the given fraction of the values lies. Between two values it is
/// interpolated linearly, so that the median of an even number of values is the mean of the middle
/// two. Pre: not empty; 0 <= fraction <= 1.
/// Source: Hyndman and Fan 1996, "Sample quantiles in statistical packages", definition 7.
double quantile(std::vector<double> values, double fraction);

}  // namespace stagecraft
