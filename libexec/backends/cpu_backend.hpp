#pragma once

#include <memory>
#include <string>

#include "libexec/backends/backend.hpp"
#include "libexec/kernels/cpu_kernels.hpp"

namespace stagecraft {

/// The CPU kernels on this machine's memory. Kernels are over when their call returns.
std::unique_ptr<Backend> make_cpu_backend(KernelNeeds const& needs,
                                          CpuKernelOptions const& options);

/// Name of this machine's processor and number of its threads, as traces give the device.
std::string cpu_description();

}  // namespace stagecraft
