#pragma once

#include <string>

#include "apps/stagecraft-exec/device_choice.hpp"
#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// Makes the system file of a device from measurements, for every constant with its source.
class SystemMaker {
 public:
  /// For the CPU, which the rank threads of a process share, so nothing has to be assumed.
  explicit SystemMaker(DeviceChoice const& device);
  /// For a GPU. Constants that cannot be measured here are assumed to be those of `like`.
  SystemMaker(DeviceChoice const& device, System const& like);

  /// Measures matrix products and all other kernels. Reports progress on standard error.
  void measure(Precision precision);
  /// On a CPU, measures collectives and messages between rank threads. On a GPU, measures how much
  /// a concurrent copy slows matrix products; with several GPUs, NCCL's collectives and messages.
  void measure_communication();

  System const& system() const { return system_; }

 private:
  void start(DeviceChoice const& device);
  void measure_links();
  void measure_flash_efficiency(Precision precision);
  void set_neutral_constants();

  DeviceChoice device_;
  std::string source_;
  System system_;
  bool has_flash_efficiency_ = false;
};

}  // namespace stagecraft
