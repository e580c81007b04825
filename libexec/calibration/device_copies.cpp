#include "libexec/calibration/device_copies.hpp"

#include <vector>

#include "libexec/backends/random_numbers.hpp"
#include "libexec/calibration/sample_statistics.hpp"

namespace stagecraft {

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
