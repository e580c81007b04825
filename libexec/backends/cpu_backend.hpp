#pragma once

#include <memory>
#include <string>

#include "libexec/backends/backend.hpp"
#include "libexec/kernels/cpu/cpu_kernels.hpp"

namespace stagecraft {

/// Makes a backend of CPU kernels on this machine's memory. Kernels are over when their call
/// returns.
std::unique_ptr<Backend> make_cpu_backend(KernelNeeds const& needs,
                                          CpuKernelOptions const& options);

/// The name and number of threads of this machine's processor, as traces name the device.
std::string cpu_description();

}  // namespace stagecraft
