#pragma once

#include <string>

#include "apps/stagecraft-exec/device_choice.hpp"
#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// Makes the system file of a device from measurements, for every constant with its source.
class SystemMaker {
 public:
  /// Of the CPU: rank threads of one process share it, and nothing has to be assumed.
  explicit SystemMaker(DeviceChoice const& device);
  /// Of a GPU: what it cannot measure alone is assumed to be as in `like`.
  SystemMaker(DeviceChoice const& device, System const& like);

  /// Matrix products and all other kernels. Says on standard error what it is at.
  void measure(Precision precision);
  /// On a CPU: collectives and messages between rank threads. On a GPU: how much slower its matrix
  /// products are beside a copy; where there are several, NCCL's collectives and messages.
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
