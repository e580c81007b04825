#include "libexec/calibration/measurement.hpp"

#include <limits>
#include <string>
#include <vector>

#include "libexec/backends/numbers.hpp"

namespace stagecraft {

namespace {

constexpr int most_rounds = 4;
/// Between the quartiles of a machine that does nothing else there are a few percent.
constexpr int most_spread_percent = 15;
/// What takes less time is spread by the clock itself.
constexpr double least_seconds = 20e-6;
constexpr double most_unsteady_percent = 5;

}  // namespace

double SteadyMedians::of(std::function<std::vector<double>()> const& take) {
  ++measured_;
  double best = 0;
  double least_spread = std::numeric_limits<double>::infinity();
  for (int round = 0; round < most_rounds; ++round) {
    std::vector<double> const samples = take();
    double const seconds = median(samples);
    if (seconds < least_seconds) return seconds;
    double const spread = spread_percent(samples);
    if (spread < least_spread) best = seconds;
    least_spread = std::min(least_spread, spread);
    if (least_spread <= most_spread_percent) return best;
  }
  ++unsteady_;
  return best;
}

std::string SteadyMedians::busy_text() const {
  double const percent = measured_ == 0 ? 0 : 100.0 * unsteady_ / measured_;
  if (percent <= most_unsteady_percent) return "";
  return "the machine was busy: " + std::to_string(unsteady_) + " of " + std::to_string(measured_) +
         " measurements stayed more than " + std::to_string(most_spread_percent) +
         " % apart when repeated";
}

MeasurementScale measurement_scale(DeviceKind device) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  if (device == DeviceKind::cpu) {
    return {.extents = {8, 32, 128, 512, 1024},
            .batched_extents = {},
            .batch = 1,
            .operand_bytes = 96 * mebibyte,
            .models = {{.hidden = 64, .heads = 4, .sequence = 32, .micro = 1},
                       {.hidden = 128, .heads = 4, .sequence = 128, .micro = 2},
                       {.hidden = 256, .heads = 8, .sequence = 256, .micro = 2},
                       {.hidden = 512, .heads = 8, .sequence = 256, .micro = 4}}};
  }
  return {.extents = {256, 1024, 2048, 4096, 8192, 16384},
          // The sizes of heads, whose rates are not between those of their neighbours.
          .batched_extents = {64, 80, 96, 128, 160, 256, 512, 2048},
          .batch = 48,
          .operand_bytes = 4096 * mebibyte,
          .models = {{.hidden = 512, .heads = 8, .sequence = 512, .micro = 1},
                     {.hidden = 1024, .heads = 16, .sequence = 1024, .micro = 2},
                     {.hidden = 2048, .heads = 16, .sequence = 2048, .micro = 2},
                     {.hidden = 4096, .heads = 32, .sequence = 2048, .micro = 4}},
          // 4 ms forward and backward on an H100, two thirds of them products.
          .load = {.hidden = 4096, .heads = 32, .sequence = 2048, .micro = 1},
          .flash_by_bytes = false};
}

double queued_seconds(Backend& backend, std::function<void()> const& issue) {
  DeviceTimeline& device = *backend.timeline();
  device.restart(true);
  auto const begin = device.mark();
  issue();
  auto const end = device.mark();
  device.synchronize();
  return to_seconds(device.time_of(end) - device.time_of(begin));
}

DeviceCopies::DeviceCopies(Backend& backend)
    : backend_{backend}, from_{backend.allocate(bytes)}, to_{backend.allocate(bytes)} {
  constexpr int repetitions = 5;
  constexpr int queued = 20;
  RandomNumbers{ElementType::f32, 1}.write(backend, from_, bytes);
  run(1);
  std::vector<double> seconds;
  seconds.reserve(repetitions);
  for (int i = 0; i < repetitions; ++i) {
    seconds.push_back(queued_seconds(backend, [&] { run(queued); }) / queued);
  }
  seconds_each_ = median(seconds);
}

DeviceCopies::~DeviceCopies() {
  backend_.deallocate(from_, bytes);
  backend_.deallocate(to_, bytes);
}

void DeviceCopies::run(int count) {
  for (int i = 0; i < count; ++i) backend_.copy(to_, from_, bytes);
}

BytesPerSecond DeviceCopies::bandwidth() const {
  return {2 * static_cast<double>(bytes) / seconds_each_};
}

}  // namespace stagecraft
