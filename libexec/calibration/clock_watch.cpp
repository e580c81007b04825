#include "libexec/calibration/clock_watch.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include "libexec/calibration/measurement.hpp"

namespace stagecraft {
namespace {

constexpr std::chrono::milliseconds period{10};
constexpr int success = 0;               ///< NVML_SUCCESS
constexpr int multiprocessor_clock = 1;  ///< NVML_CLOCK_SM
constexpr double watts_per_milliwatt = 1e-3;

double median_of(std::vector<ClockSample> const& samples, double ClockSample::*value) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (ClockSample const& sample : samples) values.push_back(sample.*value);
  return median(values);
}

}  // namespace

std::string clock_text(std::vector<ClockSample> const& samples, ClockLimits const& limits) {
  if (samples.empty()) return {};
  auto const [least, most] = std::ranges::minmax(samples, {}, &ClockSample::megahertz);
  return fmt::format(
      "{:.0f} to {:.0f} MHz, {:.0f} in the median, of {:.0f}; {:.0f} W in the median, of {:.0f}",
      least.megahertz, most.megahertz, median_of(samples, &ClockSample::megahertz),
      limits.megahertz, median_of(samples, &ClockSample::watts), limits.watts);
}

/// The functions of NVML that are called, and the device. Initialized as long as it lives.
class ClockWatch::Library {
 public:
  Library(std::string const& device, std::string const& file)
      : library_{dlopen(file.c_str(), RTLD_NOW)} {
    if (library_ == nullptr) throw std::runtime_error{dlerror()};
    try {
      auto const init = function<int (*)()>("nvmlInit_v2");
      auto const find = function<int (*)(char const*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
      shutdown_ = function<int (*)()>("nvmlShutdown");
      clock_ = function<ClockReading>("nvmlDeviceGetClockInfo");
      most_clock_ = function<ClockReading>("nvmlDeviceGetMaxClockInfo");
      power_ = function<PowerReading>("nvmlDeviceGetPowerUsage");
      power_limit_ = function<PowerReading>("nvmlDeviceGetEnforcedPowerLimit");
      require(init(), "nvmlInit_v2");
      if (int const status = find(device.c_str(), &device_); status != success) {
        shutdown_();
        require(status, "nvmlDeviceGetHandleByPciBusId_v2");
      }
    } catch (...) {
      dlclose(library_);
      throw;
    }
  }
  ~Library() {
    shutdown_();
    dlclose(library_);
  }
  Library(Library const&) = delete;
  Library(Library&&) = delete;
  Library& operator=(Library const&) = delete;
  Library& operator=(Library&&) = delete;

  ClockLimits limits() const {
    return {megahertz(most_clock_).value_or(0), watts(power_limit_).value_or(0)};
  }
  std::optional<ClockSample> sample() const {
    auto const clock = megahertz(clock_);
    auto const power = watts(power_);
    if (!clock || !power) return std::nullopt;
    return ClockSample{*clock, *power};
  }

 private:
  using ClockReading = int (*)(void* device, int which, unsigned* megahertz);
  using PowerReading = int (*)(void* device, unsigned* milliwatts);

  static void require(int status, char const* call) {
    if (status == success) return;
    throw std::runtime_error{std::string{call} + " returned " + std::to_string(status)};
  }
  template <typename Function>
  Function function(char const* name) const {
    void* const found = dlsym(library_, name);
    if (found == nullptr) throw std::runtime_error{dlerror()};
    return reinterpret_cast<Function>(found);
  }
  /// Nullopt if the device does not say it.
  std::optional<double> megahertz(ClockReading reading) const {
    unsigned value = 0;
    if (reading(device_, multiprocessor_clock, &value) != success) return std::nullopt;
    return value;
  }
  std::optional<double> watts(PowerReading reading) const {
    unsigned value = 0;
    if (reading(device_, &value) != success) return std::nullopt;
    return watts_per_milliwatt * value;
  }

  void* library_;
  void* device_ = nullptr;
  int (*shutdown_)() = nullptr;
  ClockReading clock_ = nullptr;
  ClockReading most_clock_ = nullptr;
  PowerReading power_ = nullptr;
  PowerReading power_limit_ = nullptr;
};

ClockWatch::ClockWatch(std::string const& device, std::string const& library) {
  try {
    nvml_ = std::make_unique<Library>(device, library);
  } catch (std::runtime_error const& error) {
    obstacle_ = error.what();
    return;
  }
  limits_ = nvml_->limits();
  thread_ = std::thread{[this] { watch(); }};
}

ClockWatch::~ClockWatch() {
  {
    std::scoped_lock const lock{mutex_};
    is_ending_ = true;
  }
  ends_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::vector<ClockSample> ClockWatch::take() {
  std::scoped_lock const lock{mutex_};
  if (nvml_) sample();
  return std::exchange(samples_, {});
}

void ClockWatch::watch() {
  std::unique_lock lock{mutex_};
  while (!ends_.wait_for(lock, period, [this] { return is_ending_; })) sample();
}

void ClockWatch::sample() {
  if (auto const now = nvml_->sample()) samples_.push_back(*now);
}

}  // namespace stagecraft
