#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace stagecraft {

/// What a GPU says of itself at an instant.
struct ClockSample {
  double megahertz = 0;  ///< of its multiprocessors
  double watts = 0;
};

/// The maximum clock and the power limit; 0: unknown.
struct ClockLimits {
  double megahertz = 0;
  double watts = 0;
};

/// How a GPU's clock and power moved while something ran: "1290 to 1980 MHz, 1650 in the median, of
/// 1980; 655 W in the median, of 700". Empty if there are no samples.
std::string clock_text(std::vector<ClockSample> const& samples, ClockLimits const& limits);

/// Watches the clock and the power of a GPU through NVML, which comes with the driver and is loaded
/// when this is made. A thread takes a sample every 10 ms.
/// Source: NVIDIA Management Library, nvml.h.
class ClockWatch {
 public:
  /// `device`: the PCI address, with a domain of 8 digits, as nvidia-smi writes it, or of 4, as
  /// cudaDeviceGetPCIBusId() does. Without NVML, or if it does
  /// not know the device, there are no samples, and obstacle() says why.
  explicit ClockWatch(std::string const& device, std::string const& library = "libnvidia-ml.so.1");
  ~ClockWatch();
  ClockWatch(ClockWatch const&) = delete;
  ClockWatch(ClockWatch&&) = delete;
  ClockWatch& operator=(ClockWatch const&) = delete;
  ClockWatch& operator=(ClockWatch&&) = delete;

  std::string const& obstacle() const { return obstacle_; }
  ClockLimits const& limits() const { return limits_; }
  /// The samples since the last call, or since the start; always one more, taken now.
  std::vector<ClockSample> take();

 private:
  class Library;

  void watch();
  void sample();

  std::unique_ptr<Library> nvml_;  ///< null if there is none
  std::string obstacle_;
  ClockLimits limits_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_ending_ = false;
  std::vector<ClockSample> samples_;
  std::thread thread_;
};

}  // namespace stagecraft
